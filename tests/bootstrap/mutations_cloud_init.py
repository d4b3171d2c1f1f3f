"""Mutations of what cloud-init itself reads: user-data, network-config, meta-data."""

from tests.bootstrap.changes import HEADER, WHOLE, Change, drop, edit, put
from tests.bootstrap.mutation_rows import FIRST, JOINING, WORKER, Breaks, Mutation

USER, NETWORK, META = "user-data", "network-config", "meta-data"
MODULES = "cloud-init docs: module reference"
NOCLOUD = "cloud-init docs: NoCloud"
NETWORK_V2 = "cloud-init docs: network config version 2"
PITFALLS = "facts/proxmox.md 2"
NIC = "ethernets.eth0"


def row(
    file: str,
    key: str,
    how: str,
    change: Change,
    joins: bool,
    why: str,
    source: str,
    machine: str = WORKER,
    breaks: Breaks = Breaks.NOTHING,
) -> Mutation:
    return Mutation(file, key, how, change, joins, why, source, machine, breaks=breaks)


USER_DATA = (
    row(USER, HEADER, "dropped", drop(USER, HEADER), False, "not recognised, so ignored with a warning",
        "cloud-init docs: user-data formats"),
    row(USER, WHOLE, "emptied", drop(USER, WHOLE), False, "nothing to do", NOCLOUD),
    row(USER, WHOLE, "no YAML", put(USER, WHOLE, "#cloud-config\nwrite_files: [\n"), False,
        "unreadable, so ignored with a warning", "cloud-init docs: user-data formats"),
    row(USER, "hostname", "dropped", drop(USER, "hostname"), True, "local-hostname of the meta-data counts", MODULES),
    row(USER, "hostname", "altered", put(USER, "hostname", "someone-else"), True,
        "the node's name is given by itself", "k3s docs: cli/agent (node-name)"),
    row(USER, "preserve_hostname", "true", put(USER, "preserve_hostname", True), True,
        "the template's name stays, the node's name is given by itself", MODULES),
    row(USER, "manage_etc_hosts", "dropped", drop(USER, "manage_etc_hosts"), True, "the template's file stays",
        MODULES),
    row(USER, "ssh_pwauth", "dropped", drop(USER, "ssh_pwauth"), True, "sshd's own setting stays", MODULES),
    row(USER, "disable_root", "dropped", drop(USER, "disable_root"), True, "true is the default", MODULES),
    row(USER, "package_update", "dropped", drop(USER, "package_update"), True, "false is the default", MODULES),
    row(USER, "package_upgrade", "dropped", drop(USER, "package_upgrade"), True, "false is the default", MODULES),
    row(USER, "write_files", "dropped", drop(USER, "write_files"), False, "no file, no unit to start", MODULES),
    row(USER, "runcmd", "dropped", drop(USER, "runcmd"), False, "nobody starts the install unit", MODULES),
    row(USER, "runcmd", "without start", edit(USER, "runcmd", lambda old: old[:2]), False,
        "enabled for the next boot, but this one never starts it", "systemctl(1)"),
    row(USER, "runcmd", "without enable", edit(USER, "runcmd", lambda old: [old[0], old[2]]), True,
        "started once; a power cut before it has ended is not made good", "systemctl(1)", breaks=Breaks.REBOOT),
    row(USER, "runcmd", "dropped", drop(USER, "runcmd"), False, "nobody starts the install unit", MODULES, FIRST),
)  # fmt: skip

NETWORK_CONFIG = (
    row(NETWORK, "version", "dropped", drop(NETWORK, "version"), False,
        "not read as version 2; the machine asks for an address by DHCP and nobody answers", NETWORK_V2),
    row(NETWORK, f"{NIC}.match.macaddress", "another", put(NETWORK, f"{NIC}.match.macaddress", "bc:24:11:ff:ff:ff"),
        False, "no interface of this address", f"{PITFALLS} (5)"),
    row(NETWORK, f"{NIC}.match.macaddress", "a number", put(NETWORK, f"{NIC}.match.macaddress", 8041827010), False,
        "an unquoted MAC of digits is a number", f"{PITFALLS} (3)"),
    row(NETWORK, f"{NIC}.set-name", "dropped", drop(NETWORK, f"{NIC}.set-name"), True,
        "the interface keeps the kernel's name", NETWORK_V2),
    row(NETWORK, f"{NIC}.set-name", "dropped", drop(NETWORK, f"{NIC}.set-name"), True,
        "kube-vip looks for eth0", NETWORK_V2, FIRST, Breaks.VIRTUAL_IP),
    row(NETWORK, f"{NIC}.dhcp4", "dropped", drop(NETWORK, f"{NIC}.dhcp4"), True, "false is the default", NETWORK_V2),
    row(NETWORK, f"{NIC}.dhcp6", "dropped", drop(NETWORK, f"{NIC}.dhcp6"), True, "false is the default", NETWORK_V2),
    row(NETWORK, f"{NIC}.addresses", "dropped", drop(NETWORK, f"{NIC}.addresses"), False,
        "node-ip is no address of this host", NETWORK_V2),
    row(NETWORK, f"{NIC}.addresses", "another", put(NETWORK, f"{NIC}.addresses", ["192.0.2.240/24"]), False,
        "node-ip is no address of this host", "kubernetes pkg/kubelet/nodestatus: node IP not found"),
    row(NETWORK, f"{NIC}.addresses", "another", put(NETWORK, f"{NIC}.addresses", ["192.0.2.240/24"]), False,
        "node-ip is no address of this host", "kubernetes pkg/kubelet/nodestatus: node IP not found", JOINING),
    row(NETWORK, f"{NIC}.routes[0].to", "default", put(NETWORK, f"{NIC}.routes[0].to", "default"), False,
        "cloud-init's renderer ends with an error, the NIC stays down", f"{PITFALLS} (1); CAPMOX PR 34"),
    row(NETWORK, f"{NIC}.routes[0].to", "dropped", drop(NETWORK, f"{NIC}.routes[0].to"), False,
        "a route needs a target: the renderer ends with an error", NETWORK_V2),
    row(NETWORK, f"{NIC}.routes[0].via", "nobody", put(NETWORK, f"{NIC}.routes[0].via", "192.0.2.254"), True,
        "neighbours are reached, the world is not", "facts 2.2: a default route must exist", breaks=Breaks.IMAGES),
    row(NETWORK, f"{NIC}.nameservers.addresses", "dropped", drop(NETWORK, f"{NIC}.nameservers.addresses"), True,
        "addresses are given as numbers; names of the world are not resolved", NETWORK_V2, breaks=Breaks.IMAGES),
)  # fmt: skip

META_DATA = (
    row(META, WHOLE, "emptied", drop(META, WHOLE), False, "both files are required", NOCLOUD),
    row(META, "instance-id", "another", put(META, "instance-id", "another"), True,
        "on the first boot any id is new", NOCLOUD),
    row(META, "local-hostname", "dropped", drop(META, "local-hostname"), True, "user-data names the host", NOCLOUD),
    row(META, "local-hostname", "another", put(META, "local-hostname", "someone-else"), True,
        "user-data's name counts before it", MODULES),
)  # fmt: skip

ROWS = (*USER_DATA, *NETWORK_CONFIG, *META_DATA)
