"""Servers take their turns by what the job sees of etcd."""

from temporalio.client import Client

from domain.contracts import activities as names
from domain.contracts import jobs as contract
from domain.jobs import JobKind, JobPhase
from tests.workflows.conftest import start, working
from tests.workflows.world import World, spec


async def test_each_further_server_and_the_end_come_after_a_look(client: Client, place: str) -> None:
    world = World(spec(servers=3, workers=0))
    world.watch_etcd()
    async with working(client, world, place):
        job = await start(client, world, place, JobKind.CREATE)
        assert await job.result() == "done"
    marking = {names.LOOK_AT_ETCD, names.START_MACHINE, names.AWAIT_AVAILABLE}
    order = [name for name in dict.fromkeys(world.calls) if name[0] in marking]
    assert world.ran(names.LOOK_AT_ETCD) == 3
    told = [name for name, _ in world.calls if name in marking]
    started = [i for i, name in enumerate(told) if name == names.START_MACHINE]
    assert told[started[0] - 1 : started[0]] != [names.LOOK_AT_ETCD], "the first server has no etcd to look at"
    assert [told[i - 1] for i in started[1:]] == [names.LOOK_AT_ETCD] * 2
    assert told[-2:] == [names.LOOK_AT_ETCD, names.AWAIT_AVAILABLE]
    assert len(order) == 5


async def test_the_job_waits_and_says_what_etcd_lacks(client: Client, place: str) -> None:
    world = World(spec(servers=3, workers=0))
    world.watch_etcd("cp-1 does not work: no route", "cp-1 is still joining etcd")
    async with working(client, world, place):
        job = await start(client, world, place, JobKind.CREATE)
        assert await job.result() == "done"
    waits = [report.waiting_for for report in world.reports if report.phase is JobPhase.WAITING]
    assert "prod: cp-1 does not work: no route" in waits
    assert world.ran(names.LOOK_AT_ETCD) == 5


async def test_a_deletion_ends_a_create_that_waits_for_etcd(client: Client, place: str) -> None:
    world = World(spec(servers=3, workers=0))
    world.watch_etcd(*["cp-1 does not work"] * 500)
    async with working(client, world, place):
        job = await start(client, world, place, JobKind.CREATE)
        await world.until(lambda: world.ran(names.LOOK_AT_ETCD) == 1)
        world.request_deletion()
        await job.signal(contract.CHANGED)
        assert await job.result() == "superseded"
