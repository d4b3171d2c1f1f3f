"""A VM's configuration as Proxmox VE writes it: property strings read, compared and rewritten. Pure.

A property string is `first,key=value,...`, where the first part may go without its key (`virtio=AA:...`, `1`, a volume
id). Values that are already right are left out of a change, so that an empty change means: done.
"""

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Any

from domain.clusters import Cluster
from domain.machines import Machine

MARK_TAG = "trilithon"

Config = Mapping[str, Any]

_DRIVE = re.compile(r"^(scsi|virtio|sata|ide)\d+$")
_NIC_KEPT = ("firewall", "mtu", "queues", "rate", "trunks")
"""What a machine's card keeps of its template's: the administrator chose it for the bridge (facts/proxmox.md 1.9)."""
_SMBIOS_ENCODED = ("serial", "manufacturer", "product", "version", "sku", "family")


def parse(text: str, first: str = "") -> dict[str, str]:
    """A property string as a dict in its order; a first part without `=` gets the key `first`."""
    found: dict[str, str] = {}
    for position, part in enumerate(part for part in text.split(",") if part):
        key, separator, value = part.partition("=")
        if separator:
            found[key] = value
        elif position == 0:
            found[first] = part
        else:
            found[part] = ""
    return found


def text_of(parts: Mapping[str, str], first: str = "") -> str:
    """The inverse of `parse`: the part under the key `first` goes without its key."""
    return ",".join(value if key == first and not key else f"{key}={value}" for key, value in parts.items())


def marker_of(config: Config) -> str:
    """The first line of the description: our marker in VMs that are ours. People may add lines below it."""
    lines = str(config.get("description") or "").strip().splitlines()
    return lines[0].strip() if lines else ""


def drives(config: Config) -> dict[str, str]:
    """Disks and CD-ROMs by their slot."""
    return {key: str(value) for key, value in config.items() if _DRIVE.match(key)}


def is_cdrom(drive: str) -> bool:
    return "media=cdrom" in drive or "cloudinit" in drive.split(",")[0]


def system_disk(config: Config) -> str | None:
    """The slot that the VM boots from: the first disk of its boot order, or the first disk there is."""
    disks = [slot for slot, drive in drives(config).items() if not is_cdrom(drive)]
    order = parse(str(config.get("boot") or "")).get("order", "")
    named = [*order.split(";"), str(config.get("bootdisk") or "")]
    rank = {"scsi": 0, "virtio": 1, "sata": 2, "ide": 3}
    by_bus = sorted(disks, key=lambda slot: (rank[slot.rstrip("0123456789")], slot))
    return next((slot for slot in [*named, *by_bus] if slot in disks), None)


def storage_of(drive: str) -> str:
    """The storage of a drive's volume: `shared` of `shared:vm-9001-disk-0,size=4G`."""
    return drive.split(",")[0].partition(":")[0]


