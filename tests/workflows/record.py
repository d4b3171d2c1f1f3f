"""Records histories of every kind of workflow into tests/workflows/histories, from runs with faked activities.

    .venv/bin/python -m tests.workflows.record

Overwrites the files of the current code's scenarios; keep a released version's files under a name of their own
(`CreateCluster-0.1.0-done.json`).
"""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from temporalio import activity
from temporalio.client import Client
from temporalio.worker import Worker

from domain.contracts import activities as names
from domain.contracts import ids
from domain.contracts import jobs as contract
from domain.contracts.activities import Handle, SiteRef
from domain.contracts.jobs import SiteInput
from domain.jobs import JobKind, JobPhase
from tests.temporal_server import server
from tests.workflows.conftest import LIMITS, start, working
from tests.workflows.world import World, final, spec

FOLDER = Path(__file__).with_name("histories")


async def keep(client: Client, workflow_id: str, name: str, run_id: str | None = None) -> None:
    """Store one run's history. Whatever names this machine is taken out: replay does not look at it."""
    history = await client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history()
    document = json.loads(history.to_json())
    _anonymous(document)
    # The id belongs to the history: children are named after it.
    text = json.dumps({"workflow_id": workflow_id, "history": document}, sort_keys=True, separators=(",", ":"))
    (FOLDER / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def _anonymous(value: object) -> None:
    if isinstance(value, dict):
        for key, plain in (("identity", "worker"), ("stackTrace", "")):
            if isinstance(value.get(key), str):
                value[key] = plain
        for inner in value.values():
            _anonymous(inner)
    elif isinstance(value, list):
        for inner in value:
            _anonymous(inner)


async def create_and_delete(client: Client) -> None:
    """A create of three servers and two workers, then its deletion, with a child of each kind."""
    world = World(spec(servers=3, workers=2))
    world.refusals = [Handle(done=False, waiting_for="no node fits: pve1: memory", pause=0.1)] * 2
    async with working(client, world, "s1"):
        job = await start(client, world, "s1", JobKind.CREATE)
        await job.result()
        await keep(client, job.id, "CreateCluster-done")
        server_ = next(machine for machine in world.machines.values() if machine.initialiser)
        await keep(client, f"{job.id}/machine/{server_.name}", "CreateMachine-done")
        world.request_deletion()
        gone = await start(client, world, "s1", JobKind.DELETE)
        await gone.result()
        await keep(client, gone.id, "DeleteCluster-done")
        await keep(client, f"{gone.id}/machine/{server_.name}", "RemoveMachine-done")


async def superseded(client: Client) -> None:
    """A deletion during a long join."""
    world = World(spec(workers=1))
    world.hold(names.AWAIT_JOINED)
    async with working(client, world, "s1"):
        job = await start(client, world, "s1", JobKind.CREATE)
        await world.until(lambda: world.ran(names.AWAIT_JOINED) == 1)
        world.request_deletion()
        await job.signal(contract.CHANGED)
        await job.result()
        await keep(client, job.id, "CreateCluster-superseded")
        server_ = next(machine for machine in world.machines.values() if machine.initialiser)
        await keep(client, f"{job.id}/machine/{server_.name}", "CreateMachine-stood-down")


async def parked(client: Client) -> None:
    """A cluster's step and a machine's step fail, are tried again, and one job is aborted."""
    world = World(spec(workers=1))
    world.fail(names.ENSURE_POOL, final("refused"))
    world.fail(names.UPLOAD_SEED, final("refused too"))
    async with working(client, world, "s1"):
        job = await start(client, world, "s1", JobKind.CREATE)
        for number in (1, 2):
            await world.until(lambda number=number: _parked(world) >= number)  # type: ignore[misc]
            await job.execute_update(contract.RETRY)
        await job.result()
        await keep(client, job.id, "CreateCluster-parked-retried")
        stuck = [f"{job.id}/machine/{machine.name}" for machine in world.machines.values()]
        histories = [(await client.get_workflow_handle(one).fetch_history(), one) for one in stuck]
        longest = max(histories, key=lambda pair: len(pair[0].events))[1]
        await keep(client, longest, "CreateMachine-stuck-retried")
    world = World(spec(workers=0))
    world.fail(names.ENSURE_POOL, final("refused"))
    async with working(client, world, "s1"):
        job = await start(client, world, "s1", JobKind.CREATE)
        await world.until(lambda: _parked(world) == 1)
        await job.execute_update(contract.ABORT)
        await job.result()
        await keep(client, job.id, "CreateCluster-aborted")


def _parked(world: World) -> int:
    return sum(1 for report in world.reports if report.phase is JobPhase.AWAITING_DECISION)


async def sites(client: Client) -> None:
    """A monitor whose site goes, and a self-test."""
    site = SiteInput(site_id="s1", site_name="lab", limits=LIMITS)
    looks = 0

    @activity.defn(name=names.WATCH_SITE)
    async def watch(site: SiteInput) -> None:
        nonlocal looks
        looks += 1
        if looks > 2:
            raise final("the site was removed", "SiteGone")

    @activity.defn(name=names.SELF_TEST_STEP)
    async def self_test(ref: SiteRef) -> None:
        return None

    world = World()
    async with working(client, world, "s2"):
        async with (
            Worker(client, task_queue=ids.site_wait_queue("s1"), activities=[watch]),
            Worker(client, task_queue=ids.site_queue("s1"), activities=[self_test]),
        ):
            for kind, id_ in ((contract.SITE_MONITOR, "site/s1/monitor"), (contract.SELF_TEST, "site/s1/selftest")):
                handle = await client.start_workflow(kind, site, id=id_, task_queue=ids.CONTROL_QUEUE)
                await handle.result()
                await keep(client, id_, f"{kind}-done")


async def main() -> None:
    """Record every scenario."""
    FOLDER.mkdir(exist_ok=True)
    scenarios: list[Callable[[Client], Awaitable[None]]] = [create_and_delete, superseded, parked, sites]
    async with server() as env:
        for scenario in scenarios:
            await scenario(env.client)


if __name__ == "__main__":
    asyncio.run(main())
    os._exit(0)  # the SDK may crash at interpreter exit (facts/temporal.md 0.10)
