"""What a node is given to become a node: certificates, tokens, cloud-init data, the boot ISO. Pure."""
