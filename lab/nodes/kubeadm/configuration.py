"""kubeadm's configuration file, v1beta4: read, filled with defaults, refused in kubeadm's words."""

import ipaddress
import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from lab.kube.objects import Obj, dig
from lab.nodes.versions import minor
from lab.yaml_reader import read_yamls

API = "kubeadm.k8s.io/v1beta4"
_KUBELET_API = "kubelet.config.k8s.io/v1beta1"
_OLD = ("v1alpha", "v1beta1", "v1beta2")
_SPAN = re.compile(r"^([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_TOKEN = re.compile(r"[a-z0-9]{6}\.[a-z0-9]{16}")
_ALGORITHMS = ("ECDSA-P256", "ECDSA-P384", "RSA-2048", "RSA-3072", "RSA-4096")
_DEFAULT_SERVICES = "10.96.0.0/12"
SOCKET = "unix:///run/containerd/containerd.sock"


class Refused(Exception):
    """kubeadm ends; the text is what it says behind `error: `, `lines` what it says before."""

    def __init__(self, text: str, lines: tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.lines = lines


@dataclass(frozen=True)
class Host:
    """What the configuration's defaults come from."""

    name: str
    address: str


@dataclass(frozen=True)
class Registration:
    """How the node is registered. `taints` is None for kubeadm's own default."""

    name: str
    socket: str
    arguments: tuple[tuple[str, str], ...]
    taints: tuple[Obj, ...] | None
    ignored: frozenset[str]


@dataclass(frozen=True)
class Endpoint:
    """Where this server's API answers."""

    address: str
    port: int


@dataclass(frozen=True)
class Shared:
    """What all servers of a cluster have alike: `ClusterConfiguration`."""

    name: str
    version: str
    endpoint: str
    pods: str
    services: str
    sans: tuple[str, ...]
    api_arguments: tuple[tuple[str, str], ...]
    api_volumes: tuple[Obj, ...]
    no_proxy: bool
    document: Obj = field(repr=False)
    """As it is kept in the ConfigMap kubeadm-config."""


@dataclass(frozen=True)
class Init:
    """What `kubeadm init` was told."""

    node: Registration
    local: Endpoint
    shared: Shared
    skipped: frozenset[str]
    token_life: str


@dataclass(frozen=True)
class Join:
    """What `kubeadm join` was told; `local` is None on workers."""

    node: Registration
    token: str = field(repr=False)
    endpoint: str
    hashes: tuple[str, ...]
    local: Endpoint | None


def read_init(text: str, host: Host, version: str) -> Init:
    """Reads the file of an init; raises Refused as kubeadm would.

    Args:
        text: the file.
        host: the machine.
        version: kubeadm's own version.
    """
    found = _documents(text)
    if "InitConfiguration" not in found and "ClusterConfiguration" not in found:
        raise Refused("no InitConfiguration or ClusterConfiguration kind was found in the YAML file")
    init = found.get("InitConfiguration", {})
    life = dig(init, "bootstrapTokens", 0, "ttl", default="24h0m0s")
    _span(life, "InitConfiguration")
    node = _registration(init.get("nodeRegistration"), host)
    local = _local(init.get("localAPIEndpoint"), host, "InitConfiguration")
    return Init(
        node,
        local,
        read_shared(found.get("ClusterConfiguration", {}), version),
        frozenset(map(str, init.get("skipPhases") or ())),
        str(life),
    )


def read_join(text: str, host: Host) -> Join:
    """Reads the file of a join; raises Refused as kubeadm would."""
    found = _documents(text).get("JoinConfiguration")
    if found is None:
        raise Refused('no JoinConfiguration found in config file "/etc/trilithon/kubernetes/kubeadm.yaml"')
    node = _registration(found.get("nodeRegistration"), host)
    plane = found.get("controlPlane")
    local = None
    if isinstance(plane, dict):
        local = _local(plane.get("localAPIEndpoint"), host, "JoinConfiguration")
    token, endpoint, hashes = _discovery(dig(found, "discovery", "bootstrapToken", default={}) or {})
    return Join(node, token, endpoint, hashes, local)


def read_shared(cluster: Obj, version: str) -> Shared:
    """Reads a ClusterConfiguration, from the file or from the cluster."""
    wanted = str(cluster.get("kubernetesVersion") or version)
    if not re.fullmatch(r"v?\d+\.\d+\.\d+.*", wanted):
        raise Refused(f'version "{wanted}" doesn\'t match patterns for neither semantic version nor labels (stable, '
                      "latest, ...)")  # fmt: skip
    if 0 < minor(wanted) < minor(version) - 1:
        raise Refused(
            "this version of kubeadm only supports deploying clusters with the control plane version >= "
            f"1.{minor(version) - 1}.0. Current version: {wanted}"
        )
    endpoint = str(cluster.get("controlPlaneEndpoint") or "")
    if endpoint:
        _check_endpoint(endpoint)
    networking = cluster.get("networking") or {}
    ranges = {}
    for key, default in (("podSubnet", ""), ("serviceSubnet", _DEFAULT_SERVICES)):
        ranges[key] = str(networking.get(key) or default)
        for part in filter(None, ranges[key].split(",")):
            if "/" not in part:
                raise Refused(f'networking.{key}: Invalid value: "{part}": couldn\'t parse subnet')
    algorithm = str(cluster.get("encryptionAlgorithm") or "RSA-2048")
    if algorithm not in _ALGORITHMS:
        listed = " ".join(_ALGORITHMS)
        raise Refused(
            f'encryptionAlgorithm: Invalid value: "{algorithm}": Invalid encryption algorithm "{algorithm}". Must be '
            f"one of [{listed}]"
        )
    server = cluster.get("apiServer") or {}
    name = str(cluster.get("clusterName") or "kubernetes")
    return Shared(
        name,
        wanted,
        endpoint,
        ranges["podSubnet"],
        ranges["serviceSubnet"],
        tuple(map(str, server.get("certSANs") or ())),
        _arguments(server.get("extraArgs"), "apiServer.extraArgs"),
        tuple(server.get("extraVolumes") or ()),
        dig(cluster, "proxy", "disabled", default=False) is True,
        _kept(cluster, name, wanted, ranges, algorithm),
    )


def _kept(cluster: Obj, name: str, version: str, ranges: dict[str, str], algorithm: str) -> Obj:
    networking = {"dnsDomain": "cluster.local", **{key: value for key, value in ranges.items() if value}}
    return {
        "apiServer": {},
        "controllerManager": {},
        "dns": {},
        "etcd": {"local": {"dataDir": "/var/lib/etcd"}},
        "proxy": {},
        "scheduler": {},
        **cluster,
        "apiVersion": API,
        "kind": "ClusterConfiguration",
        "caCertificateValidityPeriod": "87600h0m0s",
        "certificateValidityPeriod": "8760h0m0s",
        "certificatesDir": "/etc/kubernetes/pki",
        "clusterName": name,
        "encryptionAlgorithm": algorithm,
        "imageRepository": "registry.k8s.io",
        "kubernetesVersion": version,
        "networking": networking,
    }


def _documents(text: str) -> dict[str, Obj]:
    found: dict[str, Obj] = {}
    try:
        documents = [item for item in read_yamls(text) if item]
    except yaml.YAMLError as error:
        raise Refused(f"error converting YAML to JSON: yaml: {str(error).splitlines()[0]}") from error
    for document in documents:
        if not isinstance(document, dict):
            raise Refused("error unmarshaling JSON: json: cannot unmarshal string into Go value of type struct")
        version, kind = str(document.get("apiVersion") or ""), str(document.get("kind") or "")
        if not version or not kind:
            raise Refused(
                f"invalid configuration for GroupVersionKind {version or '/'}, Kind={kind}: kind and apiVersion is "
                "mandatory information that must be specified"
            )
        group, _, number = version.rpartition("/")
        if group == "kubeadm.k8s.io" and number.startswith(_OLD):
            raise Refused(
                f'your configuration file uses an old API spec: "{version}" (kind: "{kind}"). Please use kubeadm '
                "v1.22 instead and run 'kubeadm config migrate --old-config old-config-file --new-config "
                "new-config-file', which will write the new, similar spec using a newer API version."
            )
        known = {"InitConfiguration": API, "ClusterConfiguration": API, "JoinConfiguration": API}
        if {**known, "KubeletConfiguration": _KUBELET_API}.get(kind) != version:
            raise Refused(f'no kind "{kind}" is registered for version "{version}"')
        found[kind] = document
    return found


def _registration(given: Any, host: Host) -> Registration:
    given = given if isinstance(given, dict) else {}
    name = str(given.get("name") or host.name).strip().lower()
    if not _NAME.fullmatch(name):
        raise Refused(
            f'nodeRegistration.name: Invalid value: "{name}": a lowercase RFC 1123 subdomain must consist of lower '
            "case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character"
        )
    taints = given.get("taints")
    return Registration(
        name,
        str(given.get("criSocket") or SOCKET),
        _arguments(given.get("kubeletExtraArgs"), "nodeRegistration.kubeletExtraArgs"),
        None if taints is None else tuple(taints),
        frozenset(str(item).lower() for item in given.get("ignorePreflightErrors") or ()),
    )


def _arguments(given: Any, where: str) -> tuple[tuple[str, str], ...]:
    rows = given if isinstance(given, list) else []
    for index, row in enumerate(rows):
        if not row.get("name"):
            raise Refused(f'{where}: Invalid value: "index {index}": argument has no name')
    return tuple((str(row["name"]), str(row.get("value") or "")) for row in rows)


def _local(given: Any, host: Host, kind: str) -> Endpoint:
    given = given if isinstance(given, dict) else {}
    port = given.get("bindPort", 6443)
    if not isinstance(port, int):
        field_of = "localAPIEndpoint" if kind == "InitConfiguration" else "controlPlane.localAPIEndpoint"
        raise _unreadable(
            kind,
            f"json: cannot unmarshal string into Go struct field APIEndpoint.{field_of}.bindPort of type int32",
        )
    address = str(given.get("advertiseAddress") or host.address)
    try:
        ipaddress.ip_address(address)
    except ValueError as error:
        raise Refused(
            f'couldn\'t use "{address}" as "apiserver-advertise-address", must be ipv4 or ipv6 address'
        ) from error
    return Endpoint(address, port)


def _discovery(given: Obj) -> tuple[str, str, tuple[str, ...]]:
    token, endpoint = str(given.get("token") or ""), str(given.get("apiServerEndpoint") or "")
    problems: list[str] = []
    if not endpoint:
        problems.append("discovery.bootstrapToken: Required value: APIServerEndpoint is not set")
    if not _TOKEN.fullmatch(token):
        problems += [
            f'discovery.{key}: Invalid value: "{token}": the bootstrap token is invalid'
            for key in ("bootstrapToken.token", "tlsBootstrapToken")
        ]
    hashes = tuple(map(str, given.get("caCertHashes") or ()))
    if not hashes and given.get("unsafeSkipCAVerification") is not True:
        problems.append(
            'discovery.bootstrapToken.caCertHashes: Invalid value: "": using token-based discovery without '
            "caCertHashes can be unsafe. Set unsafeSkipCAVerification as true in your kubeadm config file or pass "
            "--discovery-token-unsafe-skip-ca-verification flag to continue"
        )
    if not endpoint:
        problems.append('discovery.bootstrapToken.apiServerEndpoint: Invalid value: "": missing port in address')
    if problems:
        raise Refused(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
    return token, endpoint, hashes


def _check_endpoint(endpoint: str) -> None:
    host, colon, port = endpoint.rpartition(":")
    if colon and not (port.isdigit() and 0 < int(port) < 65536):
        raise Refused(f"hostport {endpoint}: port {port} must be a valid number between 1 and 65535, inclusive")
    name = host if colon else endpoint
    if not re.fullmatch(r"[A-Za-z0-9.:\[\]-]+", name):
        raise Refused(
            f"hostport {endpoint}: host '{name}' must be a valid IP address or a valid RFC-1123 DNS subdomain"
        )


def _span(text: Any, kind: str) -> None:
    if not _SPAN.fullmatch(str(text)):
        raise _unreadable(kind, f'time: invalid duration "{text}"')


def _unreadable(kind: str, why: str) -> Refused:
    group = f'schema.GroupVersionKind{{Group:"kubeadm.k8s.io", Version:"v1beta4", Kind:"{kind}"}}'
    return Refused(f"error unmarshaling configuration {group}: {why}")
