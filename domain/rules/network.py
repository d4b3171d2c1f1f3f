"""Rules of the wizard's page Network: bridge, addresses, the virtual IP, ranges, and the pod network."""

from collections.abc import Iterator

from domain.addresses import Range, address, block, capacity, dotted, entry, hosts, network_id, node_network
from domain.clusters import ClusterSpec, Cni, Distribution
from domain.errors import Violation, ViolationCode, shown
from domain.rules.context import Neighbour, SiteContext
from domain.rules.forms import (
    bounded,
    conflicts,
    duplicate,
    is_proxmox_name,
    malformed,
    out_of_range,
    overlaps,
    variable,
)

CNIS: dict[Distribution, tuple[Cni, ...]] = {
    Distribution.KUBEADM: (Cni.CILIUM, Cni.CALICO),
    Distribution.RKE2: (Cni.CANAL, Cni.CALICO, Cni.CILIUM),
    Distribution.K3S: (Cni.FLANNEL, Cni.CILIUM, Cni.CALICO),
}
"""What each distribution offers; the first is the default, except for kubeadm, which has none."""

VLANS = range(1, 4095)
MAX_ENTRIES = 256
MAX_DNS_SERVERS = 8
"""More than a resolver asks; a list that long is a mistake."""

ENDPOINT = variable("controlPlaneEndpoint")
LOOPBACK = Range(127 << 24, (128 << 24) - 1)
_NOT_FOR_HOSTS = (Range(0, (1 << 24) - 1), Range(224 << 24, (1 << 32) - 1))
"""0.0.0.0/8, multicast and reserved addresses."""
_POD_BLOCK = 256
"""Every node takes a /24 of the pod range (the controller manager's default, and each CNI's here)."""
_LARGEST_SERVICES = 1 << 20
"""kube-apiserver refuses a service range larger than a /12."""
_SMALLEST_SERVICES = 16


def effective_cni(spec: ClusterSpec) -> Cni | None:
    """The pod network that the cluster gets; None where one must still be chosen."""
    if spec.cni is not None or spec.distribution is Distribution.KUBEADM:
        return spec.cni
    return CNIS[spec.distribution][0]


def check(spec: ClusterSpec, context: SiteContext) -> Iterator[Violation]:
    """Everything wrong on this page."""
    yield from _bridge(spec, context)
    yield from _gateway(spec)
    yield from _dns(spec)
    yield from _loopback(spec, context)
    if len(spec.network.addresses) > MAX_ENTRIES:
        yield out_of_range(
            variable("network", "addresses"),
            f"{len(spec.network.addresses)} entries are too many",
            f"use at most {MAX_ENTRIES}; ranges and networks hold many addresses each",
        )
        return
    yield from _addresses(spec)
    yield from _endpoint(spec)
    yield from _ranges(spec, context)
    yield from _neighbours(spec, context)
    yield from _pod_network(spec)


def _bridge(spec: ClusterSpec, context: SiteContext) -> Iterator[Violation]:
    path = variable("network", "bridge")
    if not is_proxmox_name(spec.network.bridge):
        yield malformed(path, spec.network.bridge, "a name of a bridge", "write it as Proxmox VE does, like vmbr0")
    elif context.bridges and spec.network.bridge not in context.bridges:
        yield Violation(
            path=path,
            code=ViolationCode.NOT_ALLOWED,
            message=f"clusters may not use bridge {spec.network.bridge}",
            remedy=f"use {' or '.join(context.bridges)}",
        )
    if spec.network.vlan is not None:
        yield from bounded(variable("network", "vlan"), spec.network.vlan, VLANS[0], VLANS[-1], "a VLAN tag")


def _gateway(spec: ClusterSpec) -> Iterator[Violation]:
    path = variable("network", "gateway")
    yield from bounded(variable("network", "prefix"), spec.network.prefix, 1, 32, "a prefix length")
    gateway = address(spec.network.gateway)
    if gateway is None or _unfit(gateway):
        yield malformed(path, spec.network.gateway, "an address of a gateway", "write an IPv4 address like 192.0.2.1")
        return
    network = node_network(spec.network)
    bounds = hosts(network) if network else None
    if bounds and gateway not in bounds:
        yield Violation(
            path=path,
            code=ViolationCode.OUTSIDE_NETWORK,
            message=f"{spec.network.gateway} is the network's own or its broadcast address, not a host's",
            remedy="correct the gateway or the prefix length",
        )


def _dns(spec: ClusterSpec) -> Iterator[Violation]:
    path = variable("network", "dnsServers")
    servers = spec.network.dns_servers
    if not 1 <= len(servers) <= MAX_DNS_SERVERS:
        yield out_of_range(path, f"there are {len(servers)} DNS servers", f"give 1 to {MAX_DNS_SERVERS} of them")
        return
    for index, server in enumerate(servers):
        number = address(server)
        if number is None or _unfit(number):
            yield malformed(
                f"{path}[{index}]", server, "an address of a DNS server", "write an IPv4 address like 192.0.2.1"
            )
        if server in servers[:index]:
            yield duplicate(f"{path}[{index}]", server)


