"""Clusters: names, generations, versions, the outbox."""

import asyncio

import pytest

from domain.clusters import Cluster, ClusterStatus, Headlamp, Mark, Outcome, WorkerPool
from domain.conditions import Condition, ConditionType, Reason
from domain.jobs import JobKind, wanted_job
from store import AlreadyExists, Conflict, InUse, NotFound, Store
from tests.store.builders import draft, site, spec
from tests.store.conftest import Clock


async def test_create_and_read_back(store: Store, clock: Clock) -> None:
    await store.sites.add(site())
    wanted = spec(labels={"z": "1", "a": "2"}, headlamp=Headlamp(enabled=True))
    made = await store.clusters.create(wanted, "site-lab", "ada@pve")
    assert await store.clusters.get(made.id) == made
    assert await store.clusters.find("clusters", "prod") == made
    assert (made.generation, made.settled_generation, made.created_by) == (1, 0, "ada@pve")
    assert made.created_at == clock.now


async def test_a_spec_comes_back_as_it_was_given(store: Store) -> None:
    await store.sites.add(site())
    wanted = spec(labels={"z": "1", "a": "2"}, headlamp=Headlamp(enabled=True))
    made = (await store.clusters.create(wanted, "site-lab", "ada@pve")).spec
    assert made == wanted
    assert made.model_fields_set == wanted.model_fields_set
    assert made.headlamp.model_fields_set == {"enabled"}
    assert list(made.labels) == ["z", "a"]


async def test_fifty_creates_of_one_name_make_one(store: Store, another: Store) -> None:
    await store.sites.add(site())
    stores = [store, another]
    made = await asyncio.gather(
        *(stores[n % 2].clusters.create(spec(number=n), "site-lab", "ada@pve") for n in range(50)),
        return_exceptions=True,
    )
    (winner,) = [cluster for cluster in made if isinstance(cluster, Cluster)]
    losers = [error for error in made if isinstance(error, AlreadyExists)]
    assert len(losers) == 49
    assert {error.existing_id for error in losers} == {winner.id}
    assert (await store.clusters.page())[1] == 1


async def test_one_name_at_two_sites_makes_one(store: Store, another: Store) -> None:
    await store.sites.add(site())
    await store.sites.add(site("other"))
    made = await asyncio.gather(
        *(
            where.clusters.create(spec(), f"site-{name}", "ada")
            for _ in range(5)
            for where, name in ((store, "lab"), (another, "other"))
        ),
        return_exceptions=True,
    )
    assert len([cluster for cluster in made if isinstance(cluster, Cluster)]) == 1
    assert len([error for error in made if isinstance(error, AlreadyExists)]) == 9


async def test_a_virtual_ip_is_held_once_per_network(store: Store) -> None:
    await store.sites.add(site())
    first = await store.clusters.create(spec(), "site-lab", "ada")
    with pytest.raises(InUse, match=r"10\.0\.2\.1"):
        await store.clusters.create(spec("second"), "site-lab", "ada")
    elsewhere = spec("second", network=spec().network.model_copy(update={"vlan": 7}))
    await store.clusters.create(elsewhere, "site-lab", "ada")
    await store.clusters.request_deletion(first.id, "ada")
    await store.clusters.forget(first.id)
    await store.clusters.create(spec("third"), "site-lab", "ada")


async def test_a_failed_create_leaves_nothing(store: Store) -> None:
    await store.sites.add(site())
    await store.clusters.create(spec(), "site-lab", "ada")
    before = await store.feed.last()
    with pytest.raises(InUse):
        await store.clusters.create(spec("second"), "site-lab", "ada")
    assert await store.clusters.find("clusters", "second") is None
    assert await store.feed.last() == before
    with pytest.raises(NotFound):
        await store.clusters.create(spec("second", number=1), "nowhere", "ada")


async def test_a_change_is_a_generation_with_author_and_diff(store: Store, cluster: Cluster, clock: Clock) -> None:
    at = clock.forward(minutes=5)
    wanted = spec(pools=(WorkerPool(name="gpu", replicas=1), WorkerPool(name="md-0", replicas=5)), storage="fast")
    changed = await store.clusters.change_spec(cluster.id, wanted, "bob@pve", cluster.version)
    assert (changed.generation, changed.version, changed.spec) == (2, cluster.version + 1, wanted)
    first, second = await store.clusters.revisions(cluster.id)
    assert (first.number, first.author, first.diff) == (1, "ada@pve", [])
    assert (second.number, second.author, second.at, second.spec) == (2, "bob@pve", at, wanted)
    assert second.diff == [
        {"path": "pools[md-0].replicas", "old": 3, "new": 5},
        {"path": "pools[gpu]", "old": None, "new": {"name": "gpu", "replicas": 1}},
        {"path": "storage", "old": "shared", "new": "fast"},
    ]


