"""Addresses of a cluster's nodes: reading ranges, counting them, and ranges for pods and services.

Only IPv4: the manifest's fields are defined for it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from netaddr import AddrFormatError, IPAddress, IPNetwork

from domain.clusters import ClusterSpec, Distribution, NetworkSpec

_DOTTED = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}")
_PREFIX = re.compile(r"[0-9]|[12][0-9]|3[0-2]")

DEFAULT_RANGES: dict[Distribution, tuple[str, str]] = {
    Distribution.KUBEADM: ("10.244.0.0/16", "10.96.0.0/12"),
    Distribution.RKE2: ("10.42.0.0/16", "10.43.0.0/16"),
    Distribution.K3S: ("10.42.0.0/16", "10.43.0.0/16"),
}
"""Each distribution's own pod and service range."""

# Private ranges to fall back on, far apart, so that no usual node network meets all of them.
_SPARE_PODS = ("10.244.0.0/16", "10.42.0.0/16", "10.180.0.0/16", "172.20.0.0/16", "192.168.0.0/16", "100.80.0.0/16")
_SPARE_SERVICES = ("10.43.0.0/16", "10.181.0.0/16", "172.21.0.0/16", "172.28.0.0/16", "100.81.0.0/16")


class Range(NamedTuple):
    """Addresses from `first` to `last`, both included, as integers."""

    first: int
    last: int

    def __contains__(self, address: object) -> bool:
        return isinstance(address, int) and self.first <= address <= self.last

    def overlaps(self, other: "Range") -> bool:
        return self.first <= other.last and other.first <= self.last

    @property
    def size(self) -> int:
        return self.last - self.first + 1


def address(text: str) -> int | None:
    """An IPv4 address in dotted form as an integer; None for anything else."""
    if not _DOTTED.fullmatch(text):
        return None
    try:
        return int(IPAddress(text, version=4))
    except (AddrFormatError, ValueError):
        return None


def dotted(number: int) -> str:
    """The dotted form of an address."""
    return str(IPAddress(number, version=4))


def block(text: str) -> Range | None:
    """A network in CIDR notation whose host part is zero; None for anything else."""
    base, slash, prefix = text.partition("/")
    first = address(base)
    if first is None or not slash or not _PREFIX.fullmatch(prefix):
        return None
    network = IPNetwork((first, int(prefix)), version=4)
    return Range(network.first, network.last) if network.first == first else None


def entry(text: str) -> Range | None:
    """One entry of `network.addresses`: a range, a network or a single address; None for anything else."""
    if "/" in text:
        return block(text)
    low, dash, high = text.partition("-")
    first = address(low.strip())
    last = address(high.strip()) if dash else first
    if first is None or last is None or first > last:
        return None
    return Range(first, last)


def node_network(network: NetworkSpec) -> Range | None:
    """The nodes' network, which is the gateway with the prefix length; None while either cannot be read."""
    gateway = address(network.gateway)
    if gateway is None or not 1 <= network.prefix <= 32:
        return None
    whole = IPNetwork((gateway, network.prefix), version=4)
    return Range(whole.first, whole.last)


def hosts(network: Range) -> Range | None:
    """The addresses that a host can have: without the network's own and its broadcast address, except in /31, /32."""
    if network.size <= 2:
        return network
    return Range(network.first + 1, network.last - 1)


def usable(network: NetworkSpec) -> list[Range]:
    """What nodes can be given, without doubles, in the order in which the owner wrote it.

    Entries that cannot be read are passed over, and of the rest only what lies inside the nodes' network counts.
    """
    whole = node_network(network)
    bounds = hosts(whole) if whole else None
    if bounds is None:
        return []
    parts: list[Range] = []
    for text in network.addresses:
        given = entry(text)
        if given is not None and given.overlaps(bounds):
            parts += _outside_of(Range(max(given.first, bounds.first), min(given.last, bounds.last)), parts)
    return parts


def expand(network: NetworkSpec) -> Iterator[str]:
    """Every address that nodes can be given, lazily, in the owner's order: a /8 costs nothing until it is walked."""
    for part in usable(network):
        for number in range(part.first, part.last + 1):
            yield dotted(number)


def capacity(network: NetworkSpec) -> int:
    """How many nodes have room, the extra one of an upgrade included."""
    return sum(part.size for part in usable(network))


def network_id(site_id: str, network: NetworkSpec) -> str:
    """The network within which addresses are unique: site, bridge and VLAN."""
    return f"{site_id}/{network.bridge}/{network.vlan or 0}"


def choose_ranges(spec: ClusterSpec, avoid: Iterable[str] = ()) -> ClusterSpec:
    """The spec with both its pod and its service range, as F-026 asks.

    Given ones stay (`domain.validation` refuses those that overlap). Otherwise the distribution's own where it is clear
    of the nodes' network, of the other range, of the DNS servers and of `avoid` (addresses that nodes must reach, such
    as the site's endpoints); otherwise the first of a few private ranges that is clear. A part for which nothing is
    clear stays empty.
    """
    taken = [found for found in (node_network(spec.network), *map(entry, (*spec.network.dns_servers, *avoid))) if found]
    pods_own, services_own = DEFAULT_RANGES[spec.distribution]
    given = _blocks(spec.pod_cidrs) + _blocks(spec.service_cidrs)
    chosen: dict[str, tuple[str, ...]] = {}
    if not spec.pod_cidrs:
        # The default service range is kept clear as well, so that choosing pods does not push services aside.
        reserve = [] if spec.service_cidrs else _blocks((services_own,))
        pods = _first_clear((pods_own, *_SPARE_PODS), taken + given + reserve)
        chosen["pod_cidrs"] = pods
        given += _blocks(pods)
    if not spec.service_cidrs:
        chosen["service_cidrs"] = _first_clear((services_own, *_SPARE_SERVICES), taken + given)
    return spec.model_copy(update=chosen) if chosen else spec


def _first_clear(candidates: Iterable[str], taken: Sequence[Range]) -> tuple[str, ...]:
    for text in candidates:
        candidate = block(text)
        if candidate is not None and not any(candidate.overlaps(other) for other in taken):
            return (text,)
    return ()


def _blocks(texts: Iterable[str]) -> list[Range]:
    return [found for found in map(block, texts) if found is not None]


def _outside_of(given: Range, parts: Sequence[Range]) -> list[Range]:
    """What of `given` lies in none of `parts`."""
    left = [given]
    for part in parts:
        left = [
            piece
            for one in left
            for piece in (
                Range(one.first, min(one.last, part.first - 1)),
                Range(max(one.first, part.last + 1), one.last),
            )
            if piece.first <= piece.last
        ]
    return left
