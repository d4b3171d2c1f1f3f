"""A simulated Proxmox VE datacenter, met by HTTP only. SPDX-License-Identifier: AGPL-3.0-or-later."""
