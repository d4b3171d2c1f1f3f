"""Lists and pages with 1,000 clusters and 5,000 machines, at 20 requests a second."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import httpx

from cli.datafolder import DataFolder
from clients.proxmox import connect
from domain.clusters import ClusterSpec, ControlPlaneSize, Distribution, Mark, NetworkSpec, Outcome, WorkerPool
from domain.machines import drafts, identities
from store import Conflict, SecretKey, Store, open_store
from tests.e2e.running import Trilithon

CLUSTERS, MACHINES_EACH = 1000, 5
RATE, SECONDS = 20.0, 10.0


def measure(running: Trilithon) -> list[tuple[str, str, str, str]]:
    return asyncio.run(_measure(running))


async def _measure(running: Trilithon) -> list[tuple[str, str, str, str]]:
    folder = DataFolder(running.data)
    store = open_store(folder.store_url, SecretKey.load(folder.key), clock=lambda: datetime.now(UTC))
    try:
        with _held_worker(running):
            names = await _seed(store, running)
        async with httpx.AsyncClient(base_url=f"{running.url}/api/v1", timeout=30) as http:
            await _sign_in(http)
            load = f"{CLUSTERS:,} clusters, {CLUSTERS * MACHINES_EACH:,} machines, {RATE:.0f}/s"
            pages = await _paced(http, [f"/clusters?limit=50&offset={n * 50}" for n in range(20)])
            ones = await _paced(http, [f"/clusters/clusters/{name}" for name in names[:50]])
        return [
            ("GET list, 50 a page", load, _percentiles(pages), "p99 < 100 ms"),
            ("GET one cluster", load, _percentiles(ones), "p99 < 50 ms"),
        ]
    finally:
        await store.close()


@contextlib.contextmanager
def _held_worker(running: Trilithon) -> Iterator[None]:
    """Holds the worker while rows are written, or its dispatcher would start a job for each."""
    (pid,) = running.workers()
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


async def _seed(store: Store, running: Trilithon) -> list[str]:
    """Clusters that are settled, so that no job runs for them."""
    site = await store.sites.find("lab")
    assert site is not None
    secret = await store.secrets.get(f"site/{site.id}", "token")
    datacenter = connect(site, secret)
    names = []
    for number in range(CLUSTERS):
        spec = _spec(number, running.space + 10)
        cluster = await store.clusters.create(spec, site.id, "bench")
        await store.clusters.settle(cluster.id, 1, Outcome.DONE)
        await store.clusters.add_marks(cluster.id, Mark.RIGHTS)
        # A pool with an entry of its own, as every cluster has: that is what one read of a person's rights lists.
        pool = f"{site.workload_pool}/{spec.pool_name}"
        await datacenter.post("pools", poolid=pool)
        await datacenter.put("access/acl", path=f"/pool/{pool}", roles="TrilithonCluster", users="stranger@pve")
        try:
            await store.machines.reserve(cluster.id, drafts(spec, cluster.id, (), identities(cluster.id, 0)))
        except Conflict:  # two of 5,000 drawn MACs are the same now and then
            await store.machines.reserve(cluster.id, drafts(spec, cluster.id, (), identities(cluster.id, 1000)))
        names.append(spec.name)
    await datacenter.aclose()
    return names


def _spec(number: int, network: int) -> ClusterSpec:
    block = f"127.{network}.{100 + number // 16}"
    first = (number % 16) * 16
    return ClusterSpec(
        name=f"bench-{number:04d}",
        distribution=Distribution.K3S,
        version="v1.36.5+k3s1",
        control_planes=1,
        pools=(WorkerPool(name="md-0", replicas=MACHINES_EACH - 1),),
        pod_cidrs=("10.42.0.0/16",),
        service_cidrs=("10.43.0.0/16",),
        endpoint=f"{block}.{first + 1}",
        network=NetworkSpec(
            bridge="vmbr0",
            addresses=(f"{block}.{first + 2}-{block}.{first + 14}",),
            prefix=16,
            gateway=f"127.{network}.0.1",
            dns_servers=(f"127.{network}.0.1",),
        ),
        storage="shared",
        control_plane_machine=ControlPlaneSize(),
    )


async def _sign_in(http: httpx.AsyncClient) -> None:
    body = {"site": "lab", "realm": "pve", "username": "admin", "password": "lab-admin"}
    (await http.post("/session", json=body)).raise_for_status()


async def _paced(http: httpx.AsyncClient, paths: list[str]) -> list[float]:
    """Milliseconds of each request, sent at the rate whatever the answers take."""
    took: list[float] = []

    async def one(path: str) -> None:
        begun = time.perf_counter()
        (await http.get(path)).raise_for_status()
        took.append((time.perf_counter() - begun) * 1000)

    count = int(RATE * SECONDS)
    begun = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for number in range(count):
            await asyncio.sleep(max(0.0, begun + number / RATE - time.perf_counter()))
            tasks.create_task(one(paths[number % len(paths)]))
    return took


def _percentiles(took: list[float]) -> str:
    ordered = sorted(took)
    at = lambda share: ordered[min(len(ordered) - 1, int(len(ordered) * share))]  # noqa: E731
    return f"p50 {at(0.5):.0f} ms, p99 {at(0.99):.0f} ms"
