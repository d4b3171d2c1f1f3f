"""CreateCluster: order, standing down, parking; the real server, activities faked by name."""

import asyncio
import time
from typing import Any

import pytest
from temporalio.client import Client, WorkflowHandle, WorkflowUpdateFailedError

from domain.clusters import Outcome
from domain.contracts import activities as names
from domain.contracts import jobs as contract
from domain.contracts.activities import Handle
from domain.jobs import JobKind, JobPhase
from tests.workflows.conftest import start, working
from tests.workflows.world import World, final, spec


async def test_a_create_runs_in_order_and_settles(client: Client, place: str) -> None:
    world = World(spec(servers=3, workers=2))
    async with working(client, world, place):
        job = await start(client, world, place, JobKind.CREATE)
        assert await job.result() == "done"
    order = world.order()
    first = next(m.name for m in world.machines.values() if m.initialiser)
    others = [m.name for m in world.machines.values() if m.is_server and not m.initialiser]
    workers = [m.name for m in world.machines.values() if not m.is_server]
    ready_first = order.index(f"{names.DELETE_SEED} {first}")
    for name in (*others, *workers):
        assert order.index(f"{names.START_MACHINE} {name}") > ready_first
    second, third = sorted(others, key=lambda name: order.index(f"{names.START_MACHINE} {name}"))
    assert order.index(f"{names.START_MACHINE} {third}") > order.index(f"{names.DELETE_SEED} {second}")
    # Everything up to the power-on runs ahead of a machine's turn.
    assert order.index(f"{names.ATTACH_SEED} {third}") < order.index(f"{names.START_MACHINE} {third}")
    assert [finish.outcome for finish in world.finished] == [Outcome.DONE]
    assert world.finished[0].generation == 1
    assert world.begun[0].job_id == job.result_run_id
    # One look, one task, one more look for each machine's clone; never a second clone.
    assert world.ran(names.WAIT_TASK) == 5
    assert world.ran(names.CLONE_MACHINE) == 10


async def test_a_deletion_ends_a_create_within_seconds_during_a_long_join(client: Client, place: str) -> None:
    world = World(spec(workers=0))
    world.hold(names.AWAIT_JOINED)
    async with working(client, world, place):
        job = await start(client, world, place, JobKind.CREATE)
        await world.until(lambda: world.ran(names.AWAIT_JOINED) == 1)
        world.request_deletion()
        began = time.monotonic()
        await job.signal(contract.CHANGED)
        assert await job.result() == "superseded"
        assert time.monotonic() - began < 6
    assert world.finished[0].outcome is Outcome.SUPERSEDED
    assert world.ran(names.AWAIT_READY) == 0


async def test_a_deletion_ends_a_create_that_waits_for_a_node_with_room(client: Client, place: str) -> None:
    world = World(spec(workers=0))
    world.refusals = [Handle(done=False, waiting_for="no node fits: pve1: 2 GiB free", pause=30.0)] * 50
    async with working(client, world, place):
        job = await start(client, world, place, JobKind.CREATE)
        await world.until(lambda: any("no node fits" in report.waiting_for for report in world.reports))
        assert world.reports[-1].phase is JobPhase.WAITING
        world.request_deletion()
        await job.signal(contract.CHANGED)
        async with asyncio.timeout(10):
            assert await job.result() == "superseded"


async def test_a_restored_store_ends_the_job(client: Client, place: str) -> None:
    world = World(spec(workers=0))
    world.hold(names.AWAIT_JOINED)
    async with working(client, world, place):
        job = await start(client, world, place, JobKind.CREATE)
        await world.until(lambda: world.ran(names.AWAIT_JOINED) == 1)
        world.epoch += 1
        await job.signal(contract.CHANGED)
        assert await job.result() == "superseded"
    assert "epoch" in world.finished[0].error


async def test_a_machines_failed_step_parks_and_retry_goes_on_in_the_same_run(client: Client, place: str) -> None:
    world = World(spec(workers=1))
    world.fail(names.UPLOAD_SEED, final("template 9001 is gone"))
    async with working(client, world, place):
        job = await start(client, world, place, JobKind.CREATE)
        await world.until(lambda: any(r.phase is JobPhase.AWAITING_DECISION for r in world.reports))
        parked = next(r for r in world.reports if r.phase is JobPhase.AWAITING_DECISION)
        assert "template 9001 is gone" in parked.error
        found = await job.describe()
        assert ("JobPhase", "awaiting-decision") in [
            (pair.key.name, pair.value) for pair in found.typed_search_attributes
        ]
        answer = await job.execute_update(contract.RETRY)
        assert "create-machine" in answer
        assert await job.result() == "done"
    assert len(world.begun) == 1
    # Finished steps were not done again: one place per machine.
    assert world.ran(names.PLACE_MACHINE) == 2


