"""A cluster as its owner wants it (`ClusterSpec`) and as we keep it (`Cluster`).

`ClusterSpec` is the one shape of a cluster for API, pages, store and planner. It is read from and written to the
`cluster.x-k8s.io/v1beta2` manifest by `domain.manifests`; the rules that its values obey are in `domain.validation`.
Fields that the owner left out stay unset (`model_fields_set`), so that a manifest comes back as it was given; the
effective values (defaults filled in) are what attribute access gives.
"""

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from domain.conditions import Condition
from domain.etcd import EtcdView
from domain.frozen import Frozen, Payload

DEFAULT_NAMESPACE = "clusters"


class Distribution(StrEnum):
    """The three ways to run Kubernetes that we know."""

    KUBEADM = "kubeadm"
    RKE2 = "rke2"
    K3S = "k3s"


class Cni(StrEnum):
    """Pod networks; which of them a distribution offers is decided in `domain.validation`."""

    CANAL = "canal"
    CALICO = "calico"
    CILIUM = "cilium"
    FLANNEL = "flannel"


class NetworkSpec(Frozen):
    """The nodes' network: where their addresses come from and how they reach the world.

    `addresses` holds ranges (`192.0.2.21-192.0.2.29`), networks in CIDR notation or single addresses, as written.
    """

    bridge: str
    vlan: int | None = None
    addresses: tuple[str, ...]
    prefix: int
    gateway: str
    dns_servers: tuple[str, ...]


class MachineSize(Frozen):
    """Size of one machine: virtual cores, memory in MiB, disk in GiB."""

    cores: int = 2
    memory_mib: int = 4096
    disk_gib: int


class ControlPlaneSize(MachineSize):
    disk_gib: int = 30


class WorkerSize(MachineSize):
    disk_gib: int = 40


class WorkerPool(Frozen):
    """Workers alike: one machine deployment of class `worker`."""

    name: str
    replicas: int = 1


class Headlamp(Frozen):
    enabled: bool = False
    hostname: str | None = None
    tls_secret: str | None = None


class Rancher(Frozen):
    install: bool = False
    registers: bool = True
    """The manifest's `register`; pydantic's base class already has an attribute of that name."""
    hostname: str | None = None


class OidcProvider(Frozen):
    """One OpenID Connect provider whose tokens the API server accepts."""

    issuer_url: str
    client_id: str
    username_claim: str = "email"
    username_prefix: str = "oidc:"
    groups_claim: str = "groups"
    groups_prefix: str = "oidc:"
    scopes: tuple[str, ...] = ("email", "profile")
    certificate_authority: str | None = None


class UpgradeMode(StrEnum):
    OFF = "off"
    PATCH = "patch"
    MINOR = "minor"


class MaintenanceWindow(Frozen):
    """When automatic upgrades may start: days of the window's own zone, start as HH:MM, length in minutes."""

    weekdays: tuple[str, ...] = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
    start: str = "02:00"
    duration_minutes: int = 240
    time_zone: str = "UTC"


class Upgrades(Frozen):
    mode: UpgradeMode = UpgradeMode.OFF
    window: MaintenanceWindow | None = None


class ClusterSpec(Frozen):
    """Everything that the owner of a cluster decides.

    `site` may be left out where only one site exists; `domain.validation` refuses an ambiguous one. `pod_cidrs` and
    `service_cidrs` are empty when the owner left the choice to us; `domain.addresses.choose_ranges` then picks, and
    the stored spec always has both.
    """

    name: str
    namespace: str = DEFAULT_NAMESPACE
    site: str | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    distribution: Distribution
    version: str
    control_planes: int = 1
    pools: tuple[WorkerPool, ...] = ()
    pod_cidrs: tuple[str, ...] = ()
    service_cidrs: tuple[str, ...] = ()
    endpoint: str
    network: NetworkSpec
    storage: str
    allowed_nodes: tuple[str, ...] | None = None
    proxmox_ha: bool = True
    control_plane_machine: ControlPlaneSize = ControlPlaneSize()
    worker_machine: WorkerSize = WorkerSize()
    cni: Cni | None = None
    kube_proxy_replacement: bool = False
    headlamp: Headlamp = Headlamp()
    rancher: Rancher = Rancher()
    oidc: tuple[OidcProvider, ...] | None = None
    upgrades: Upgrades = Upgrades()

    @property
    def workers(self) -> int:
        """Number of workers over all pools."""
        return sum(pool.replicas for pool in self.pools)

    @property
    def pool_name(self) -> str:
        """Last part of the cluster's Proxmox VE pool: `<namespace>.<name>`."""
        return f"{self.namespace}.{self.name}"


class ClusterStatus(StrEnum):
    """The one word that a list shows. Failed means: a person must act."""

    PROVISIONING = "Provisioning"
    AVAILABLE = "Available"
    UPGRADING = "Upgrading"
    RECONCILING = "Reconciling"
    DELETING = "Deleting"
    FAILED = "Failed"


class Outcome(StrEnum):
    """How the last job of a cluster ended, for the generation it worked on."""

    DONE = "done"
    ABORTED = "aborted"
    SUPERSEDED = "superseded"


class Mark(StrEnum):
    """Cluster-wide effects that have been seen done; the planner's memory between steps.

    A lost mark costs time only: every activity looks before it acts.
    """

    POOL = "pool"
    USER = "user"
    TOKEN = "token"  # noqa: S105 - the name of a mark, not a secret
    RIGHTS = "rights"
    AUTHORITIES = "authorities"
    MACHINES_RESERVED = "machines-reserved"
    API_ANSWERS = "api-answers"
    POD_NETWORK = "pod-network"
    CLOUD_CONTROLLER = "cloud-controller"
    JOINING_OPEN = "joining-open"
    """kubeadm's join token is valid in the cluster. The one mark that is taken back: when the last machine joined."""
    TAINTS = "taints"
    AVAILABLE = "available"
    # deletion
    TOKEN_REVOKED = "token-revoked"  # noqa: S105
    USER_DELETED = "user-deleted"
    RIGHTS_REVOKED = "rights-revoked"
    POOL_DELETED = "pool-deleted"


class Cluster(Payload):
    """A cluster as the store keeps it.

    `generation` counts accepted changes (a deletion request is one too); `settled_generation` is the last one that a
    job brought to an end, `outcome` says how. The dispatcher starts a job wherever the two differ, except where the
    outcome of this very generation is `aborted` (design: the store is the outbox).
    """

    id: str
    namespace: str
    name: str
    site_id: str
    spec: ClusterSpec
    generation: int = 1
    settled_generation: int = 0
    outcome: Outcome | None = None
    outcome_generation: int = 0
    attempt: int = 0
    next_attempt_at: datetime | None = None
    deletion_requested_at: datetime | None = None
    status: ClusterStatus = ClusterStatus.PROVISIONING
    conditions: tuple[Condition, ...] = ()
    marks: tuple[Mark, ...] = ()
    etcd: EtcdView | None = None
    """What was seen at the last look; None until the first."""
    created_at: datetime | None = None
    created_by: str = ""
    version: int = 1

    @property
    def deleting(self) -> bool:
        return self.deletion_requested_at is not None
