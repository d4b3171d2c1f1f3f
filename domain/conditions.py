"""Conditions: what is true of a cluster right now, in words that pages, CLI and `kubectl` share.

Types and reasons are an interface: scripts wait for them. Each reason says when it is set and what a person can do.
A passing fact (no memory, a lock, an offline node) is a reason of a false condition, never a terminal error.
"""

from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from domain.frozen import Payload

if TYPE_CHECKING:  # a cluster has conditions, so at run time the import goes the other way
    from domain.clusters import ClusterSpec


class ConditionType(StrEnum):
    """What a condition is about."""

    AVAILABLE = "Available"
    """The API answers through the virtual IP, every wanted node is Ready, the mandatory add-ons are ready."""
    JOB_PENDING = "JobPending"
    """An accepted change waits for its job to start (Temporal is away, or an earlier job must end first)."""
    CONTROL_PLANE_READY = "ControlPlaneReady"
    WORKERS_READY = "WorkersReady"
    MACHINES_PLACED = "MachinesPlaced"
    """Every machine has a node of Proxmox VE; while one waits for room, the message says why each node refuses it."""
    CLOUD_CONTROLLER_READY = "CloudControllerReady"
    POD_NETWORK_READY = "PodNetworkReady"
    VOLUMES_READY = "VolumesReady"
    HEADLAMP_READY = "HeadlampReady"
    RANCHER_READY = "RancherReady"
    HIGH_AVAILABILITY_READY = "HighAvailabilityReady"
    UPGRADES_READY = "UpgradesReady"
    IDENTITY_READY = "IdentityReady"
    KUBE_PROXY_REPLACEMENT_READY = "KubeProxyReplacementReady"
    ETCD_HEALTHY = "EtcdHealthy"
    """Every server is a healthy voter of etcd and nobody else is; unknown while no server could be asked."""
    SITE_REACHABLE = "SiteReachable"
    DELETING = "Deleting"


class Reason(StrEnum):
    """Why a condition has its status. The string is stable; the message beside it is for people."""

    READY = "Ready"
    WAITING = "Waiting"
    NOT_BUILT_YET = "NotBuiltYet"
    """The setting is accepted and kept, but this release does not act on it."""
    NO_CAPACITY = "NoCapacity"
    NODE_OFFLINE = "NodeOffline"
    SITE_UNREACHABLE = "SiteUnreachable"
    TOKEN_REFUSED = "TokenRefused"  # noqa: S105 - a reason, not a secret
    """The cluster's own Proxmox VE token is refused: nodes stay uninitialised until it works again."""
    UNINITIALISED = "Uninitialised"
    NODES_NOT_READY = "NodesNotReady"
    JOIN_FAILED = "JoinFailed"
    TASK_FAILED = "TaskFailed"
    AWAITING_DECISION = "AwaitingDecision"
    """A job is parked; `retry` or `abort` it."""
    ENGINE_AWAY = "EngineAway"
    """The Temporal server does not answer; the change is kept and starts when it is back."""
    ETCD_DEGRADED = "EtcdDegraded"
    """etcd works and bears less loss than it should; no server is added meanwhile. The message names each member."""
    ETCD_NO_MAJORITY = "EtcdNoMajority"
    """Too few members work: nothing can be written. Bring servers back, or restore a snapshot."""
    ETCD_UNREACHABLE = "EtcdUnreachable"
    """No server's etcd could be asked (port 2379 from the platform to the servers)."""
    ABORTED = "Aborted"
    IN_PROGRESS = "InProgress"


class Condition(Payload):
    """One condition, in the shape of the Kubernetes API conventions."""

    type: ConditionType
    status: bool | None = None
    reason: Reason
    message: str = ""
    last_transition: datetime | None = None


def unbuilt(spec: "ClusterSpec") -> list[Condition]:
    """The settings of a spec that are accepted and kept but not acted on by this release, as false conditions.

    A setting must never be dropped in silence (design.md section 3). None of these holds back Available. When a
    release builds one, its line goes and the activity that does it sets the condition instead.
    """
    wanted: list[tuple[ConditionType, bool, str]] = [
        (ConditionType.VOLUMES_READY, True, "persistent volumes (the Proxmox CSI plugin and its StorageClass)"),
        (ConditionType.HEADLAMP_READY, spec.headlamp.enabled, "Headlamp"),
        (
            ConditionType.RANCHER_READY,
            spec.rancher.install or spec.rancher.registers,
            "Rancher" if spec.rancher.install else "registration with a Rancher that we installed",
        ),
        (ConditionType.HIGH_AVAILABILITY_READY, spec.proxmox_ha, "Proxmox VE HA for the control plane"),
        (ConditionType.UPGRADES_READY, spec.upgrades.mode != "off", "automatic upgrades"),
        (ConditionType.IDENTITY_READY, bool(spec.oidc), "sign-in with OpenID Connect providers"),
    ]
    return [
        Condition(
            type=kind,
            status=False,
            reason=Reason.NOT_BUILT_YET,
            message=f"The setting is kept, but this release does not do it yet: {what}.",
        )
        for kind, applies, what in wanted
        if applies
    ]
