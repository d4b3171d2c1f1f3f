"""DeleteCluster: order, refusal without a recorded deletion, waiting for an offline node."""

import pytest
from temporalio.client import Client, WorkflowFailureError

from domain.clusters import Outcome
from domain.contracts import activities as names
from domain.jobs import JobKind
from domain.machines import Phase
from tests.workflows.conftest import start, working
from tests.workflows.world import World, spec


async def _created(client: Client, place: str) -> World:
    world = World(spec(workers=1))
    job = await start(client, world, place, JobKind.CREATE)
    async with working(client, world, place):
        assert await job.result() == "done"
    world.calls.clear()
    world.finished.clear()
    return world


async def test_a_delete_takes_the_token_first_and_the_pool_last(client: Client, place: str) -> None:
    world = await _created(client, place)
    world.request_deletion()
    async with working(client, world, place):
        job = await start(client, world, place, JobKind.DELETE)
        assert await job.result() == "done"
    order = [name for name, _ in world.calls]
    assert order[0] == names.REVOKE_TOKEN
    assert order[-1] == names.FORGET_CLUSTER
    assert order.index(names.DELETE_POOL) > order.index(names.REVOKE_RIGHTS) > order.index(names.RELEASE_MACHINE)
    assert all(machine.phase is Phase.GONE for machine in world.machines.values())
    assert world.finished[0].outcome is Outcome.DONE
    assert world.finished[0].generation == 2


async def test_a_delete_without_a_recorded_deletion_is_refused(client: Client, place: str) -> None:
    world = await _created(client, place)
    async with working(client, world, place):
        job = await start(client, world, place, JobKind.DELETE)
        with pytest.raises(WorkflowFailureError) as failed:
            await job.result()
    assert "no deletion" in str(failed.value.cause)
    assert world.calls == []
    assert world.finished[0].outcome is Outcome.SUPERSEDED
