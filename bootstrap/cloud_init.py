"""cloud-init's three files: user-data, network-config and meta-data.

The pitfalls that shape them are in facts/proxmox.md 2: a default route is written as `0.0.0.0/0`, booleans are
booleans, the MAC is quoted and lower-case, and the host's name is the VM's and the node's.
"""

from collections.abc import Sequence

from bootstrap.boot_input import BootInput, NodeFile
from bootstrap.kube_vip import INTERFACE
from bootstrap.yaml_text import Quoted, yaml_text


def user_data(boot: BootInput, files: Sequence[NodeFile], commands: Sequence[Sequence[str]]) -> str:
    """Renders the user-data.

    Args:
        boot: the machine, for its host name.
        files: written before any command runs.
        commands: run once, at the end of the first boot.
    """
    document: dict[str, object] = {
        "hostname": Quoted(boot.machine.name),
        "preserve_hostname": False,
        "manage_etc_hosts": "localhost",
        "ssh_pwauth": False,
        "disable_root": True,
        # A node installs nothing that was not asked for, and starts without a package mirror.
        "package_update": False,
        "package_upgrade": False,
        "write_files": [
            {
                "path": file.path,
                "owner": "root:root",
                "permissions": Quoted(f"{file.mode:04o}"),
                "content": file.content,
            }
            for file in files
        ],
        "runcmd": [list(command) for command in commands],
    }
    return "#cloud-config\n" + yaml_text(document)


def network_config(boot: BootInput) -> str:
    """Renders the network-config (version 2): one NIC, found by its MAC, with a fixed address."""
    network = boot.spec.network
    interface = {
        "match": {"macaddress": Quoted(boot.machine.mac.lower())},
        "set-name": INTERFACE,
        "dhcp4": False,
        "dhcp6": False,
        "addresses": [f"{boot.machine.address}/{network.prefix}"],
        "routes": [{"to": "0.0.0.0/0", "via": network.gateway}],
        "nameservers": {"addresses": list(network.dns_servers)},
    }
    return yaml_text({"version": 2, "ethernets": {INTERFACE: interface}})


def meta_data(boot: BootInput) -> str:
    """Renders the meta-data. The instance id is the SMBIOS uuid: the same over reboots, another for each VM."""
    return yaml_text({"instance-id": Quoted(boot.machine.bios_uuid), "local-hostname": Quoted(boot.machine.name)})