async def test_of_two_changes_from_one_version_one_wins(store: Store, another: Store, cluster: Cluster) -> None:
    changes = [
        where.clusters.change_spec(cluster.id, spec(storage=f"s{n}"), "ada", cluster.version)
        for n, where in enumerate((store, another) * 5)
    ]
    done = await asyncio.gather(*changes, return_exceptions=True)
    assert len([made for made in done if isinstance(made, Cluster)]) == 1
    assert len([made for made in done if isinstance(made, Conflict)]) == 9
    assert (await store.clusters.get(cluster.id)).generation == 2


async def test_the_same_spec_again_changes_nothing(store: Store, cluster: Cluster) -> None:
    before = await store.feed.last()
    assert await store.clusters.change_spec(cluster.id, spec(), "bob", cluster.version) == cluster
    assert len(await store.clusters.revisions(cluster.id)) == 1
    assert await store.feed.last() == before


async def test_a_changed_endpoint_moves_the_virtual_ip(store: Store, cluster: Cluster) -> None:
    await store.clusters.change_spec(cluster.id, spec(endpoint="10.0.9.9"), "ada", cluster.version)
    await store.clusters.create(spec("second"), "site-lab", "ada")
    with pytest.raises(InUse, match=r"10\.0\.9\.9"):
        await store.clusters.create(spec("third", endpoint="10.0.9.9"), "site-lab", "ada")


async def test_deletion_is_one_generation_once(store: Store, cluster: Cluster) -> None:
    first = await store.clusters.request_deletion(cluster.id, "bob")
    assert (first.generation, first.deleting, first.status) == (2, True, ClusterStatus.DELETING)
    assert await store.clusters.request_deletion(cluster.id, "eve") == first
    assert (await store.clusters.revisions(cluster.id))[-1].author == "bob"
    with pytest.raises(Conflict, match="being deleted"):
        await store.clusters.change_spec(cluster.id, spec(storage="fast"), "ada", first.version)


async def test_forget_ends_a_life_and_keeps_the_history(store: Store, cluster: Cluster, clock: Clock) -> None:
    (machine,) = await store.machines.reserve(cluster.id, [draft("prod-1")])
    await store.secrets.put(f"cluster/{cluster.id}", "authorities", b"x")
    await store.clusters.request_deletion(cluster.id, "ada")
    with pytest.raises(InUse, match="prod-1"):
        await store.clusters.forget(cluster.id)
    await store.machines.release(machine.id)
    await store.clusters.forget(cluster.id)
    await store.clusters.forget(cluster.id)
    with pytest.raises(NotFound):
        await store.clusters.get(cluster.id)
    assert (await store.clusters.get(cluster.id, history=True)).name == "prod"
    assert not await store.secrets.has(f"cluster/{cluster.id}", "authorities")
    assert len(await store.clusters.revisions(cluster.id)) == 2
    assert (await store.clusters.page())[1] == 0
    assert await store.clusters.unsettled(clock.now) == []
    await store.clusters.settle(cluster.id, 2, Outcome.DONE)
    again = await store.clusters.create(spec(), "site-lab", "ada")
    assert again.id != cluster.id


async def test_settle_never_goes_back(store: Store, cluster: Cluster) -> None:
    changed = await store.clusters.change_spec(cluster.id, spec(storage="fast"), "ada", 1)
    await store.clusters.settle(cluster.id, 2, Outcome.DONE)
    for generation, outcome in ((1, Outcome.DONE), (1, Outcome.ABORTED), (2, Outcome.SUPERSEDED), (2, Outcome.ABORTED)):
        await store.clusters.settle(cluster.id, generation, outcome)
        now = await store.clusters.get(cluster.id)
        assert (now.settled_generation, now.outcome, now.outcome_generation) == (2, Outcome.DONE, 2)
    assert changed.generation == 2
    await store.clusters.settle(cluster.id, 9, Outcome.DONE)
    assert (await store.clusters.get(cluster.id)).settled_generation == 2


async def test_the_outbox(store: Store, cluster: Cluster, clock: Clock) -> None:
    async def waiting() -> list[JobKind | None]:
        return [wanted_job(found) for found in await store.clusters.unsettled(clock.now)]

    assert await waiting() == [JobKind.CREATE]
    later = clock.now.replace(minute=30)
    await store.clusters.record_attempt(cluster.id, later)
    assert await waiting() == []
    clock.forward(minutes=30)
    assert await waiting() == [JobKind.CREATE]
    assert (await store.clusters.get(cluster.id)).attempt == 1

    await store.clusters.settle(cluster.id, 1, Outcome.SUPERSEDED)
    now = await store.clusters.get(cluster.id)
    assert (now.attempt, now.next_attempt_at, now.settled_generation) == (0, None, 0)
    assert await waiting() == [JobKind.CREATE]
    await store.clusters.settle(cluster.id, 1, Outcome.ABORTED)
    assert await waiting() == []
    await store.clusters.settle(cluster.id, 1, Outcome.SUPERSEDED)
    assert await waiting() == []

    await store.clusters.record_attempt(cluster.id, clock.now.replace(hour=20))
    await store.clusters.request_deletion(cluster.id, "ada")
    assert await waiting() == [JobKind.DELETE]
    await store.clusters.settle(cluster.id, 2, Outcome.DONE)
    assert await waiting() == []


