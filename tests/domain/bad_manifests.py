"""Bad manifests: one table for the rules themselves, the API and the CLI.

Each row spoils a good manifest in one place and says which path and code must come back. A row's manifest breaks
nothing else than it says (`also` names what cannot be avoided), so a rule that fires too widely is seen as well.
`BAD` holds rows about single fields and the frame, `CROSS` rows about several fields that contradict each other.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from domain.errors import ViolationCode as Code
from tests.domain.manifests import CERTIFICATE, Document, edge, prod, variable

Spoil = Callable[[Document], None]
Place = tuple[str, Code]


@dataclass(frozen=True)
class Bad:
    """One bad manifest: `base` spoiled by `spoil` must be refused at `path` with `code`."""

    name: str
    spoil: Spoil
    path: str
    code: Code
    base: Callable[[], Document] = prod
    also: tuple[Place, ...] = ()

    def document(self) -> Document:
        """The manifest."""
        document = self.base()
        self.spoil(document)
        return document

    @property
    def places(self) -> set[Place]:
        """Every (path, code) that must come back, and nothing else may."""
        return {(self.path, self.code), *self.also}


def var(path: str) -> str:
    """`network.prefix` -> `spec.topology.variables[network].prefix`."""
    name, dot, rest = path.partition(".")
    bracket = name.find("[")
    name, entry = (name, "") if bracket < 0 else (name[:bracket], name[bracket:])
    return f"spec.topology.variables[{name}]{entry}{dot}{rest}"


def put(path: str, value: Any) -> Spoil:
    """Set a variable or, with dots, one field of it."""

    def spoil(document: Document) -> None:
        name, *keys = path.split(".")
        entry = variable(document, name)
        if not keys:
            entry["value"] = value
            return
        entry["value"] = entry["value"] or {}
        part = entry["value"]
        for key in keys[:-1]:
            part = part.setdefault(key, {})
        part[keys[-1]] = value

    return spoil


def drop(path: str) -> Spoil:
    """Take a variable or one field of it out."""

    def spoil(document: Document) -> None:
        name, *keys = path.split(".")
        if not keys:
            variables = document["spec"]["topology"]["variables"]
            variables[:] = [entry for entry in variables if entry["name"] != name]
            return
        part = variable(document, name)["value"]
        for key in keys[:-1]:
            part = part[key]
        del part[keys[-1]]

    return spoil


def at(path: str, value: Any) -> Spoil:
    """Set a field outside the variables; numbers in the path are indexes."""

    def spoil(document: Document) -> None:
        *keys, last = [int(key) if key.isdigit() else key for key in path.split(".")]
        part: Any = document
        for key in keys:
            part = part[key] if isinstance(part, list) else part.setdefault(key, {})
        part[last] = value

    return spoil


def both(*spoils: Spoil) -> Spoil:
    def spoil(document: Document) -> None:
        for one in spoils:
            one(document)

    return spoil


def provider(**changes: Any) -> dict[str, Any]:
    """A good identity provider with some fields changed; None takes one out."""
    fields = {"issuerURL": "https://id.example.org", "clientID": "k8s"} | changes
    return {key: value for key, value in fields.items() if value is not None}


def oidc(**changes: Any) -> Spoil:
    return put("oidc", [provider(**changes)])


def kubeadm(document: Document) -> None:
    """Make it a kubeadm cluster, which the lab has no template for."""
    document["spec"]["topology"]["classRef"]["name"] = "trilithon-kubeadm"
    document["spec"]["topology"]["version"] = "v1.36.5"


NO_KUBEADM = (("spec.topology.classRef.name", Code.NOT_AVAILABLE),)
DEPLOYMENTS = "spec.topology.workers.machineDeployments"
PODS = "spec.clusterNetwork.pods.cidrBlocks"
SERVICES = "spec.clusterNetwork.services.cidrBlocks"

_FRAME = [
    Bad("an old API version", at("apiVersion", "cluster.x-k8s.io/v1beta1"), "apiVersion", Code.NOT_SUPPORTED),
    Bad("another kind", at("kind", "Machine"), "kind", Code.NOT_SUPPORTED),
    Bad("name in capitals", at("metadata.name", "Prod"), "metadata.name", Code.MALFORMED),
    Bad("name that starts with a digit", at("metadata.name", "1prod"), "metadata.name", Code.MALFORMED),
    Bad("name that ends with a dash", at("metadata.name", "prod-"), "metadata.name", Code.MALFORMED),
    Bad("name of 41 characters", at("metadata.name", "p" * 41), "metadata.name", Code.MALFORMED),
    Bad("name left out", lambda d: d["metadata"].pop("name"), "metadata.name", Code.REQUIRED),
    Bad("name that is a number", at("metadata.name", 7), "metadata.name", Code.WRONG_TYPE),
    Bad("namespace with a dot", at("metadata.namespace", "a.b"), "metadata.namespace", Code.MALFORMED),
    Bad("namespace with a digit first", at("metadata.namespace", "1a"), "metadata.namespace", Code.MALFORMED),
    Bad("label that is no text", at("metadata.labels", {"a": 1}), "metadata.labels.a", Code.WRONG_TYPE),
    Bad("label value with a blank", at("metadata.labels", {"a": "b c"}), "metadata.labels[a]", Code.MALFORMED),
    Bad("label key with a blank", at("metadata.labels", {"a b": "c"}), "metadata.labels", Code.MALFORMED),
    Bad(
        "annotation key with two slashes",
        at("metadata.annotations", {"a/b/c": ""}),
        "metadata.annotations",
        Code.MALFORMED,
    ),
    Bad("unknown field in metadata", at("metadata.finalisers", []), "metadata.finalisers", Code.UNKNOWN_FIELD),
    Bad("unknown field in spec", at("spec.paused", True), "spec.paused", Code.UNKNOWN_FIELD),
    Bad("unknown field in topology", at("spec.topology.replicas", 3), "spec.topology.replicas", Code.UNKNOWN_FIELD),
    Bad(
        "unknown class",
        at("spec.topology.classRef.name", "trilithon-rke3"),
        "spec.topology.classRef.name",
        Code.NOT_SUPPORTED,
    ),
    Bad("class left out", lambda d: d["spec"]["topology"].pop("classRef"), "spec.topology.classRef", Code.REQUIRED),
    Bad("version left out", lambda d: d["spec"]["topology"].pop("version"), "spec.topology.version", Code.REQUIRED),
    Bad("version without its v", at("spec.topology.version", "1.36.5+rke2r1"), "spec.topology.version", Code.MALFORMED),
    Bad("version that is a number", at("spec.topology.version", 1.36), "spec.topology.version", Code.WRONG_TYPE),
    Bad(
        "release candidate", at("spec.topology.version", "v1.36.5-rc1+rke2r1"), "spec.topology.version", Code.MALFORMED
    ),
    Bad(
        "version without a template",
        at("spec.topology.version", "v1.36.4+rke2r1"),
        "spec.topology.version",
        Code.NOT_AVAILABLE,
    ),
    Bad(
        "version from before authentication files",
        at("spec.topology.version", "v1.29.9+rke2r1"),
        "spec.topology.version",
        Code.OUT_OF_RANGE,
        also=(("spec.topology.version", Code.NOT_AVAILABLE),),
    ),
    *[
        Bad(
            f"{count} control-plane nodes",
            at("spec.topology.controlPlane.replicas", count),
            "spec.topology.controlPlane.replicas",
            Code.OUT_OF_RANGE,
        )
        for count in (0, 2, 4, 6, 9, -1)
    ],
    Bad(
        "control-plane count in quotes",
        at("spec.topology.controlPlane.replicas", "3"),
        "spec.topology.controlPlane.replicas",
        Code.WRONG_TYPE,
    ),
    Bad(
        "101 workers",
        both(at(f"{DEPLOYMENTS}.0.replicas", 101), put("network.addresses", ["127.80.2.0/24"])),
        f"{DEPLOYMENTS}[0].replicas",
        Code.OUT_OF_RANGE,
    ),
    Bad("less than no workers", at(f"{DEPLOYMENTS}.0.replicas", -1), f"{DEPLOYMENTS}[0].replicas", Code.OUT_OF_RANGE),
    Bad(
        "worker count that is a tick",
        at(f"{DEPLOYMENTS}.0.replicas", True),
        f"{DEPLOYMENTS}[0].replicas",
        Code.WRONG_TYPE,
    ),
    Bad("another machine class", at(f"{DEPLOYMENTS}.0.class", "gpu"), f"{DEPLOYMENTS}[0].class", Code.NOT_SUPPORTED),
    Bad(
        "pool without a name",
        lambda d: d["spec"]["topology"]["workers"]["machineDeployments"][0].pop("name"),
        f"{DEPLOYMENTS}[0].name",
        Code.REQUIRED,
    ),
    Bad("pool name in capitals", at(f"{DEPLOYMENTS}.0.name", "MD"), f"{DEPLOYMENTS}[0].name", Code.MALFORMED),
    Bad(
        "pool called like the servers", at(f"{DEPLOYMENTS}.0.name", "cp"), f"{DEPLOYMENTS}[0].name", Code.NOT_SUPPORTED
    ),
    Bad("pool that is a list", at(f"{DEPLOYMENTS}.0", []), f"{DEPLOYMENTS}[0]", Code.WRONG_TYPE),
    Bad("pod range that is no network", at(PODS, ["10.42.0.0"]), f"{PODS}[0]", Code.MALFORMED),
    Bad("pod range with a host part", at(PODS, ["10.42.0.1/16"]), f"{PODS}[0]", Code.MALFORMED),
    Bad("two pod ranges", at(PODS, ["10.42.0.0/16", "10.44.0.0/16"]), PODS, Code.OUT_OF_RANGE),
    Bad("service range of IPv6", at(SERVICES, ["fd00::/112"]), f"{SERVICES}[0]", Code.MALFORMED),
    Bad("service range too large", at(SERVICES, ["172.0.0.0/8"]), f"{SERVICES}[0]", Code.OUT_OF_RANGE),
    Bad("service range too small", at(SERVICES, ["10.43.0.0/30"]), f"{SERVICES}[0]", Code.OUT_OF_RANGE),
    Bad("unknown variable", put("cnii", "cilium"), var("cnii"), Code.UNKNOWN_VARIABLE),
    Bad(
        "variable given twice",
        lambda d: d["spec"]["topology"]["variables"].append({"name": "storage", "value": "fast"}),
        var("storage"),
        Code.DUPLICATE,
    ),
    Bad(
        "variable without a name",
        lambda d: d["spec"]["topology"]["variables"].append({"value": 1}),
        "spec.topology.variables[5].name",
        Code.REQUIRED,
    ),
    Bad(
        "variable without a value",
        lambda d: d["spec"]["topology"]["variables"].append({"name": "headlamp"}),
        "spec.topology.variables[5].value",
        Code.REQUIRED,
    ),
]

_NETWORK = [
    Bad("no API address", drop("controlPlaneEndpoint"), var("controlPlaneEndpoint"), Code.REQUIRED),
    Bad(
        "API address that is a name",
        put("controlPlaneEndpoint", "prod.example.org"),
        var("controlPlaneEndpoint"),
        Code.MALFORMED,
    ),
    Bad(
        "API address with a port",
        put("controlPlaneEndpoint", "127.80.1.50:6443"),
        var("controlPlaneEndpoint"),
        Code.MALFORMED,
    ),
    Bad(
        "API address that is a block",
        put("controlPlaneEndpoint", {"host": "127.80.1.50"}),
        var("controlPlaneEndpoint"),
        Code.WRONG_TYPE,
    ),
    Bad("no network", drop("network"), var("network"), Code.REQUIRED),
    Bad("network that is text", put("network", "vmbr0"), var("network"), Code.WRONG_TYPE),
    Bad("unknown field of the network", put("network.mtu", 9000), var("network.mtu"), Code.UNKNOWN_FIELD),
    Bad("no bridge", drop("network.bridge"), var("network.bridge"), Code.REQUIRED),
    Bad("bridge not open to clusters", put("network.bridge", "vmbr9"), var("network.bridge"), Code.NOT_ALLOWED),
    Bad("bridge with a slash", put("network.bridge", "vmbr0/1"), var("network.bridge"), Code.MALFORMED),
    Bad("VLAN 0", put("network.vlan", 0), var("network.vlan"), Code.OUT_OF_RANGE),
    Bad("VLAN 4095", put("network.vlan", 4095), var("network.vlan"), Code.OUT_OF_RANGE),
    Bad("VLAN in quotes", put("network.vlan", "12"), var("network.vlan"), Code.WRONG_TYPE),
    Bad("no node addresses", drop("network.addresses"), var("network.addresses"), Code.REQUIRED),
    Bad(
        "node addresses as text",
        put("network.addresses", "127.80.1.51-127.80.1.69"),
        var("network.addresses"),
        Code.WRONG_TYPE,
    ),
    Bad("empty node addresses", put("network.addresses", []), var("network.addresses"), Code.OUT_OF_RANGE),
    Bad(
        "range backwards",
        put("network.addresses", ["127.80.1.69-127.80.1.51"]),
        var("network.addresses[0]"),
        Code.MALFORMED,
    ),
    Bad(
        "network with a host part",
        put("network.addresses", ["127.80.1.51/27"]),
        var("network.addresses[0]"),
        Code.MALFORMED,
    ),
    Bad(
        "address with a leading zero",
        put("network.addresses", ["127.80.1.051"]),
        var("network.addresses[0]"),
        Code.MALFORMED,
    ),
    Bad(
        "one entry that is a number",
        put("network.addresses", ["127.80.1.51-127.80.1.69", 5]),
        var("network.addresses[1]"),
        Code.WRONG_TYPE,
    ),
    Bad("no prefix", drop("network.prefix"), var("network.prefix"), Code.REQUIRED),
    Bad("prefix 0", put("network.prefix", 0), var("network.prefix"), Code.OUT_OF_RANGE),
    Bad("prefix 33", put("network.prefix", 33), var("network.prefix"), Code.OUT_OF_RANGE),
    Bad("prefix with a fraction", put("network.prefix", 16.5), var("network.prefix"), Code.WRONG_TYPE),
    Bad("no gateway", drop("network.gateway"), var("network.gateway"), Code.REQUIRED),
    Bad(
        "gateway of four numbers too large",
        put("network.gateway", "127.80.0.256"),
        var("network.gateway"),
        Code.MALFORMED,
    ),
    Bad(
        "gateway that is multicast",
        put("network.gateway", "224.0.0.1"),
        var("network.gateway"),
        Code.MALFORMED,
        also=(
            (var("controlPlaneEndpoint"), Code.OUTSIDE_NETWORK),
            (var("network.addresses[0]"), Code.OUTSIDE_NETWORK),
            (var("network.addresses"), Code.OUT_OF_RANGE),
        ),
    ),
    Bad("no DNS servers", drop("network.dnsServers"), var("network.dnsServers"), Code.REQUIRED),
    Bad("empty DNS servers", put("network.dnsServers", []), var("network.dnsServers"), Code.OUT_OF_RANGE),
    Bad(
        "DNS server that is a name",
        put("network.dnsServers", ["dns.example.org"]),
        var("network.dnsServers[0]"),
        Code.MALFORMED,
    ),
    Bad(
        "DNS server twice",
        put("network.dnsServers", ["127.80.0.1", "127.80.0.1"]),
        var("network.dnsServers[1]"),
        Code.DUPLICATE,
    ),
    Bad("pod network that nobody knows", put("cni", "weave"), var("cni"), Code.NOT_SUPPORTED),
    Bad("pod network that is a tick", put("cni", True), var("cni"), Code.NOT_SUPPORTED),
    Bad(
        "kube-proxy replacement in words",
        put("kubeProxyReplacement", "yes"),
        var("kubeProxyReplacement"),
        Code.WRONG_TYPE,
    ),
    Bad(
        "kube-proxy replacement as a number",
        put("kubeProxyReplacement", 1),
        var("kubeProxyReplacement"),
        Code.WRONG_TYPE,
    ),
]

_MACHINES = [
    Bad("no storage", drop("storage"), var("storage"), Code.REQUIRED),
    Bad("storage not open to clusters", put("storage", "local"), var("storage"), Code.NOT_ALLOWED),
    Bad("storage with a colon", put("storage", "shared:vm"), var("storage"), Code.MALFORMED),
    Bad("no allowed node", put("allowedNodes", []), var("allowedNodes"), Code.OUT_OF_RANGE),
    Bad("allowed node twice", put("allowedNodes", ["pve1", "pve1"]), var("allowedNodes[1]"), Code.DUPLICATE),
    Bad("allowed node with a slash", put("allowedNodes", ["pve1/qemu"]), var("allowedNodes[0]"), Code.MALFORMED),
    Bad("allowed nodes as text", put("allowedNodes", "pve1"), var("allowedNodes"), Code.WRONG_TYPE),
    Bad("HA in words", put("proxmoxHA", "true"), var("proxmoxHA"), Code.WRONG_TYPE),
    Bad("HA as a number", put("proxmoxHA", 0), var("proxmoxHA"), Code.WRONG_TYPE),
    *[
        row
        for name, memory in (("controlPlaneMachine", 3064), ("workerMachine", 1016))
        for row in (
            Bad(f"{name} without cores", put(f"{name}.cores", 0), var(f"{name}.cores"), Code.OUT_OF_RANGE),
            Bad(f"{name} with half a core", put(f"{name}.cores", 0.5), var(f"{name}.cores"), Code.WRONG_TYPE),
            Bad(
                f"{name} with too little memory",
                put(f"{name}.memoryMiB", memory),
                var(f"{name}.memoryMiB"),
                Code.OUT_OF_RANGE,
            ),
            Bad(
                f"{name} memory off the steps",
                put(f"{name}.memoryMiB", 4100),
                var(f"{name}.memoryMiB"),
                Code.OUT_OF_RANGE,
            ),
            Bad(
                f"{name} memory with a unit", put(f"{name}.memoryMiB", "4Gi"), var(f"{name}.memoryMiB"), Code.WRONG_TYPE
            ),
            Bad(f"{name} with a small disk", put(f"{name}.diskGiB", 19), var(f"{name}.diskGiB"), Code.OUT_OF_RANGE),
            Bad(
                f"{name} with an endless disk", put(f"{name}.diskGiB", 10**9), var(f"{name}.diskGiB"), Code.OUT_OF_RANGE
            ),
            Bad(f"{name} with sockets", put(f"{name}.sockets", 2), var(f"{name}.sockets"), Code.UNKNOWN_FIELD),
        )
    ],
]

_ADDONS = [
    Bad("Headlamp in words", put("headlamp.enabled", "on"), var("headlamp.enabled"), Code.WRONG_TYPE),
    Bad("Headlamp as a number", put("headlamp.enabled", 1), var("headlamp.enabled"), Code.WRONG_TYPE),
    Bad(
        "Headlamp host name in capitals",
        put("headlamp.hostname", "Lamp.example.org"),
        var("headlamp.hostname"),
        Code.MALFORMED,
    ),
    Bad(
        "Headlamp host name as address",
        put("headlamp.hostname", "https://lamp.example.org"),
        var("headlamp.hostname"),
        Code.MALFORMED,
    ),
    Bad(
        "host name with a label of 64",
        put("headlamp.hostname", f"{'a' * 64}.org"),
        var("headlamp.hostname"),
        Code.MALFORMED,
    ),
    Bad(
        "TLS secret with a slash",
        put("headlamp", {"hostname": "lamp.example.org", "tlsSecret": "a/b"}),
        var("headlamp.tlsSecret"),
        Code.MALFORMED,
    ),
    Bad(
        "TLS secret that is a block",
        put("headlamp", {"hostname": "lamp.example.org", "tlsSecret": {}}),
        var("headlamp.tlsSecret"),
        Code.WRONG_TYPE,
    ),
    Bad("Rancher in words", put("rancher.install", "no"), var("rancher.install"), Code.WRONG_TYPE),
    Bad("Rancher as a list", put("rancher.install", []), var("rancher.install"), Code.WRONG_TYPE),
    Bad("registration in words", put("rancher.register", "no"), var("rancher.register"), Code.WRONG_TYPE),
    Bad("registration as a number", put("rancher.register", 0), var("rancher.register"), Code.WRONG_TYPE),
    Bad(
        "Rancher host name with a blank",
        put("rancher.hostname", "ran cher.org"),
        var("rancher.hostname"),
        Code.MALFORMED,
    ),
    Bad(
        "Rancher host name that is an address",
        put("rancher.hostname", "127.80.1.50"),
        var("rancher.hostname"),
        Code.MALFORMED,
    ),
    Bad("upgrade mode that nobody knows", put("upgrades.mode", "major"), var("upgrades.mode"), Code.NOT_SUPPORTED),
    Bad("upgrade mode that YAML read as a tick", put("upgrades.mode", False), var("upgrades.mode"), Code.NOT_SUPPORTED),
    Bad("window that is text", put("upgrades.window", "Sat 02:00"), var("upgrades.window"), Code.WRONG_TYPE),
    Bad(
        "weekday in full",
        put("upgrades.window.weekdays", ["Saturday"]),
        var("upgrades.window.weekdays[0]"),
        Code.NOT_SUPPORTED,
    ),
    Bad("no weekday", put("upgrades.window.weekdays", []), var("upgrades.window.weekdays"), Code.OUT_OF_RANGE),
    Bad(
        "weekday twice",
        put("upgrades.window.weekdays", ["Sat", "Sat"]),
        var("upgrades.window.weekdays[1]"),
        Code.DUPLICATE,
    ),
    Bad("window at 24:00", put("upgrades.window.start", "24:00"), var("upgrades.window.start"), Code.MALFORMED),
    Bad("window at 2:00", put("upgrades.window.start", "2:00"), var("upgrades.window.start"), Code.MALFORMED),
    Bad(
        "window start that YAML read as a number",
        put("upgrades.window.start", 120),
        var("upgrades.window.start"),
        Code.WRONG_TYPE,
    ),
    Bad(
        "window of four minutes",
        put("upgrades.window.durationMinutes", 4),
        var("upgrades.window.durationMinutes"),
        Code.OUT_OF_RANGE,
    ),
    Bad(
        "window of more than a day",
        put("upgrades.window.durationMinutes", 1441),
        var("upgrades.window.durationMinutes"),
        Code.OUT_OF_RANGE,
    ),
    Bad(
        "time zone that nobody knows",
        put("upgrades.window.timeZone", "Europe/Berlinn"),
        var("upgrades.window.timeZone"),
        Code.NOT_SUPPORTED,
    ),
    Bad(
        "time zone as an offset",
        put("upgrades.window.timeZone", "+02:00"),
        var("upgrades.window.timeZone"),
        Code.NOT_SUPPORTED,
    ),
]

_IDENTITY = [
    Bad(
        "nine providers",
        put("oidc", [provider(issuerURL=f"https://id{i}.example.org") for i in range(9)]),
        var("oidc"),
        Code.OUT_OF_RANGE,
    ),
    Bad("providers as a block", put("oidc", provider()), var("oidc"), Code.WRONG_TYPE),
    Bad("issuer without TLS", oidc(issuerURL="http://id.example.org"), var("oidc[0].issuerURL"), Code.MALFORMED),
    Bad("issuer with a query", oidc(issuerURL="https://id.example.org?a=b"), var("oidc[0].issuerURL"), Code.MALFORMED),
    Bad("no issuer", oidc(issuerURL=None), var("oidc[0].issuerURL"), Code.REQUIRED),
    Bad(
        "issuer twice", put("oidc", [provider(), provider(clientID="other")]), var("oidc[1].issuerURL"), Code.DUPLICATE
    ),
    Bad("no client", oidc(clientID=None), var("oidc[0].clientID"), Code.REQUIRED),
    Bad("empty client", oidc(clientID=" "), var("oidc[0].clientID"), Code.MALFORMED),
    Bad("client with a secret beside it", oidc(clientSecret="x"), var("oidc[0].clientSecret"), Code.UNKNOWN_FIELD),
    *[
        row
        for claim in ("usernameClaim", "groupsClaim")
        for row in (
            Bad(f"empty {claim}", oidc(**{claim: ""}), var(f"oidc[0].{claim}"), Code.MALFORMED),
            Bad(f"{claim} that is a list", oidc(**{claim: ["email"]}), var(f"oidc[0].{claim}"), Code.WRONG_TYPE),
        )
    ],
    *[
        row
        for prefix in ("usernamePrefix", "groupsPrefix")
        for row in (
            Bad(f"{prefix} of the system", oidc(**{prefix: "system:"}), var(f"oidc[0].{prefix}"), Code.NOT_SUPPORTED),
            Bad(
                f"{prefix} below the system's",
                oidc(**{prefix: "system:masters:"}),
                var(f"oidc[0].{prefix}"),
                Code.NOT_SUPPORTED,
            ),
            Bad(f"empty {prefix}", oidc(**{prefix: ""}), var(f"oidc[0].{prefix}"), Code.MALFORMED),
        )
    ],
    Bad("scopes as one text", oidc(scopes="email profile"), var("oidc[0].scopes"), Code.WRONG_TYPE),
    Bad("scope of two words", oidc(scopes=["email profile"]), var("oidc[0].scopes[0]"), Code.MALFORMED),
    Bad("scope twice", oidc(scopes=["email", "email"]), var("oidc[0].scopes[1]"), Code.DUPLICATE),
    Bad(
        "authority that is a path",
        oidc(certificateAuthority="/etc/ca.pem"),
        var("oidc[0].certificateAuthority"),
        Code.MALFORMED,
    ),
    Bad(
        "authority cut short",
        oidc(certificateAuthority=CERTIFICATE[:-60]),
        var("oidc[0].certificateAuthority"),
        Code.MALFORMED,
    ),
    Bad(
        "authority with a private key",
        oidc(certificateAuthority=CERTIFICATE + "-----BEGIN PRIVATE KEY-----\n"),
        var("oidc[0].certificateAuthority"),
        Code.MALFORMED,
    ),
]

BAD: tuple[Bad, ...] = (*_FRAME, *_NETWORK, *_MACHINES, *_ADDONS, *_IDENTITY)

RANCHER = {"install": True, "hostname": "rancher.example.org"}
FOUR_CORES = both(put("controlPlaneMachine.cores", 4), put("workerMachine.cores", 4))

CROSS: tuple[Bad, ...] = (
    Bad(
        "API address among the node addresses",
        put("controlPlaneEndpoint", "127.80.1.60"),
        var("controlPlaneEndpoint"),
        Code.OVERLAPS,
    ),
    Bad(
        "API address outside the nodes' network",
        put("controlPlaneEndpoint", "127.81.0.50"),
        var("controlPlaneEndpoint"),
        Code.OUTSIDE_NETWORK,
    ),
    Bad(
        "API address that is the broadcast address",
        put("controlPlaneEndpoint", "127.80.255.255"),
        var("controlPlaneEndpoint"),
        Code.OUTSIDE_NETWORK,
    ),
    Bad(
        "API address that is the gateway",
        put("controlPlaneEndpoint", "127.80.0.1"),
        var("controlPlaneEndpoint"),
        Code.OVERLAPS,
    ),
    Bad(
        "API address that is a DNS server",
        put("network.dnsServers", ["127.80.1.50"]),
        var("controlPlaneEndpoint"),
        Code.OVERLAPS,
    ),
    Bad(
        "gateway among the node addresses",
        put("network.gateway", "127.80.1.55"),
        var("network.addresses[0]"),
        Code.OVERLAPS,
    ),
    Bad(
        "DNS server among the node addresses",
        put("network.dnsServers", ["127.80.1.55"]),
        var("network.addresses[0]"),
        Code.OVERLAPS,
    ),
    Bad(
        "gateway that is the network's own address",
        put("network.gateway", "127.80.0.0"),
        var("network.gateway"),
        Code.OUTSIDE_NETWORK,
    ),
    Bad(
        "node addresses outside the gateway's network",
        put("network.addresses", ["127.80.1.51-127.80.1.69", "127.90.0.1"]),
        var("network.addresses[1]"),
        Code.OUTSIDE_NETWORK,
    ),
    Bad(
        "node addresses partly outside the gateway's network",
        put("network.addresses", ["127.80.255.240-127.81.0.9"]),
        var("network.addresses[0]"),
        Code.OUTSIDE_NETWORK,
    ),
    Bad(
        "prefix that cuts the node addresses off",
        put("network.prefix", 24),
        var("network.addresses[0]"),
        Code.OUTSIDE_NETWORK,
        also=(
            (var("network.addresses"), Code.OUT_OF_RANGE),
            (var("controlPlaneEndpoint"), Code.OUTSIDE_NETWORK),
        ),
    ),
    Bad(
        "no address more than there are nodes",
        put("network.addresses", ["127.80.1.51-127.80.1.56"]),
        var("network.addresses"),
        Code.OUT_OF_RANGE,
    ),
    Bad(
        "addresses that count only once",
        put("network.addresses", ["127.80.1.51-127.80.1.56", "127.80.1.53-127.80.1.56"]),
        var("network.addresses"),
        Code.OUT_OF_RANGE,
        also=((var("network.addresses[1]"), Code.DUPLICATE),),
    ),
    Bad("pod range over the nodes' network", at(PODS, ["127.80.0.0/16"]), f"{PODS}[0]", Code.OVERLAPS),
    Bad("service range over the nodes' network", at(SERVICES, ["127.80.128.0/20"]), f"{SERVICES}[0]", Code.OVERLAPS),
    Bad("service range inside the pod range", at(SERVICES, ["10.42.128.0/20"]), f"{SERVICES}[0]", Code.OVERLAPS),
    Bad(
        "service range in place of the default pod range",
        lambda d: d["spec"].update(clusterNetwork={"pods": {"cidrBlocks": ["127.64.0.0/10"]}}),
        f"{PODS}[0]",
        Code.OVERLAPS,
    ),
    Bad("pod range over a DNS server", both(put("network.dnsServers", ["10.42.0.10"])), f"{PODS}[0]", Code.OVERLAPS),
    Bad("pod range with too few node blocks", at(PODS, ["10.42.0.0/22"]), f"{PODS}[0]", Code.OUT_OF_RANGE),
    Bad(
        "kube-proxy replacement without Cilium",
        both(put("cni", "calico"), put("kubeProxyReplacement", True)),
        var("kubeProxyReplacement"),
        Code.CONFLICTS,
    ),
    Bad(
        "kube-proxy replacement with the default",
        both(drop("cni"), put("kubeProxyReplacement", True)),
        var("kubeProxyReplacement"),
        Code.CONFLICTS,
    ),
    Bad("flannel on RKE2", put("cni", "flannel"), var("cni"), Code.NOT_SUPPORTED),
    Bad("canal on k3s", put("cni", "canal"), var("cni"), Code.NOT_SUPPORTED, base=edge),
    Bad("kubeadm without a pod network", both(kubeadm, drop("cni")), var("cni"), Code.REQUIRED, also=NO_KUBEADM),
    Bad("canal on kubeadm", both(kubeadm, put("cni", "canal")), var("cni"), Code.NOT_SUPPORTED, also=NO_KUBEADM),
    Bad("kubeadm where there is no template", kubeadm, "spec.topology.classRef.name", Code.NOT_AVAILABLE),
    Bad(
        "kubeadm with one core",
        both(kubeadm, put("controlPlaneMachine.cores", 1)),
        var("controlPlaneMachine.cores"),
        Code.OUT_OF_RANGE,
        also=NO_KUBEADM,
    ),
    Bad("k3s version for RKE2", at("spec.topology.version", "v1.36.5+k3s1"), "spec.topology.version", Code.MALFORMED),
    Bad(
        "kubeadm version for k3s",
        at("spec.topology.version", "v1.36.5"),
        "spec.topology.version",
        Code.MALFORMED,
        base=edge,
    ),
    Bad(
        "memory for k3s on an RKE2 server",
        put("controlPlaneMachine.memoryMiB", 2048),
        var("controlPlaneMachine.memoryMiB"),
        Code.OUT_OF_RANGE,
    ),
    Bad(
        "class in another's namespace",
        at("spec.topology.classRef.namespace", "kubehenge-system"),
        "spec.topology.classRef.namespace",
        Code.NOT_SUPPORTED,
    ),
    Bad(
        "host names longer than a label",
        both(at("metadata.name", "p" * 40), at(f"{DEPLOYMENTS}.0.name", "m" * 17)),
        f"{DEPLOYMENTS}[0].name",
        Code.OUT_OF_RANGE,
    ),
    Bad(
        "two pools of one name",
        lambda d: d["spec"]["topology"]["workers"]["machineDeployments"].append(
            {"class": "worker", "name": "md-0", "replicas": 1}
        ),
        f"{DEPLOYMENTS}[1].name",
        Code.DUPLICATE,
    ),
    Bad(
        "Rancher without a host name",
        both(FOUR_CORES, put("rancher", {"install": True})),
        var("rancher.hostname"),
        Code.REQUIRED,
    ),
    Bad(
        "Rancher on small servers",
        both(put("workerMachine.cores", 4), put("rancher", RANCHER)),
        var("controlPlaneMachine.cores"),
        Code.OUT_OF_RANGE,
    ),
    Bad(
        "Rancher on small workers",
        both(put("controlPlaneMachine.cores", 4), put("rancher", RANCHER)),
        var("workerMachine.cores"),
        Code.OUT_OF_RANGE,
    ),
    Bad(
        "Rancher that registers with itself",
        both(FOUR_CORES, put("rancher", RANCHER | {"register": True})),
        var("rancher.register"),
        Code.CONFLICTS,
    ),
    Bad(
        "Rancher and Headlamp under one name",
        both(
            FOUR_CORES, put("rancher", RANCHER), put("headlamp", {"enabled": True, "hostname": "rancher.example.org"})
        ),
        var("rancher.hostname"),
        Code.CONFLICTS,
    ),
    Bad(
        "certificate without a host name",
        put("headlamp", {"enabled": True, "tlsSecret": "web"}),
        var("headlamp.tlsSecret"),
        Code.CONFLICTS,
    ),
    Bad(
        "provider with the ServiceAccounts' issuer",
        oidc(issuerURL="https://kubernetes.default.svc.cluster.local"),
        var("oidc[0].issuerURL"),
        Code.CONFLICTS,
    ),
)
