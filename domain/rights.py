"""Who may do what: the person's own Proxmox VE privileges, as pure questions over what Proxmox VE answered.

A permissions map is the answer of `GET /access/permissions`: `{path: {privilege: propagate}}`. Its value says whether
a privilege is passed on to paths below, not whether it is held: held is what has a key (facts/proxmox.md 1.2).
"""

from collections.abc import Mapping
from enum import StrEnum

from domain.clusters import ClusterSpec
from domain.frozen import Frozen

Permissions = Mapping[str, Mapping[str, int]]

AUDIT = "VM.Audit"
ALLOCATE = "VM.Allocate"
MODIFY = "Sys.Modify"
SETUP_PRIVILEGES = (MODIFY, "Permissions.Modify")
"""The set-up privileges: what it takes to make roles and to grant them."""
OWN_BRIDGES_ZONE = "localnetwork"
"""Proxmox VE's zone of the nodes' own bridges."""


class Action(StrEnum):
    """What the document's table 'Who may do what' lists."""

    SEE = "see"
    CREATE = "create"
    CHANGE = "change"
    DELETE = "delete"
    KUBECONFIG = "kubeconfig"
    PLACE_BY_HA_RULE = "place-by-ha-rule"
    INSTALL_RANCHER = "install-rancher"
    TRUST_PROVIDER = "trust-provider"
    """Trust an identity provider beyond those set for every cluster and the cluster's own."""
    SET_UP = "set-up"


class Missing(Frozen):
    """The first privilege that a person lacks for an action, and where."""

    privilege: str
    path: str

    @property
    def message(self) -> str:
        return f"this needs {self.privilege} on {self.path}"


class Places(Frozen):
    """Where an action's privileges are asked. `cluster_pool` is None while the cluster does not exist yet."""

    workload_pool: str
    cluster_pool: str | None = None
    storage: str = ""
    bridge: str = ""
    vlan: int | None = None
    zone: str = OWN_BRIDGES_ZONE

    @classmethod
    def of(cls, spec: ClusterSpec, workload_pool: str, *, exists: bool) -> "Places":
        """The places of a cluster's spec."""
        return cls(
            workload_pool=workload_pool,
            cluster_pool=f"{workload_pool}/{spec.pool_name}" if exists else None,
            storage=spec.storage,
            bridge=spec.network.bridge,
            vlan=spec.network.vlan,
        )


def needs(action: Action, places: Places) -> list[tuple[str, str]]:
    """The (privilege, path) pairs that an action needs, all of them.

    Raises ValueError for an action on an existing cluster without its pool: a missing path must not become a right.
    """
    workload = f"/pool/{places.workload_pool}"
    if action is Action.CREATE:
        bridge = f"/sdn/zones/{places.zone}/{places.bridge}"
        return [
            (ALLOCATE, workload),
            ("Datastore.AllocateSpace", f"/storage/{places.storage}"),
            ("SDN.Use", f"{bridge}/{places.vlan}" if places.vlan is not None else bridge),
        ]
    if action is Action.PLACE_BY_HA_RULE:
        return [("Sys.Audit", "/")]
    if action is Action.SET_UP:
        return [(privilege, "/") for privilege in SETUP_PRIVILEGES]
    if action is Action.INSTALL_RANCHER:
        return [(MODIFY, workload)]
    if action is Action.TRUST_PROVIDER:
        return [(MODIFY, f"/pool/{places.cluster_pool}" if places.cluster_pool else workload)]
    if not places.cluster_pool:
        raise ValueError(f"{action} is asked on a cluster's own pool, and none is given")
    privilege = {Action.SEE: AUDIT, Action.KUBECONFIG: MODIFY}.get(action, ALLOCATE)
    return [(privilege, f"/pool/{places.cluster_pool}")]


def may(action: Action, permissions: Permissions, places: Places) -> Missing | None:
    """None when the person may, otherwise the first privilege that is missing."""
    for privilege, path in needs(action, places):
        if privilege not in held(permissions, path):
            return Missing(privilege=privilege, path=path)
    return None


def held(permissions: Permissions, path: str) -> frozenset[str]:
    """The privileges on `path`.

    A listed path is answered by its own entry, where a value of 0 counts as held. Proxmox VE leaves out paths without
    an ACL of their own; such a path has what its nearest listed ancestor passes on (value 1). The nearest entry
    replaces everything above it: nothing is added from further up.
    """
    if path in permissions:
        return frozenset(permissions[path])
    while path != "/":
        path = path.rpartition("/")[0] or "/"
        if path in permissions:
            return frozenset(privilege for privilege, passed_on in permissions[path].items() if passed_on)
    return frozenset()