_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def size_of(drive: str) -> int:
    """A drive's size in bytes; 0 where it is not told."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)", parse(drive).get("size", ""))
    return int(float(match[1]) * _UNITS[match[2]]) if match else 0


def net0(config: Config, machine: Machine, bridge: str, vlan: int | None) -> str:
    """The machine's network card: our MAC, bridge and VLAN; the template's model and settings kept.

    The MAC is always written: a card that is written without one gets a new random MAC each time.
    """
    old = parse(str(config.get("net0") or ""))
    model = next((key for key in old if key not in _NIC_KEPT and key not in ("bridge", "tag", "link_down")), "virtio")
    if model == "model" or not model:
        model = old.get("model", "virtio")
    parts = {model: machine.mac.upper(), "bridge": bridge}
    parts.update({key: old[key] for key in _NIC_KEPT if key in old and key != "trunks"})
    if vlan is not None:
        parts["tag"] = str(vlan)
    return text_of(parts)


def smbios1(config: Config, machine: Machine) -> str:
    """BIOS uuid and serial. The serial `i=<vmid>` lets the volume driver find the VM after its node is gone
    (facts/proxmox-addons.md C1); the uuid is what the cloud controller matches with."""
    old = parse(str(config.get("smbios1") or ""))
    encoded = old.pop("base64", "0") == "1"
    old.pop("uuid", None)
    kept = {
        key: value if encoded else base64.b64encode(value.encode()).decode()
        for key, value in old.items()
        if key in _SMBIOS_ENCODED and key != "serial"
    }
    serial = base64.b64encode(f"i={machine.vmid}".encode()).decode()
    return text_of({"uuid": machine.bios_uuid, "serial": serial, **kept, "base64": "1"})


def agent(config: Config) -> str:
    """The guest agent switched on, its other options kept."""
    old = parse(str(config.get("agent") or ""), first="enabled")
    old.pop("enabled", None)
    return text_of({"enabled": "1", **old})


def boot(config: Config) -> str | None:
    """A boot order with the system disk in front, in the modern form, or None where the VM has no disk."""
    disk = system_disk(config)
    order = parse(str(config.get("boot") or "")).get("order", "")
    if disk is None:
        return None
    return f"order={order}" if order.split(";")[0] == disk else f"order={disk}"


def tags(config: Config, cluster: Cluster) -> str:
    """Ours and the cluster's tag, and whatever else somebody tagged the machine with."""
    ours = [MARK_TAG, cluster.spec.pool_name.lower()]
    return ";".join(dict.fromkeys([*ours, *split_tags(config)]))


def split_tags(config: Config) -> list[str]:
    return [tag for tag in re.split(r"[;, ]+", str(config.get("tags") or "").lower()) if tag]


def changes(config: Config, machine: Machine, cluster: Cluster, *, fresh: bool) -> dict[str, Any]:
    """What has to be written so that the VM is the machine; empty when it is.

    `fresh`: the VM was never configured by us, so its tags are the template's and go.
    """
    network = cluster.spec.network
    wanted: dict[str, Any] = {
        "name": machine.name,
        "cores": machine.cores,
        "sockets": 1,
        "memory": machine.memory_mib,
        "net0": net0(config, machine, network.bridge, network.vlan),
        "smbios1": smbios1(config, machine),
        "onboot": 1,
        "agent": agent(config),
        "tags": tags({} if fresh else config, cluster),
        "boot": boot(config),
    }
    changed = {key: value for key, value in wanted.items() if value is not None and not _same(key, config, value)}
    # A cloud-init drive is a second volume named `cidata` beside our ISO: which one wins is undefined.
    stale = [slot for slot, drive in drives(config).items() if "cloudinit" in drive.split(",")[0]]
    if config.get("template"):
        raise ValueError("a template is never configured as a machine")
    if stale:
        changed["delete"] = ",".join(stale)
    return changed


def _same(key: str, config: Config, wanted: Any) -> bool:
    have = config.get(key)
    if key == "sockets":
        return int(have or 1) == 1
    if key == "tags":
        return set(split_tags(config)) == set(str(wanted).split(";"))
    if have is None:
        return False
    if key in ("net0", "smbios1"):
        return _folded(str(have)) == _folded(str(wanted))
    if key == "agent":
        return parse(str(have), first="enabled") == parse(str(wanted))
    return str(have) == str(wanted)


def _folded(text: str) -> dict[str, str]:
    """Parts of a property string without regard to case of MAC and uuid (serials are base64: case matters there)."""
    return {
        key: value if key in _SMBIOS_ENCODED else value.lower() for key, value in parse(text).items() if key != "base64"
    }


def free_cdrom_slot(config: Config, preferred: Sequence[str] = ("ide2", "ide3", "ide1", "ide0", "sata5")) -> str | None:
    """A slot for a CD-ROM: an empty drive, or a slot without one. `ide2` first, where people expect it."""
    for slot in preferred:
        drive = config.get(slot)
        if drive is None or str(drive).split(",")[0] == "none":
            return slot
    return None


def slots_with(config: Config, volume: str) -> list[str]:
    """The slots that hold a volume (`iso:iso/user-data-20001.iso`)."""
    return [slot for slot, drive in drives(config).items() if drive.split(",")[0] == volume]
