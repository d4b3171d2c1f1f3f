"""Real nodes behind the simulated Proxmox VE: a VM is a Debian system in systemd-nspawn with Kubernetes."""
