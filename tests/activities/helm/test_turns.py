"""Two worker processes at one release: the second waits while the first lives, and mends what a dead one left."""

import asyncio
import json
import logging
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from domain.releases import Release
from tests.activities.helm.test_releasing import CLUSTER, HOOK, MAP, World, eventually, world, written

__all__ = ["world"]
ROOT = Path(__file__).parents[3]
PENDING = ["pending-install"]
WAITS = "another attempt is at it"


@asynccontextmanager
async def other_worker(world: World, life: float) -> AsyncIterator[asyncio.subprocess.Process]:
    """A worker process whose Helm stands in the middle of an install, waiting for a hook that does not end."""
    charts = world.charts.parent / "other"
    order = {
        "url": world.client.server,
        "ca": world.reach.own.ca,
        "certificate": world.reach.own.certificate,
        "key": world.reach.own.key,
        "store": world.store_url,
        "charts": str(charts),
        "unpacked": str(world.unpacked),
        "life": life,
        "cluster": CLUSTER.model_dump_json(),
        "release": written(charts, map=MAP, hook=HOOK).model_dump_json(),
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(__file__).with_name("other_worker.py")),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert process.stdin is not None
    process.stdin.write(f"{json.dumps(order)}\n".encode())
    try:
        await eventually(lambda: world.are(_release(world), PENDING))
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        process.stdin.close()


def _release(world: World) -> Release:
    return written(world.charts, map=MAP)


async def said(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(60):
        return (await process.stdout.read()).decode().strip()


async def test_the_second_waits_while_the_first_is_at_work(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with other_worker(world, 15.0) as first:
        second = asyncio.create_task(world.ensure(_release(world)))

        async def waits() -> bool:
            return WAITS in caplog.text or second.done()

        await eventually(waits)
        assert not second.done()
        assert await world.are(_release(world), PENDING)
        done = {"status": {"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]}}
        await world.client.patch("/apis/batch/v1/namespaces/default/jobs/never-ends/status", done)
        assert await said(first) == "done"
        async with asyncio.timeout(60):
            await second
    assert await world.revisions("default", "some") == ["deployed"]


async def test_what_a_killed_worker_left_is_mended_at_once(world: World) -> None:
    """The life of a turn is an hour: that the process is gone is seen, not waited for."""
    async with other_worker(world, 3600.0) as first:
        first.kill()
        await first.wait()
        await world.releasing(life=3600.0).ensure_release(CLUSTER, [], _release(world))
    assert await world.revisions("default", "some") == ["deployed"]


async def test_a_stopped_worker_loses_its_turn_and_its_helm(world: World) -> None:
    """Stopped, not dead: as long as its Helm may be at work nobody else is, and when it wakes it changes nothing."""
    async with other_worker(world, 15.0) as first:
        first.send_signal(signal.SIGSTOP)
        release = _release(world).model_copy(update={"values": {"word": "second"}})
        await world.releasing(life=15.0).ensure_release(CLUSTER, [], release)
        assert await world.revisions("default", "some") == ["deployed"]
        first.send_signal(signal.SIGCONT)
        assert "its turn ended before Helm did" in await said(first)
    assert await world.revisions("default", "some") == ["deployed"]
    made = await world.found("/api/v1/namespaces/default/configmaps/made")
    assert made is not None
    assert made["data"] == {"word": "second"}