async def test_marks(store: Store, another: Store, cluster: Cluster) -> None:
    await asyncio.gather(
        *(where.clusters.add_marks(cluster.id, mark) for mark in list(Mark)[:8] for where in (store, another))
    )
    assert set((await store.clusters.get(cluster.id)).marks) == set(list(Mark)[:8])
    await store.clusters.drop_marks(cluster.id, Mark.POOL, Mark.AVAILABLE)
    assert set((await store.clusters.get(cluster.id)).marks) == set(list(Mark)[1:8])


async def test_conditions_are_written_only_when_they_differ(store: Store, cluster: Cluster, clock: Clock) -> None:
    async def write(status: bool | None, message: str) -> Condition:
        condition = Condition(type=ConditionType.AVAILABLE, status=status, reason=Reason.IN_PROGRESS, message=message)
        await store.clusters.set_condition(cluster.id, condition)
        (kept,) = (await store.clusters.get(cluster.id)).conditions
        return kept

    began = clock.now
    assert (await write(False, "1 of 3")).last_transition == began
    before = await store.feed.last()
    clock.forward(seconds=10)
    assert (await write(False, "1 of 3")).last_transition == began
    assert await store.feed.last() == before
    assert (await write(False, "2 of 3")).last_transition == began
    assert await store.feed.last() == before + 1
    assert (await write(True, "")).last_transition == clock.now
    other = Condition(type=ConditionType.SITE_REACHABLE, status=True, reason=Reason.READY)
    await store.clusters.set_condition(cluster.id, other)
    kinds = [kept.type for kept in (await store.clusters.get(cluster.id)).conditions]
    assert kinds == [ConditionType.AVAILABLE, ConditionType.SITE_REACHABLE]


async def test_what_jobs_write_does_not_disturb_an_editor(store: Store, cluster: Cluster) -> None:
    await store.clusters.add_marks(cluster.id, Mark.POOL)
    await store.clusters.set_status(cluster.id, ClusterStatus.AVAILABLE)
    changed = await store.clusters.change_spec(cluster.id, spec(storage="fast"), "ada", cluster.version)
    assert (changed.status, changed.marks) == (ClusterStatus.AVAILABLE, (Mark.POOL,))


async def test_pages(store: Store, clock: Clock) -> None:
    await store.sites.add(site())
    await store.sites.add(site("other"))
    for n in range(12):
        clock.forward(seconds=1)
        where = "site-lab" if n % 3 else "site-other"
        made = await store.clusters.create(spec(f"c{n:02}", number=n), where, "ada")
        if n >= 10:
            await store.clusters.set_status(made.id, ClusterStatus.AVAILABLE)
            await store.clusters.add_marks(made.id, Mark.POOL, Mark.RIGHTS)

    async def names(**query: object) -> list[str]:
        found, _ = await store.clusters.page(**query)  # type: ignore[arg-type]
        return [cluster.name for cluster in found]

    found, total = await store.clusters.page(offset=4, limit=3)
    assert ([cluster.name for cluster in found], total) == (["c04", "c05", "c06"], 12)
    assert await names(site_id="site-other") == ["c00", "c03", "c06", "c09"]
    assert await names(names=["clusters.c01", "clusters/c07", "clusters/none"]) == ["c01", "c07"]
    assert await names(names=[]) == []
    assert await names(text="C1") == ["c10", "c11"]
    assert await names(text="%") == []
    assert await names(status=ClusterStatus.AVAILABLE, sort="-name") == ["c11", "c10"]
    assert await names(sort="-created", limit=2) == ["c11", "c10"]
    assert await names(sort="site", limit=1) == ["c01"]
    living = await store.clusters.all_living()
    assert len(living) == 12
    assert [one.id for one in await store.clusters.outlines([living[3].id, "none"])] == [living[3].id]
    outlines = {one.id: one for one in await store.clusters.outlines()}
    for cluster in living:
        seen = outlines.pop(cluster.id)
        assert (seen.site_id, seen.namespace, seen.name) == (cluster.site_id, cluster.namespace, cluster.name)
        assert (seen.marks, seen.deleting) == (cluster.marks, cluster.deleting)
    assert outlines == {}
    with pytest.raises(ValueError, match="cannot be sorted by 'age'"):
        await store.clusters.page(sort="age")
