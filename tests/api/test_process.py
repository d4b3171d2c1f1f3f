"""The API as a process of its own: it serves while Temporal is away, and a signal ends it cleanly."""

import asyncio
import base64
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx

from domain.releases import CLOUD_CONTROLLER
from tests.api.world import ROOT, Base, Person, credentials
from tests.clients.charts.test_repository import packed
from tests.domain.manifests import prod


async def test_it_serves_without_temporal_and_stops_on_a_signal(empty_base: Base, tmp_path: Path) -> None:
    key = empty_base.key.key(empty_base.key.active)
    assert key is not None
    key_file = tmp_path / "key"
    key_file.touch(mode=0o600)
    key_file.write_bytes(base64.b64encode(key))
    store = tmp_path / "store.db"
    store.write_bytes(empty_base.file.read_bytes())
    charts = tmp_path / "charts"
    charts.mkdir()
    (charts / "chart.tgz").write_bytes(packed(CLOUD_CONTROLLER.name, CLOUD_CONTROLLER.version))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {
        "TRILITHON_STORE": f"sqlite+aiosqlite:///{store}",
        "TRILITHON_KEY_FILE": str(key_file),
        "TRILITHON_CHARTS": str(charts),
        "TRILITHON_PORT": str(port),
        "TRILITHON_TEMPORAL": "127.0.0.1:9",
    }
    process = subprocess.Popen([sys.executable, "-m", "api.main"], cwd=ROOT, env=environment, stderr=subprocess.PIPE)  # noqa: ASYNC220
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as http:
            await _until_it_answers(http, process)
            answer = await Person(http).post("/session", json=credentials(empty_base.lab, "dev@pve"))
            person = Person(http, answer.headers["set-cookie"].partition(";")[0], answer.json()["csrf"])
            answer = await person.post("/clusters", json=prod())
            assert (answer.status_code, answer.json().get("started")) == (202, False), answer.text
            headers = {"Cookie": person.cookie}
            async with http.stream("GET", "/api/v1/events", headers=headers) as stream:
                lines = stream.aiter_lines()
                assert (await anext(lines)).startswith("retry:")
                process.send_signal(signal.SIGTERM)
                # The stream ends, and is not cut: reading it to its end raises nothing.
                assert [line async for line in lines if line.startswith("event:")] == []
        assert await asyncio.to_thread(process.wait, 20) == 0
    finally:
        process.kill()
        _, errors = process.communicate()
    assert b"Traceback" not in errors


async def _until_it_answers(http: httpx.AsyncClient, process: subprocess.Popen[bytes]) -> None:
    async with asyncio.timeout(60):
        while process.poll() is None:
            try:
                await http.get("/api/v1/healthz")
                return
            except httpx.ConnectError:
                await asyncio.sleep(0.05)
    raise AssertionError("the API ended before it answered")
