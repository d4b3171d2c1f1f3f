"""The change feed: order, no gaps, waking up."""

import asyncio

import pytest

from domain.clusters import Cluster, ClusterStatus, Mark
from domain.jobs import Job, JobKind, JobPhase
from domain.machines import Phase
from store import Store, database, feed
from tests.store.builders import draft, site, spec


async def test_every_write_is_announced_in_order(store: Store) -> None:
    assert await store.feed.last() == 0
    await store.sites.add(site())
    cluster = await store.clusters.create(spec(), "site-lab", "ada")
    (machine,) = await store.machines.reserve(cluster.id, [draft()])
    await store.machines.advance(machine.id, Phase.STARTED)
    await store.jobs.begin(Job(id="run-1", workflow_id="w", kind=JobKind.CREATE, cluster_id=cluster.id))
    await store.jobs.append_log("run-1", "hello")
    await store.jobs.finish("run-1", JobPhase.DONE)
    changes = await store.changes_after(0)
    assert [change.seq for change in changes] == list(range(1, 8))
    kinds = [(change.kind, change.id) for change in changes]
    assert kinds == [
        ("site", "site-lab"),
        ("cluster", cluster.id),
        ("machine", machine.id),
        ("machine", machine.id),
        ("job", "run-1"),
        ("log", "run-1"),
        ("job", "run-1"),
    ]
    assert {change.cluster_id for change in changes[1:]} == {cluster.id}
    assert [change.seq for change in await store.changes_after(5)] == [6, 7]
    assert [change.seq for change in await store.changes_after(0, limit=2)] == [1, 2]
    assert len(await store.changes_after(0, cluster_id="other")) == 0
    assert len(await store.changes_after(0, site_id="site-lab")) == 4


async def test_a_reader_beside_fifty_writers_misses_nothing(store: Store, another: Store, cluster: Cluster) -> None:
    """The number of a change is never seen after a higher one was."""
    start = await store.feed.last()
    stores = [store, another]
    seen: list[int] = []

    async def read() -> None:
        position = start
        while len(seen) < 60:
            assert await another.wait_change(position, timeout=30)
            for change in await another.changes_after(position):
                seen.append(change.seq)
                position = change.seq

    reader = asyncio.create_task(read())
    await asyncio.gather(
        *(stores[n % 2].machines.reserve(cluster.id, [draft()]) for n in range(50)),
        *(stores[n % 2].clusters.add_marks(cluster.id, mark) for n, mark in enumerate(list(Mark)[:10])),
    )
    await reader
    assert seen == list(range(start + 1, start + 61))


async def test_waiting(store: Store, another: Store, cluster: Cluster) -> None:
    last = await store.feed.last()
    assert await store.wait_change(last - 1, timeout=0)
    assert not await store.wait_change(last, timeout=0.01)

    waiting = [asyncio.create_task(store.wait_change(last, timeout=30)) for _ in range(20)]
    await another.clusters.set_status(cluster.id, ClusterStatus.AVAILABLE)
    assert await asyncio.gather(*waiting) == [True] * 20


async def test_our_own_write_wakes_at_once(store: Store, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "POLL_SECONDS", 3600.0)
    last = await store.feed.last()
    waiting = asyncio.create_task(store.wait_change(last, timeout=30))
    await asyncio.sleep(0)
    await store.clusters.set_status(cluster.id, ClusterStatus.AVAILABLE)
    assert await waiting


async def test_a_write_that_changes_nothing_is_silent(store: Store, cluster: Cluster) -> None:
    (machine,) = await store.machines.reserve(cluster.id, [draft()])
    await store.machines.advance(machine.id, Phase.CLONED, node="pve1")
    await store.machines.note(machine.id, "waits")
    last = await store.feed.last()
    await store.machines.advance(machine.id, Phase.CLONED, node="pve1")
    await store.machines.note(machine.id, "waits")
    await store.machines.reserve(cluster.id, [])
    await store.clusters.add_marks(cluster.id)
    await store.clusters.drop_marks(cluster.id, Mark.POOL)
    await store.clusters.set_status(cluster.id, ClusterStatus.PROVISIONING)
    assert await store.feed.last() == last


async def test_old_changes_go(store: Store, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "FEED_KEPT", 50)
    monkeypatch.setattr(database, "FEED_PRUNED_EVERY", 10)
    (machine,) = await store.machines.reserve(cluster.id, [draft()])
    start = await store.feed.last()
    for n in range(start, 74):
        await store.machines.note(machine.id, f"note {n}")
    assert await store.feed.last() == 74
    assert await store.feed.first_kept() == 21
    assert [change.seq for change in await store.changes_after(0)] == list(range(21, 75))
