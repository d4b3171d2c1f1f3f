"""The worker as a process of its own: it starts, serves, ends on SIGTERM with code 0, and dies at a crash point."""

import asyncio
import json
import os
import signal
import socket
import sys
from pathlib import Path

import pytest

from domain.contracts import activities as names
from jobs import Engine, EngineSettings
from store import SecretKey, migrate, open_store
from tests.store.builders import site, spec
from tests.temporal_server import server
from tests.workers.conftest import until
from workers.crash_points import EXIT_CODE, VARIABLE, CrashPoints
from workers.main import now
from workers.settings import from_environment

ROOT = Path(__file__).parents[2]


async def _worker(**environment: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "workers.main", cwd=ROOT, env={**os.environ, **environment}
    )


@pytest.mark.timeout(240)
async def test_a_worker_process_crashes_where_it_is_told_and_ends_cleanly(tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path}/store.db"
    key = tmp_path / "key"
    await migrate(url)
    store = open_store(url, SecretKey.create(key), clock=now)
    lab = await store.sites.add(site(id="site-process", endpoints=("https://127.0.0.1:1",)))
    cluster = await store.clusters.create(spec(), lab.id, "pat")
    fired = tmp_path / "fired"
    plan = {"die": [f"{names.RESERVE_MACHINES}:return"], "fired": str(fired)}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        "TRILITHON_STORE": url,
        "TRILITHON_KEY_FILE": str(key),
        "TRILITHON_TEMPORAL": f"127.0.0.1:{port}",
        "TRILITHON_GRACE": "1",
        "TRILITHON_LIMITS": json.dumps({"heartbeat": 2, "retry_first": 0.1}),
        VARIABLE: json.dumps(plan),
    }
    async with server(port):
        first = await _worker(**environment)
        async with asyncio.timeout(60):
            assert await first.wait() == EXIT_CODE
        assert fired.read_text(encoding="utf-8").startswith(plan["die"][0])
        before = await store.machines.of_cluster(cluster.id)
        assert len(before) == 4

        second = await _worker(**environment)
        try:

            async def reserved() -> bool:
                steps = [s for job in await store.jobs.of_cluster(cluster.id) for s in await store.jobs.steps(job.id)]
                return any(s.kind == names.RESERVE_MACHINES and s.state == "done" and s.attempt > 1 for s in steps)

            await until(reserved, 90)
            assert await store.machines.of_cluster(cluster.id) == before
        finally:
            second.send_signal(signal.SIGTERM)
            async with asyncio.timeout(60):
                code = await second.wait()
        assert code == 0
        engine = await Engine.connect(EngineSettings(address=f"127.0.0.1:{port}"))
        assert await engine.answers()
    await store.close()


def test_crash_points_fire_once_over_processes_and_write_down_what_they_see(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    died: list[int] = []
    monkeypatch.setattr("os._exit", died.append)
    plan = tmp_path / "plan.json"
    document = {
        "die": ["a:return#2", "pve POST clone:lost"],
        "fired": str(tmp_path / "fired"),
        "seen": str(tmp_path / "seen"),
    }
    plan.write_text(json.dumps(document), encoding="utf-8")
    points = CrashPoints.from_environment({VARIABLE: str(plan)})
    points.at("a:return")
    assert died == []
    points.at("a:return")
    points.before("pve POST clone")
    points.after("pve POST clone")
    points.after("pve POST clone")
    assert died == [EXIT_CODE, EXIT_CODE]
    again = CrashPoints.from_environment({VARIABLE: str(plan)})
    again.after("pve POST clone")
    assert len(died) == 2
    assert (tmp_path / "seen").read_text(encoding="utf-8").splitlines()[:3] == [
        "a:return#1",
        "a:return#2",
        "pve POST clone:before#1",
    ]
    assert not CrashPoints.from_environment({}).watching


def test_settings_name_what_is_wrong() -> None:
    with pytest.raises(ValueError, match="TRILITHON_STORE"):
        from_environment({})
    with pytest.raises(ValueError, match="TRILITHON_LIMITS"):
        from_environment({"TRILITHON_STORE": "sqlite+aiosqlite:///x", "TRILITHON_LIMITS": "{"})
    read = from_environment({"TRILITHON_STORE": "sqlite+aiosqlite:///x", "TRILITHON_SITES": "a, b"})
    assert read.sites == ("a", "b")
    assert read.engine.address == "127.0.0.1:7233"
