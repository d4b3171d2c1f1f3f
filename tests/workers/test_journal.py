"""The wrapper round every activity, on a real server: heartbeats, rows, masking, the shield of effects."""

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from activities import journal
from activities.journal import Journal, step_id
from domain.contracts import activities as names
from domain.contracts import ids
from domain.contracts.activities import Handle, Lane, MachineRef, TaskOutcome, TaskRef
from domain.contracts.jobs import MachineInput
from domain.jobs import Job, JobKind, Step, StepState
from store import Store
from tests.store.builders import site, spec
from tests.workflows.conftest import LIMITS
from workers.main import now
from workers.registry import WORKFLOWS, sandbox


@pytest.fixture
async def job(store: Store) -> Job:
    lab = await store.sites.add(site(id="site-journal"))
    cluster = await store.clusters.create(spec(), lab.id, "pat")
    return await store.jobs.begin(Job(id="run-1", workflow_id="w", kind=JobKind.CREATE, cluster_id=cluster.id))


def test_a_steps_id_is_the_same_for_every_look_at_an_effect() -> None:
    parent = "cluster/clusters.prod/c1"
    look = step_id(f"{parent}/machine/prod-cp-1", "proxmox.clone_machine/m1")
    task = step_id(f"{parent}/machine/prod-cp-1", "proxmox.clone_machine/m1:task")
    assert look == task == "machine/prod-cp-1/proxmox.clone_machine/m1"
    assert step_id(parent, "proxmox.ensure_pool") == "proxmox.ensure_pool"


class Effects:
    """RemoveMachine's activities, each replaceable."""

    def __init__(self) -> None:
        self.bodies: dict[str, Callable[[Any], Any]] = {}
        self.points: list[str] = []

    def all(self) -> list[Callable[..., Any]]:
        def make(name: str) -> Callable[..., Any]:
            @activity.defn(name=name)
            async def effect(ref: MachineRef) -> Handle | None:
                body = self.bodies.get(name)
                answer = await body(ref) if body else None
                return answer or (None if name == names.RELEASE_MACHINE else Handle(done=True))

            return effect

        @activity.defn(name=names.WAIT_TASK)
        async def wait_task(ref: TaskRef) -> TaskOutcome:
            body = self.bodies.get(names.WAIT_TASK)
            return await body(ref) if body else TaskOutcome(ok=True)

        machine = (names.STOP_MACHINE, names.DESTROY_MACHINE, names.DELETE_SEED, names.RELEASE_MACHINE)
        return [*(make(name) for name in machine), wait_task]


async def remove(client: Client, store: Store, effects: Effects, talk: Callable[[Any], Any] | None = None) -> str:
    """Run RemoveMachine once with the journal round its activities; `talk` is given its handle meanwhile."""
    kept = Journal(store, now, point=effects.points.append, beat=0.2)
    queue = uuid.uuid4().hex
    everything = effects.all()

    def of(lane: Lane) -> list[Callable[..., Any]]:
        return [one for one in everything if names.lane(one.__temporal_activity_definition.name) is lane]  # type: ignore[attr-defined]

    def worker(name: str, lane: Lane, workflows: list[type]) -> Worker:
        return Worker(
            client,
            task_queue=name,
            workflows=workflows,
            activities=of(lane),
            workflow_runner=sandbox(),
            interceptors=[kept],
        )

    async with (
        worker(ids.CONTROL_QUEUE, Lane.CONTROL, WORKFLOWS),
        worker(ids.site_queue(queue), Lane.SITE, []),
        worker(ids.site_wait_queue(queue), Lane.WAIT, []),
    ):
        handle = await client.start_workflow(
            "RemoveMachine",
            MachineInput(job_id="run-1", cluster_id="c", site_id=queue, machine_id="m1", name="prod-1", limits=LIMITS),
            id=f"cluster/clusters.prod/{queue}/machine/prod-1",
            task_queue=ids.CONTROL_QUEUE,
            result_type=str,
        )
        if talk is not None:
            await talk(handle)
        async with asyncio.timeout(20):
            return await handle.result()


async def _step(store: Store, kind: str) -> Step:
    return next(step for step in await store.jobs.steps("run-1") if step.kind == kind)


