"""What a started VM is, simulated: a disk, cloud-init, units, a supervisor that refuses what the real one refuses."""
