"""Clusters, machines and nodes for tests of the domain."""

from typing import Any

from domain.clusters import Cluster, ClusterSpec, Distribution, Mark, NetworkSpec, WorkerPool
from domain.machines import CONTROL_PLANE_POOL, Machine, Phase, Role, drafts, identities


def spec(servers: int = 1, workers: tuple[int, ...] = (), **changes: Any) -> ClusterSpec:
    """An RKE2 cluster in documentation addresses; pools are called `md-0`, `md-1` and so on."""
    fields: dict[str, Any] = {
        "name": "prod",
        "distribution": Distribution.RKE2,
        "version": "v1.36.5+rke2r1",
        "control_planes": servers,
        "pools": tuple(WorkerPool(name=f"md-{i}", replicas=count) for i, count in enumerate(workers)),
        "endpoint": "192.0.2.50",
        "network": NetworkSpec(
            bridge="vmbr0",
            addresses=("192.0.2.51-192.0.2.69",),
            prefix=24,
            gateway="192.0.2.1",
            dns_servers=("192.0.2.1",),
        ),
        "storage": "shared",
    }
    return ClusterSpec(**(fields | changes))


def cluster(wanted: ClusterSpec, marks: tuple[Mark, ...] = (), **changes: Any) -> Cluster:
    return Cluster(
        id="cluster-1",
        namespace=wanted.namespace,
        name=wanted.name,
        site_id="site-1",
        spec=wanted,
        marks=marks,
        **changes,
    )


def machines(wanted: ClusterSpec, phase: Phase = Phase.RESERVED, cluster_id: str = "cluster-1") -> list[Machine]:
    """All machines of a spec, reserved as the store does it: VM ids and addresses in order."""
    return [
        Machine(**draft.model_dump(), cluster_id=cluster_id, vmid=20000 + i, address=f"192.0.2.{51 + i}", phase=phase)
        for i, draft in enumerate(drafts(wanted, cluster_id, [], identities(cluster_id, 0)))
    ]


def machine(name: str = "prod-cp-aaaaa", **changes: Any) -> Machine:
    """One server by itself."""
    fields: dict[str, Any] = {
        "id": name,
        "cluster_id": "cluster-1",
        "name": name,
        "role": Role.CONTROL_PLANE,
        "pool": CONTROL_PLANE_POOL,
        "version": "v1.36.5+rke2r1",
        "cores": 2,
        "memory_mib": 4096,
        "disk_gib": 30,
        "vmid": 20000,
        "address": "192.0.2.51",
        "mac": "bc:24:11:00:00:01",
        "bios_uuid": "00000000-0000-4000-8000-000000000001",
    }
    return Machine(**(fields | changes))
