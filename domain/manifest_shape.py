"""The shape of a `Cluster` manifest: field names on the wire, and what type each has. No rules.

Each class mirrors one of `domain.clusters`: the same Python field names, the manifest's names as aliases. That makes
reading and writing one renaming. Types are strict: `"3"` is no number and `1` is no tick, because a manifest that is
read more kindly here than by other tools would mean two things.

Optional fields also take null, which Kubernetes reads as "left out". Server-owned metadata and `status` are taken and
dropped, so that what `kubectl get -o yaml` printed can be applied again.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

API_VERSION = "cluster.x-k8s.io/v1beta2"
KIND = "Cluster"
WORKER_CLASS = "worker"


class Shape(BaseModel):
    """Base: strict, and an unknown field is a mistake to report."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


def _named(alias: str) -> Any:
    return Field(default=None, alias=alias)


class NetworkShape(Shape):
    bridge: str
    vlan: int | None = None
    addresses: list[str]
    prefix: int
    gateway: str
    dns_servers: list[str] = Field(alias="dnsServers")


class MachineShape(Shape):
    cores: int | None = None
    memory_mib: int | None = _named("memoryMiB")
    disk_gib: int | None = _named("diskGiB")


class HeadlampShape(Shape):
    enabled: bool | None = None
    hostname: str | None = None
    tls_secret: str | None = _named("tlsSecret")


class RancherShape(Shape):
    install: bool | None = None
    registers: bool | None = _named("register")
    hostname: str | None = None


class OidcShape(Shape):
    issuer_url: str = Field(alias="issuerURL")
    client_id: str = Field(alias="clientID")
    username_claim: str | None = _named("usernameClaim")
    username_prefix: str | None = _named("usernamePrefix")
    groups_claim: str | None = _named("groupsClaim")
    groups_prefix: str | None = _named("groupsPrefix")
    scopes: list[str] | None = None
    certificate_authority: str | None = _named("certificateAuthority")


class WindowShape(Shape):
    weekdays: list[str] | None = None
    start: str | None = None
    duration_minutes: int | None = _named("durationMinutes")
    time_zone: str | None = _named("timeZone")


Modes = Literal["off", "patch", "minor"]
Cnis = Literal["canal", "calico", "cilium", "flannel"]


class UpgradesShape(Shape):
    mode: Modes | None = None
    window: WindowShape | None = None


class VariableShape(Shape):
    """One variable; `VARIABLES` has the shape of its value."""

    name: str
    value: Any


class Metadata(Shape):
    name: str
    namespace: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    # What an API server owns; taken so that a printed object can be applied, never kept.
    uid: Any = None
    resource_version: Any = _named("resourceVersion")
    generation: Any = None
    creation_timestamp: Any = _named("creationTimestamp")
    deletion_timestamp: Any = _named("deletionTimestamp")
    deletion_grace_period_seconds: Any = _named("deletionGracePeriodSeconds")
    managed_fields: Any = _named("managedFields")
    self_link: Any = _named("selfLink")


class Blocks(Shape):
    blocks: list[str] = Field(alias="cidrBlocks")


class ClusterNetwork(Shape):
    pods: Blocks | None = None
    services: Blocks | None = None


class ClassRef(Shape):
    name: str
    namespace: str | None = None


class ControlPlane(Shape):
    replicas: int | None = None


class MachineDeployment(Shape):
    of_class: Literal["worker"] = Field(alias="class")
    name: str
    replicas: int | None = None


class Workers(Shape):
    deployments: list[MachineDeployment] | None = _named("machineDeployments")


class Topology(Shape):
    class_ref: ClassRef = Field(alias="classRef")
    version: str
    control_plane: ControlPlane | None = _named("controlPlane")
    workers: Workers | None = None
    variables: list[Any] | None = None
    """Each entry is read as a `VariableShape` by itself, so that a broken one does not hide the others."""


class Spec(Shape):
    network: ClusterNetwork | None = _named("clusterNetwork")
    topology: Topology


class Document(Shape):
    """A whole manifest."""

    api_version: Annotated[Literal["cluster.x-k8s.io/v1beta2"], Field(alias="apiVersion")]
    kind: Literal["Cluster"]
    metadata: Metadata
    spec: Spec
    status: Any = None


VARIABLES: dict[str, tuple[str, Any]] = {
    "controlPlaneEndpoint": ("endpoint", str),
    "network": ("network", NetworkShape),
    "storage": ("storage", str),
    "allowedNodes": ("allowed_nodes", list[str]),
    "proxmoxHA": ("proxmox_ha", bool),
    "controlPlaneMachine": ("control_plane_machine", MachineShape),
    "workerMachine": ("worker_machine", MachineShape),
    "cni": ("cni", Cnis),
    "kubeProxyReplacement": ("kube_proxy_replacement", bool),
    "headlamp": ("headlamp", HeadlampShape),
    "rancher": ("rancher", RancherShape),
    "oidc": ("oidc", list[OidcShape]),
    "upgrades": ("upgrades", UpgradesShape),
}
"""Variable -> (field of `ClusterSpec`, shape of its value). The order is the one in which they are written."""

REQUIRED_VARIABLES = ("controlPlaneEndpoint", "network", "storage")
