"""Headers, pages, the OpenAPI document and the settings of the process."""

import io
import json
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import httpx
import pytest

from api import openapi
from api.app import create_app
from api.headers import EVERY_ANSWER
from api.main import from_environment
from api.services import Services, Settings
from tests.api.world import ROOT, World

STORE = {"TRILITHON_STORE": "sqlite+aiosqlite:///x.db"}


@pytest.fixture
async def pages(world: World, tmp_path: Path) -> httpx.AsyncClient:
    folder = tmp_path / "dist"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html><title>Trilithon</title>")
    (folder / "assets" / "index-abc123.js").write_text("export {}")
    (tmp_path / "secret.txt").write_text("not yours")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    services = Services(
        world.store, world.services.gate, world.engine, world.clock, Settings(pages=str(folder), secure_cookie=True)
    )
    transport = httpx.ASGITransport(create_app(services))
    return httpx.AsyncClient(transport=transport, base_url="https://trilithon.test")


async def test_every_answer_carries_the_strict_headers(world: World, pages: httpx.AsyncClient) -> None:
    for answer in (
        await world.person("dev@pve").get("/clusters"),
        await world.person("nobody").get("/clusters"),
        await world.person("nobody").get("/nothing"),
        await pages.get("/"),
        await pages.get("/assets/index-abc123.js"),
    ):
        assert {name: answer.headers[name] for name in EVERY_ANSWER} == EVERY_ANSWER
    policy = EVERY_ANSWER["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy


async def test_pages_and_their_caching(pages: httpx.AsyncClient) -> None:
    for path in ("/", "/clusters/clusters/prod?tab=machines", "/jobs/x"):
        answer = await pages.get(path)
        assert "Trilithon" in answer.text
        assert answer.headers["cache-control"] == "no-cache"
        assert answer.headers["strict-transport-security"]
    asset = await pages.get("/assets/index-abc123.js")
    assert "immutable" in asset.headers["cache-control"]
    assert (await pages.get("/assets/gone.js")).status_code == 404


@pytest.mark.parametrize("path", ["/../secret.txt", "/..%2fsecret.txt", "/assets/..%2f..%2fsecret.txt", "/link.txt"])
async def test_nothing_outside_the_folder_is_given(pages: httpx.AsyncClient, path: str) -> None:
    assert "not yours" not in (await pages.get(path)).text


@pytest.mark.parametrize("path", ["/api", "/api/v1/nothing", "/api/v2/clusters"])
async def test_the_api_never_answers_with_a_page(pages: httpx.AsyncClient, path: str) -> None:
    answer = await pages.get(path)
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["cache-control"] == "no-store"


async def test_the_cookie_over_tls_is_bound_to_the_host(pages: httpx.AsyncClient) -> None:
    body = {"realm": "local", "username": "admin", "password": "a local password"}
    cookie = (await pages.post("/api/v1/session", json=body)).headers["set-cookie"]
    assert cookie.startswith("__Host-")
    assert "Secure" in cookie
    assert "Path=/" in cookie


async def test_the_wrong_method_is_a_problem(world: World) -> None:
    answer = await world.person("dev@pve").call("DELETE", "/info")
    assert (answer.status_code, answer.json()["code"]) == (405, "invalid-request")


async def test_health_and_info(world: World) -> None:
    assert (await world.person("nobody").get("/healthz")).json() == {"store": True, "engine": True}
    world.engine.away = True
    assert (await world.person("nobody").get("/healthz")).json() == {"store": True, "engine": False}
    info = (await world.person("nobody").get("/info")).json()
    assert (info["name"], info["lab"], info["links"]["engine"]) == ("Trilithon", True, "http://temporal.example")


def test_the_document_is_stable_and_whole() -> None:
    written = []
    for _ in range(2):
        out = io.StringIO()
        with redirect_stdout(out):
            openapi.main()
        written.append(out.getvalue())
    assert written[0] == written[1]
    document = json.loads(written[0])
    names = [operation["operationId"] for methods in document["paths"].values() for operation in methods.values()]
    assert len(names) == len(set(names))
    for methods in document["paths"].values():
        for operation in methods.values():
            assert operation["x-right"]
            assert operation["description"]
            assert "application/problem+json" in operation["responses"]["default"]["content"]
    for name in ("Problem", "Violation", "Change", "LogLine", "Job"):
        assert name in document["components"]["schemas"]


def test_settings_beyond_this_machine_need_tls() -> None:
    assert from_environment(STORE).host == "127.0.0.1"
    for host in ("0.0.0.0", "192.0.2.1", "::", "example.org"):  # noqa: S104 - that is what is refused
        with pytest.raises(ValueError, match="TLS"):
            from_environment(STORE | {"TRILITHON_HOST": host})
    tls = {"TRILITHON_TLS_CERTIFICATE": "c.pem", "TRILITHON_TLS_KEY": "k.pem"}
    assert from_environment(STORE | tls | {"TRILITHON_HOST": "192.0.2.1"}).tls_key == Path("k.pem")
    for wrong in ({}, STORE | {"TRILITHON_PORT": "x"}, STORE | {"TRILITHON_TLS_KEY": "k.pem"}):
        with pytest.raises(ValueError, match="TRILITHON_"):
            from_environment(wrong)


def test_the_process_says_what_is_missing() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "api.main"], cwd=ROOT, env={"PATH": ""}, capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith("trilithon api: TRILITHON_STORE is not set")
    assert "Traceback" not in ended.stderr
