"""Real nodes behind the simulated Proxmox VE: a started VM is a Debian system in systemd-nspawn with real Kubernetes."""