async def test_a_clusters_failed_step_parks_and_abort_ends_it(client: Client, place: str) -> None:
    world = World(spec(workers=0))
    world.fail(names.ENSURE_POOL, *[RuntimeError("pool is locked")] * 50)
    async with working(client, world, place):
        job = await start(client, world, place, JobKind.CREATE)
        await world.until(lambda: any(r.phase is JobPhase.AWAITING_DECISION for r in world.reports))
        assert await job.execute_update(contract.ABORT) == "aborting"
        assert await job.result() == "aborted"
    assert world.finished[0].outcome is Outcome.ABORTED
    assert "pool is locked" in world.finished[0].error


async def test_abort_of_one_stuck_machine_stands_the_others_down(client: Client, place: str) -> None:
    world = World(spec(workers=2))
    world.hold(names.AWAIT_JOINED)
    world.fail(names.ATTACH_SEED, final("refused"))
    async with working(client, world, place):
        job = await start(client, world, place, JobKind.CREATE)
        await world.until(lambda: any(r.phase is JobPhase.AWAITING_DECISION for r in world.reports))
        await job.execute_update(contract.ABORT)
        async with asyncio.timeout(10):
            assert await job.result() == "aborted"
    assert len(world.finished) == 1


async def test_what_gets_stuck_while_another_is_being_reported_is_reported_too(client: Client, place: str) -> None:
    world = World(spec(workers=1))
    reported, attached = world.hold(names.REPORT_JOB), world.hold(names.ATTACH_SEED)
    world.fail(names.UPLOAD_SEED, final("the first one's trouble"))
    world.fail(names.ATTACH_SEED, final("the second one's trouble"))

    async def signals(job: WorkflowHandle[Any, Any]) -> int:
        events = (await job.fetch_history()).events
        return sum(event.HasField("workflow_execution_signaled_event_attributes") for event in events)

    async with working(client, world, place):
        job = await start(client, world, place, JobKind.CREATE)
        await world.until(lambda: len(world.reports) == 1)
        assert "the first one's trouble" in world.reports[0].error
        before = await signals(job)
        attached.set()
        async with asyncio.timeout(20):
            while await signals(job) == before:
                pass
        reported.set()
        await world.until(lambda: "the second one's trouble" in world.reports[-1].error)
        assert "the first one's trouble" in world.reports[-1].error
        await job.execute_update(contract.ABORT)
        assert await job.result() == "aborted"


async def test_decisions_are_refused_unless_parked(client: Client, place: str) -> None:
    world = World(spec(workers=0))
    world.hold(names.AWAIT_JOINED)
    async with working(client, world, place):
        job = await start(client, world, place, JobKind.CREATE)
        await world.until(lambda: world.ran(names.AWAIT_JOINED) == 1)
        for decision in (contract.RETRY, contract.ABORT):
            with pytest.raises(WorkflowUpdateFailedError) as refused:
                await job.execute_update(decision)
            assert "not parked" in str(refused.value.cause)
        world.holds[names.AWAIT_JOINED].set()
        assert await job.result() == "done"


async def test_a_new_run_goes_on_with_a_machine_that_was_powered_on_before(client: Client, place: str) -> None:
    world = World(spec(workers=0))
    world.hold(names.AWAIT_JOINED)
    async with working(client, world, place):
        job = await start(client, world, place, JobKind.CREATE)
        await world.until(lambda: world.ran(names.AWAIT_JOINED) == 1)
        await job.terminate("the data of the server is lost")
        world.holds[names.AWAIT_JOINED].set()
        again = await start(client, world, place, JobKind.CREATE)
        assert await again.result() == "done"


async def test_summaries_name_their_object(client: Client, place: str) -> None:
    world = World(spec(workers=0))
    async with working(client, world, place):
        job = await start(client, world, place, JobKind.CREATE)
        await job.result()
        for handle in [
            job,
            *[client.get_workflow_handle(f"{job.id}/machine/{m.name}") for m in world.machines.values()],
        ]:
            history = await handle.fetch_history()
            for event in history.events:
                if event.HasField("activity_task_scheduled_event_attributes"):
                    summary = event.user_metadata.summary.data.decode()
                    assert "prod" in summary
                    assert ": " in summary
