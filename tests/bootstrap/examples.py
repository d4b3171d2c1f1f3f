"""Example clusters and machines for the tests of `bootstrap/`; every value is fixed, so golden files stay."""

import hashlib
from datetime import UTC, datetime
from functools import lru_cache

from bootstrap import BootData, BootInput, authorities, boot_data, tokens
from bootstrap.authorities import AUTHORITY_LIFE, Authorities
from domain.clusters import ClusterSpec, Cni, Distribution, NetworkSpec, WorkerPool
from domain.machines import CONTROL_PLANE_POOL, Machine, Role

START = datetime(2026, 1, 1, tzinfo=UTC)
END = START + AUTHORITY_LIFE
VERSIONS = {
    Distribution.K3S: ("v1.36.5+k3s1", "v1.33.9+k3s1"),
    Distribution.RKE2: ("v1.36.5+rke2r1", "v1.33.9+rke2r1"),
    Distribution.KUBEADM: ("v1.36.3", "v1.35.4", "v1.34.8"),
}
BUILT = tuple(VERSIONS)
SUPERVISORS = (Distribution.K3S, Distribution.RKE2)
"""Those whose node is one program with one configuration file."""
ROLES = ("first-server", "joining-server", "worker")


class SeededRandomness:
    """A repeatable stream of bytes: SHA-256 of a seed and a counter. For tests only."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._count = 0

    def token_bytes(self, nbytes: int, /) -> bytes:
        drawn = b""
        while len(drawn) < nbytes:
            drawn += hashlib.sha256(f"{self._seed}/{self._count}".encode()).digest()
            self._count += 1
        return drawn[:nbytes]


@lru_cache
def example_authorities(distribution: Distribution, seed: str = "authorities") -> Authorities:
    return authorities.make(SeededRandomness(seed), START, END, distribution)


def example_tokens(seed: str = "tokens") -> tokens.Tokens:
    return tokens.make(SeededRandomness(seed))


def example_spec(
    distribution: Distribution = Distribution.K3S,
    version: str | None = None,
    cni: Cni | None = None,
    kube_proxy_replacement: bool = False,
) -> ClusterSpec:
    return ClusterSpec(
        name="prod",
        distribution=distribution,
        version=version or VERSIONS[distribution][0],
        control_planes=3,
        pools=(WorkerPool(name="workers", replicas=2),),
        pod_cidrs=("10.52.0.0/16",),
        service_cidrs=("10.53.0.0/16",),
        endpoint="192.0.2.50",
        network=NetworkSpec(
            bridge="vmbr0",
            addresses=("192.0.2.51-192.0.2.59",),
            prefix=24,
            gateway="192.0.2.1",
            dns_servers=("192.0.2.2", "192.0.2.3"),
        ),
        storage="shared",
        # kubeadm brings none of its own.
        cni=Cni.CALICO if cni is None and distribution is Distribution.KUBEADM else cni,
        kube_proxy_replacement=kube_proxy_replacement,
    )


def example_machine(role: str, version: str) -> Machine:
    number = ROLES.index(role) + 1
    server = role != "worker"
    return Machine(
        id=f"machine-{number}",
        cluster_id="cluster-1",
        name=f"prod-cp-{number}" if server else f"prod-workers-{number}",
        role=Role.CONTROL_PLANE if server else Role.WORKER,
        pool=CONTROL_PLANE_POOL if server else "workers",
        initialiser=role == "first-server",
        version=version,
        cores=2,
        memory_mib=4096,
        disk_gib=30,
        vmid=20000 + number,
        address=f"192.0.2.{50 + number}",
        mac=f"BC:24:11:00:00:0{number}",
        bios_uuid=f"6f1f2d6e-0000-4000-8000-00000000000{number}",
    )


def example_input(
    role: str = "first-server",
    distribution: Distribution = Distribution.K3S,
    version: str | None = None,
    cni: Cni | None = None,
    kube_proxy_replacement: bool = False,
    artifact_url: str | None = None,
    has_programs: bool = True,
) -> BootInput:
    spec = example_spec(distribution, version, cni, kube_proxy_replacement)
    return BootInput(
        spec=spec,
        machine=example_machine(role, spec.version),
        first_server=role == "first-server",
        authorities=example_authorities(distribution),
        tokens=example_tokens(),
        artifact_url=artifact_url,
        has_programs=has_programs,
    )


def example_boot_data(role: str = "first-server", distribution: Distribution = Distribution.K3S) -> BootData:
    return boot_data(example_input(role, distribution))