def _addresses(spec: ClusterSpec) -> Iterator[Violation]:
    path = variable("network", "addresses")
    network = node_network(spec.network)
    bounds = hosts(network) if network else None
    gateway = address(spec.network.gateway)
    servers = {server: address(server) for server in spec.network.dns_servers[:MAX_DNS_SERVERS]}
    seen: list[Range] = []
    for index, text in enumerate(spec.network.addresses):
        here = f"{path}[{index}]"
        given = entry(text)
        if given is None:
            yield malformed(
                here,
                text,
                "a range, a network or an address",
                "write 192.0.2.21-192.0.2.29, 192.0.2.32/28 or 192.0.2.21 (a network's host part is zero)",
            )
            continue
        if any(given.overlaps(other) for other in seen):
            yield duplicate(here, text)
        seen.append(given)
        if gateway is not None and gateway in given:
            yield overlaps(here, f"{shown(text)} holds the gateway {spec.network.gateway}", "leave the gateway out")
        for server, number in servers.items():
            if number is not None and number in given and number != gateway:
                yield overlaps(here, f"{shown(text)} holds the DNS server {server}", "leave the DNS server out")
        # A network may be the whole of it: its own and its broadcast address are then passed over.
        limit = network if "/" in text else bounds
        if limit and not (given.first in limit and given.last in limit):
            yield Violation(
                path=here,
                code=ViolationCode.OUTSIDE_NETWORK,
                message=f"{shown(text)} is not inside the hosts of {_cidr(spec)}",
                remedy="correct the addresses, the gateway or the prefix length",
            )
    if network is None or not all(map(entry, spec.network.addresses)):
        return
    nodes = spec.control_planes + spec.workers
    room = capacity(spec.network)
    if room < nodes + 1:
        yield out_of_range(
            path,
            f"{room} usable addresses are too few for {shown(nodes)} nodes",
            f"give at least {shown(nodes + 1)}: an upgrade or a replacement adds one node for a while",
        )


def _endpoint(spec: ClusterSpec) -> Iterator[Violation]:
    number = address(spec.endpoint)
    if number is None or _unfit(number):
        yield malformed(ENDPOINT, spec.endpoint, "an address for the API", "write an IPv4 address like 192.0.2.50")
        return
    network = node_network(spec.network)
    bounds = hosts(network) if network else None
    if bounds and number not in bounds:
        yield Violation(
            path=ENDPOINT,
            code=ViolationCode.OUTSIDE_NETWORK,
            message=f"{spec.endpoint} is not inside the hosts of {_cidr(spec)}",
            remedy="the API address moves between the nodes, so it must lie in their network",
        )
    for text in spec.network.addresses:
        given = entry(text)
        if given is not None and number in given:
            yield overlaps(
                ENDPOINT,
                f"{spec.endpoint} is one of the node addresses ({shown(text)})",
                "choose an address outside network.addresses",
            )
            break
    if number == address(spec.network.gateway):
        yield overlaps(ENDPOINT, f"{spec.endpoint} is the gateway", "choose an unused address")
    elif spec.endpoint in spec.network.dns_servers:
        yield overlaps(ENDPOINT, f"{spec.endpoint} is a DNS server", "choose an unused address")


def _ranges(spec: ClusterSpec, context: SiteContext) -> Iterator[Violation]:
    pods, services = (
        _range(path, given) for path, given in (("pods", spec.pod_cidrs), ("services", spec.service_cidrs))
    )
    for _, found in (pods, services):
        yield from found
    network = node_network(spec.network)
    others: list[tuple[str, Range]] = [(f"the nodes' network {_cidr(spec)}", network)] if network else []
    reached = [("the DNS server", server) for server in spec.network.dns_servers[:MAX_DNS_SERVERS]]
    reached += [("the site's endpoint", endpoint) for endpoint in context.endpoints]
    others += [(f"{what} {text}", Range(number, number)) for what, text in reached if (number := address(text))]
    for path, (given, _) in (("pods", pods), ("services", services)):
        for what, other in others if given else ():
            if given and given.overlaps(other):
                yield overlaps(
                    f"spec.clusterNetwork.{path}.cidrBlocks[0]",
                    f"the {path[:-1]} range meets {what}",
                    "choose another private range, or leave it out to have one chosen",
                )
                break
    if pods[0] and services[0] and pods[0].overlaps(services[0]):
        yield overlaps(
            "spec.clusterNetwork.services.cidrBlocks[0]",
            "the service range meets the pod range",
            "choose another private range, or leave it out to have one chosen",
        )
    yield from _range_sizes(spec, pods[0], services[0])


def _range(part: str, given: tuple[str, ...]) -> tuple[Range | None, list[Violation]]:
    path = f"spec.clusterNetwork.{part}.cidrBlocks"
    if not given:
        return None, []
    if len(given) > 1:
        return None, [out_of_range(path, "more than one range is given", "give one IPv4 range")]
    found = block(given[0])
    if found is None:
        remedy = "write an IPv4 network like 10.42.0.0/16 (its host part is zero)"
        return None, [malformed(f"{path}[0]", given[0], "a network", remedy)]
    return found, []


