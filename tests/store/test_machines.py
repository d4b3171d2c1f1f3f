"""Machines: reservations, the compare-and-set counter, phases, places."""

import asyncio

import pytest

from domain.clusters import Cluster, NetworkSpec
from domain.machines import Machine, Phase
from domain.placement import Placement
from store import Conflict, InUse, NoFreeAddress, NoFreeVmid, NotFound, Store
from tests.store.builders import draft, site, spec


def network(*addresses: str) -> NetworkSpec:
    return spec().network.model_copy(update={"addresses": addresses})


async def test_fifty_reservations_at_once_never_share(store: Store, another: Store, cluster: Cluster) -> None:
    stores = [store, another]
    reserved = await asyncio.gather(*(stores[n % 2].machines.reserve(cluster.id, [draft()]) for n in range(50)))
    machines = [machine for (machine,) in reserved]
    assert len({machine.vmid for machine in machines}) == 50
    assert len({machine.address for machine in machines}) == 50
    assert sorted(machine.vmid for machine in machines) == list(range(20000, 20050))


async def test_a_repeated_reservation_gives_the_same_machines(store: Store, cluster: Cluster) -> None:
    drafts = [draft("prod-cp-1"), draft("prod-md-1")]
    first = await store.machines.reserve(cluster.id, drafts)
    assert [machine.name for machine in first] == ["prod-cp-1", "prod-md-1"]
    assert await store.machines.reserve(cluster.id, drafts) == first
    more = await store.machines.reserve(cluster.id, [*drafts, draft("prod-md-2")])
    assert more[:2] == first
    assert await store.machines.of_cluster(cluster.id) == more


async def test_two_attempts_at_one_reservation_make_one_set(store: Store, another: Store, cluster: Cluster) -> None:
    drafts = [draft() for _ in range(4)]
    left, right = await asyncio.gather(
        store.machines.reserve(cluster.id, drafts), another.machines.reserve(cluster.id, drafts)
    )
    assert left == right


async def test_a_reservation_is_all_or_nothing(store: Store) -> None:
    await store.sites.add(site())
    small = await store.clusters.create(spec(network=network("10.0.1.1-10.0.1.3")), "site-lab", "ada")
    with pytest.raises(NoFreeAddress, match=r"all of 10\.0\.1\.1-10\.0\.1\.3 are taken"):
        await store.machines.reserve(small.id, [draft() for _ in range(4)])
    assert await store.machines.of_cluster(small.id, history=True) == []
    (machine, *_) = await store.machines.reserve(small.id, [draft() for _ in range(3)])
    assert machine.vmid == 20000


async def test_gateway_and_virtual_ip_are_never_given_out(store: Store) -> None:
    await store.sites.add(site())
    made = await store.clusters.create(
        spec(endpoint="10.0.0.2", network=network("10.0.0.1-10.0.0.4")), "site-lab", "ada"
    )
    machines = await store.machines.reserve(made.id, [draft(), draft()])
    assert [machine.address for machine in machines] == ["10.0.0.3", "10.0.0.4"]
    with pytest.raises(InUse, match=r"10\.0\.0\.3"):
        await store.clusters.create(spec("other", endpoint="10.0.0.3"), "site-lab", "ada")


async def test_a_released_address_is_taken_again_only_when_nothing_else_is_free(store: Store) -> None:
    await store.sites.add(site())
    made = await store.clusters.create(spec(network=network("10.0.1.1-10.0.1.3")), "site-lab", "ada")
    first, second = await store.machines.reserve(made.id, [draft(), draft()])
    await store.machines.release(second.id)
    await store.machines.release(first.id)
    third, fourth, fifth = await store.machines.reserve(made.id, [draft(), draft(), draft()])
    assert third.address == "10.0.1.3"
    assert {fourth.address, fifth.address} == {first.address, second.address}


async def test_a_freed_vmid_rests_until_the_range_has_wrapped(store: Store) -> None:
    await store.sites.add(site(vmid_first=500, vmid_last=503))
    made = await store.clusters.create(spec(), "site-lab", "ada")
    machines = await store.machines.reserve(made.id, [draft(), draft()])
    await store.machines.release(machines[0].id)
    later = [(await store.machines.reserve(made.id, [draft()]))[0].vmid for _ in range(3)]
    assert later == [502, 503, 500]
    with pytest.raises(NoFreeVmid, match="between 500 and 503"):
        await store.machines.reserve(made.id, [draft()])


async def test_of_two_takes_the_later_holds(store: Store, another: Store, cluster: Cluster) -> None:
    (machine,) = await store.machines.reserve(cluster.id, [draft()])
    taken = await asyncio.gather(store.machines.take(machine.id), another.machines.take(machine.id))
    assert sorted(taken) == [1, 2]
    assert not await store.machines.holds(machine.id, 1)
    assert await store.machines.holds(machine.id, 2)
    with pytest.raises(Conflict, match="later attempt"):
        await store.machines.advance(machine.id, Phase.CLONED, attempt=1)
    advanced = await store.machines.advance(machine.id, Phase.CLONED, attempt=2, message="cloned")
    assert (advanced.phase, advanced.message) == (Phase.CLONED, "cloned")


