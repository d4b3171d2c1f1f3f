"""Sites, specs and drafts for the tests of the store."""

import itertools

from domain.clusters import ClusterSpec, Distribution, NetworkSpec, WorkerPool
from domain.machines import MachineDraft, Role
from domain.sites import Site


def site(name: str = "lab", **changes: object) -> Site:
    fields = {
        "id": f"site-{name}",
        "name": name,
        "endpoints": ("https://192.0.2.1:8006",),
        "token_id": "trilithon@pve!platform",
        "workload_pool": "trilithon",
        "template_pool": "trilithon-templates",
        "iso_storage": "iso",
        "vmid_first": 20000,
        "vmid_last": 20999,
        **changes,
    }
    return Site.model_validate(fields)


def spec(name: str = "prod", *, number: int = 0, **changes: object) -> ClusterSpec:
    """A cluster's spec; `number` keeps the virtual IPs of several apart."""
    network = NetworkSpec(
        bridge="vmbr0",
        addresses=("10.0.1.1-10.0.1.60",),
        prefix=16,
        gateway="10.0.0.1",
        dns_servers=("10.0.0.1",),
    )
    fields = {
        "name": name,
        "distribution": Distribution.K3S,
        "version": "v1.36.5+k3s1",
        "endpoint": f"10.0.{2 + number // 250}.{1 + number % 250}",
        "network": network,
        "storage": "shared",
        "pools": (WorkerPool(name="md-0", replicas=3),),
        **changes,
    }
    return ClusterSpec.model_validate(fields)


_drafted = itertools.count(1)


def draft(name: str = "", *, role: Role = Role.WORKER, pool: str = "md-0", initialiser: bool = False) -> MachineDraft:
    number = next(_drafted)
    return MachineDraft(
        id=f"machine-{number}",
        name=name or f"prod-{number}",
        role=role,
        pool=pool,
        version="v1.36.5+k3s1",
        cores=2,
        memory_mib=4096,
        disk_gib=40,
        mac=f"02:00:00:00:{number // 256:02x}:{number % 256:02x}",
        bios_uuid=f"00000000-0000-4000-8000-{number:012x}",
        initialiser=initialiser,
    )
