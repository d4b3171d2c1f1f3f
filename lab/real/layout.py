"""Addresses and folders of one laboratory of real nodes."""

import os
from dataclasses import dataclass
from ipaddress import IPv4Interface
from pathlib import Path

HERE = Path(__file__).resolve().parent
HIERARCHIES = ("systemd", "unified", "cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids")
"""The cgroup hierarchies in which every machine gets a group of its own."""
CGROUP = "trilithon"
"""Name of our group in each hierarchy; everything below it is ours."""


def cache_folder() -> Path:
    """Trees, images and disks: $TRILITHON_REAL_CACHE, or ~/.cache/trilithon/real. Must not lie on an overlay."""
    given = os.environ.get("TRILITHON_REAL_CACHE")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(given) if given else base / "trilithon" / "real"


@dataclass(frozen=True)
class Layout:
    """What `space` (N) decides.

    Inside the laboratory's namespace: bridge vmbr0 with 172.30.N.1 (the gateway and pve1), .2 and .3 (pve2, pve3);
    VLAN V of a bridge has 172.29.(V mod 256).1/24. Outside, on the machine's loopback: 127.0.N.1-3 lead to the
    simulated Proxmox VE, 127.0.N.9 is this control API and a proxy into the laboratory.
    """

    space: int

    @property
    def inside(self) -> str:
        """First three numbers of the clusters' network."""
        return f"172.30.{self.space}"

    @property
    def outside(self) -> str:
        """First three numbers of the addresses on the machine's loopback."""
        return f"127.0.{self.space}"

    def gateways(self, bridge: str, vlan: int | None) -> list[IPv4Interface]:
        """Our own addresses on a bridge: none on bridges that nobody described."""
        if vlan:
            return [IPv4Interface(f"172.29.{vlan % 256}.1/24")]
        return [IPv4Interface(f"{self.inside}.{n}/24") for n in (1, 2, 3)] if bridge == "vmbr0" else []