async def test_a_phase_never_goes_back(store: Store, cluster: Cluster) -> None:
    (machine,) = await store.machines.reserve(cluster.id, [draft()])
    started = await store.machines.advance(machine.id, Phase.STARTED, node="pve1")
    assert await store.machines.advance(machine.id, Phase.CLONED, message="late") == started
    assert (await store.machines.advance(machine.id, Phase.DELETING)).phase is Phase.DELETING
    assert (await store.machines.advance(machine.id, Phase.READY)).phase is Phase.DELETING
    assert (await store.machines.advance(machine.id, Phase.GONE)).phase is Phase.GONE
    assert await store.machines.of_cluster(cluster.id) == []
    assert [gone.id for gone in await store.machines.of_cluster(cluster.id, history=True)] == [machine.id]
    with pytest.raises(Conflict, match="is gone"):
        await store.machines.take(machine.id)
    with pytest.raises(ValueError, match="vmid"):
        await store.machines.advance(machine.id, Phase.GONE, vmid=1)


async def test_unknown_machines_are_not_found(store: Store) -> None:
    with pytest.raises(NotFound):
        await store.machines.get("nobody")
    with pytest.raises(NotFound):
        await store.machines.take("nobody")
    with pytest.raises(NotFound):
        await store.machines.reserve("nobody", [draft()])


async def test_machines_placed_at_once_see_each_other(store: Store, another: Store, cluster: Cluster) -> None:
    machines = await store.machines.reserve(cluster.id, [draft() for _ in range(12)])

    def spread(others: object) -> Placement:
        assert isinstance(others, list)
        load = dict.fromkeys(("pve1", "pve2", "pve3"), 0)
        for other in others:
            if other.node:
                load[other.node] += 1
        return Placement(node=min(load, key=lambda node: load[node]), template_vmid=9002)

    stores = [store, another]
    placed: list[Machine] = await asyncio.gather(
        *(stores[n % 2].machines.place(machine.id, spread) for n, machine in enumerate(machines))
    )
    nodes = [machine.node for machine in placed]
    assert {node: nodes.count(node) for node in set(nodes)} == {"pve1": 4, "pve2": 4, "pve3": 4}
    assert {machine.phase for machine in placed} == {Phase.PLACED}


async def test_a_choice_that_fails_writes_nothing(store: Store, cluster: Cluster) -> None:
    (machine,) = await store.machines.reserve(cluster.id, [draft()])

    def refuse(others: object) -> Placement:
        raise LookupError("no node fits")

    with pytest.raises(LookupError, match="no node fits"):
        await store.machines.place(machine.id, refuse)
    assert await store.machines.get(machine.id) == machine
    await store.machines.advance(machine.id, Phase.CLONED)
    with pytest.raises(Conflict, match="stands already"):
        await store.machines.place(machine.id, refuse)


async def test_a_burnt_vmid_is_replaced_by_the_next(store: Store, cluster: Cluster) -> None:
    (machine, other) = await store.machines.reserve(cluster.id, [draft(), draft()])
    await store.machines.advance(machine.id, Phase.CLONED, node="pve1", template_vmid=9002)
    burnt = await store.machines.burn_vmid(machine.id)
    assert (burnt.vmid, burnt.phase, burnt.node) == (other.vmid + 1, Phase.PLACED, "pve1")
    assert (await store.machines.burn_vmid(other.id)).phase is Phase.RESERVED


async def test_a_late_twin_of_a_removed_machine_does_not_rise(store: Store, cluster: Cluster) -> None:
    late = draft()
    (machine,) = await store.machines.reserve(cluster.id, [late])
    await store.machines.release(machine.id)
    await store.machines.release(machine.id)
    with pytest.raises(Conflict, match="removed already"):
        await store.machines.reserve(cluster.id, [late])


async def test_no_machine_is_added_to_a_cluster_that_goes(store: Store, cluster: Cluster) -> None:
    await store.clusters.request_deletion(cluster.id, "ada")
    with pytest.raises(Conflict, match="being deleted"):
        await store.machines.reserve(cluster.id, [draft()])


async def test_of_site_and_notes(store: Store, cluster: Cluster) -> None:
    (machine,) = await store.machines.reserve(cluster.id, [draft()])
    await store.machines.note(machine.id, "waits for a lock")
    (seen,) = await store.machines.of_site("site-lab")
    assert seen.message == "waits for a lock"
    found = await store.machines.of_clusters([cluster.id, "other"])
    assert found == {cluster.id: [seen], "other": []}