def _range_sizes(spec: ClusterSpec, pods: Range | None, services: Range | None) -> Iterator[Violation]:
    nodes = spec.control_planes + spec.workers
    if pods and pods.size // _POD_BLOCK < nodes + 1:
        yield out_of_range(
            "spec.clusterNetwork.pods.cidrBlocks[0]",
            f"the pod range has room for {pods.size // _POD_BLOCK} nodes (a /24 each), not for {shown(nodes + 1)}",
            "give a larger range, for example a /16",
        )
    if services and not _SMALLEST_SERVICES <= services.size <= _LARGEST_SERVICES:
        yield out_of_range(
            "spec.clusterNetwork.services.cidrBlocks[0]",
            "the service range is too large or too small for an API server",
            "use a prefix length of 12 to 28",
        )


def _loopback(spec: ClusterSpec, context: SiteContext) -> Iterator[Violation]:
    """Loopback addresses mean our own machine: right for the lab's site, a disaster for any other."""
    if context.loopback:
        return
    given = [(ENDPOINT, spec.endpoint), (variable("network", "gateway"), spec.network.gateway)]
    given += [
        (variable("network", "addresses", i), text) for i, text in enumerate(spec.network.addresses[:MAX_ENTRIES])
    ]
    given += [
        (variable("network", "dnsServers", i), text)
        for i, text in enumerate(spec.network.dns_servers[:MAX_DNS_SERVERS])
    ]
    given += [("spec.clusterNetwork.pods.cidrBlocks[0]", text) for text in spec.pod_cidrs[:1]]
    given += [("spec.clusterNetwork.services.cidrBlocks[0]", text) for text in spec.service_cidrs[:1]]
    for path, text in given:
        found = entry(text)
        if found is not None and found.overlaps(LOOPBACK):
            yield Violation(
                path=path,
                code=ViolationCode.NOT_ALLOWED,
                message=f"{shown(text)} is a loopback address",
                remedy="use addresses of the nodes' real network",
            )


def _neighbours(spec: ClusterSpec, context: SiteContext) -> Iterator[Violation]:
    if spec.network.vlan is not None and spec.network.vlan not in VLANS:
        return  # it names no network
    own = network_id(context.site_id, spec.network)
    endpoint = address(spec.endpoint)
    for neighbour in context.neighbours:
        if neighbour.network_id != own:
            continue
        theirs = [found for found in map(entry, neighbour.addresses) if found is not None]
        their_endpoint = address(neighbour.endpoint)
        whose = f"cluster {neighbour.name}" if neighbour.name else "another cluster"
        if endpoint is not None and (endpoint == their_endpoint or any(endpoint in one for one in theirs)):
            yield _in_use(ENDPOINT, spec.endpoint, whose)
        yield from _shared_addresses(spec, neighbour, theirs, their_endpoint, whose)


def _shared_addresses(
    spec: ClusterSpec, neighbour: Neighbour, theirs: list[Range], their_endpoint: int | None, whose: str
) -> Iterator[Violation]:
    taken = [*theirs, *([Range(their_endpoint, their_endpoint)] if their_endpoint is not None else [])]
    for index, text in enumerate(spec.network.addresses):
        given = entry(text)
        shared = next((one for one in taken if given is not None and given.overlaps(one)), None)
        if given is not None and shared is not None:
            # Not the neighbour's whole range: an unseen cluster's addresses are nobody's business beyond the clash.
            first, last = max(given.first, shared.first), min(given.last, shared.last)
            what = dotted(first) if first == last else f"{dotted(first)}-{dotted(last)}"
            yield _in_use(variable("network", "addresses", index), what, whose)


def _in_use(path: str, what: str, whose: str) -> Violation:
    return Violation(
        path=path,
        code=ViolationCode.IN_USE,
        message=f"{what} belongs to {whose} in the same network",
        remedy="choose addresses that no other cluster in this network has",
    )


def _pod_network(spec: ClusterSpec) -> Iterator[Violation]:
    path = variable("cni")
    offered = CNIS[spec.distribution]
    if spec.cni is None and spec.distribution is Distribution.KUBEADM:
        yield Violation(
            path=path,
            code=ViolationCode.REQUIRED,
            message="kubeadm brings no pod network of its own",
            remedy=f"choose {' or '.join(offered)}; it is fixed for the cluster's life",
        )
    elif spec.cni is not None and spec.cni not in offered:
        yield Violation(
            path=path,
            code=ViolationCode.NOT_SUPPORTED,
            message=f"{spec.distribution} does not offer {spec.cni}",
            remedy=f"use {' or '.join(offered)}",
        )
    if spec.kube_proxy_replacement and effective_cni(spec) is not Cni.CILIUM:
        yield conflicts(
            variable("kubeProxyReplacement"),
            "only Cilium can stand in for kube-proxy",
            "set cni to cilium, or leave kubeProxyReplacement out",
        )


def _unfit(number: int) -> bool:
    return any(number in part for part in _NOT_FOR_HOSTS)


def _cidr(spec: ClusterSpec) -> str:
    network = node_network(spec.network)
    return f"{dotted(network.first)}/{spec.network.prefix}" if network else "the nodes' network"