async def test_a_row_a_step_with_its_task_and_points_at_every_return(client: Client, store: Store, job: Job) -> None:
    effects = Effects()
    looks = 0

    async def destroy(ref: MachineRef) -> Handle:
        nonlocal looks
        looks += 1
        return Handle(done=looks > 1, upid="UPID:pve1:destroy")

    effects.bodies[names.DESTROY_MACHINE] = destroy
    assert await remove(client, store, effects) == "gone"
    steps = await store.jobs.steps("run-1")
    assert [step.kind for step in steps] == [
        names.STOP_MACHINE,
        names.DESTROY_MACHINE,
        names.DELETE_SEED,
        names.RELEASE_MACHINE,
    ]
    assert {step.state for step in steps} == {StepState.DONE}
    destroyed = await _step(store, names.DESTROY_MACHINE)
    assert (destroyed.upid, destroyed.machine_id) == ("UPID:pve1:destroy", "m1")
    assert destroyed.summary == "prod-1: destroy the VM"
    assert effects.points == [
        f"{name}:return"
        for name in (
            names.STOP_MACHINE,
            names.DESTROY_MACHINE,
            names.WAIT_TASK,
            names.DESTROY_MACHINE,
            names.DELETE_SEED,
            names.RELEASE_MACHINE,
        )
    ]


async def test_an_error_is_masked_counted_and_gone_from_the_row_when_it_worked(
    client: Client, store: Store, job: Job
) -> None:
    effects = Effects()
    attempts: list[StepState] = []

    async def stop(ref: MachineRef) -> None:
        if len(attempts) < 2:
            attempts.append((await _step(store, names.STOP_MACHINE)).state)
            await journal.log("using token=abcdefghijklmnop now")
            raise RuntimeError("refused: token=abcdefghijklmnop")

    effects.bodies[names.STOP_MACHINE] = stop
    assert await remove(client, store, effects) == "gone"
    step = await _step(store, names.STOP_MACHINE)
    assert (step.state, step.attempt, step.error) == (StepState.DONE, 3, "")
    lines = await store.jobs.log_after("run-1")
    assert [line.seq for line in lines] == list(range(1, len(lines) + 1))
    assert any("attempt 1" in line.text and line.level == "error" for line in lines)
    assert not any("abcdefghijklmnop" in line.text for line in lines)


async def test_a_final_error_fails_the_step(client: Client, store: Store, job: Job) -> None:
    effects = Effects()

    async def stop(ref: MachineRef) -> None:
        raise ApplicationError("VM 20001 is not ours", type="NotOurs")

    effects.bodies[names.STOP_MACHINE] = stop

    async def stand_down(handle: Any) -> None:
        async with asyncio.timeout(10):
            while not [s for s in await store.jobs.steps("run-1") if s.state is StepState.FAILED]:
                await store.wait_change(await store.feed.last(), 0.2)
        await handle.signal("stand-down")

    assert await remove(client, store, effects, stand_down) == "stood-down"
    assert (await _step(store, names.STOP_MACHINE)).error == "VM 20001 is not ours"


async def test_an_effect_in_flight_is_finished_and_a_wait_is_cut(client: Client, store: Store, job: Job) -> None:
    effects = Effects()
    begun, finish, cut = asyncio.Event(), asyncio.Event(), asyncio.Event()
    finished: list[str] = []

    async def stop(ref: MachineRef) -> Handle:
        begun.set()
        await finish.wait()
        finished.append("stop")
        return Handle(done=False, upid="UPID:pve1:stop")

    effects.bodies[names.STOP_MACHINE] = stop

    async def stand_down(handle: Any) -> None:
        await begun.wait()
        await handle.signal("stand-down")
        await asyncio.sleep(1.0)  # longer than a heartbeat: the cancellation has reached the activity by now
        assert finished == []
        finish.set()

    assert await remove(client, store, effects, stand_down) == "stood-down"
    assert finished == ["stop"]

    async def stopped(ref: MachineRef) -> Handle:
        return Handle(done=False, upid="UPID:pve1:stop")

    async def wait(ref: TaskRef) -> TaskOutcome:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cut.set()
            raise
        return TaskOutcome(ok=True)

    begun.clear()
    effects.bodies = {names.STOP_MACHINE: stopped, names.WAIT_TASK: wait}

    async def cancel_wait(handle: Any) -> None:
        await begun.wait()
        await handle.signal("stand-down")

    assert await remove(client, store, effects, cancel_wait) == "stood-down"
    assert cut.is_set()


async def test_the_beat_carries_the_last_details_to_the_next_attempt(client: Client, store: Store, job: Job) -> None:
    effects = Effects()
    found: list[Any] = []

    async def stop(ref: MachineRef) -> None:
        found.append(tuple(activity.info().heartbeat_details))
        if len(found) == 1:
            journal.heartbeat("UPID:pve1:stop")
            raise RuntimeError("lost")

    effects.bodies[names.STOP_MACHINE] = stop
    assert await remove(client, store, effects) == "gone"
    assert found == [(), ("UPID:pve1:stop",)]


async def test_outside_a_worker_the_journal_is_quiet() -> None:
    await journal.log("nobody listens")
    journal.heartbeat("nor here")
