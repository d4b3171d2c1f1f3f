"""`trilithon chart`: what goes into the cache and out of it, what is refused, with which code and which words."""

import asyncio
import gzip
import hashlib
import io
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from aiohttp import web

from api.gate import ProxmoxGate
from api.services import Services
from cli.failures import ERROR, USAGE
from cli.main import run
from clients.charts import LARGEST, ChartFolder
from domain.releases import CHARTS, CLOUD_CONTROLLER
from lab.nodes.serving import serve
from store import SecretKey, Store, migrate, open_store, scrypt_hash
from tests.api.test_jobs import served
from tests.api.world import EngineDouble, World
from tests.clients.charts.test_repository import packed
from tests.store.builders import site as a_site
from tests.store.builders import spec


@dataclass
class Told:
    """What a command left behind."""

    code: int
    out: str
    err: str


@dataclass
class Platform:
    """The API of an installation of its own; the command line is signed in as the local administrator."""

    store: Store
    capture: pytest.CaptureFixture[str]

    async def run(self, *arguments: str) -> Told:
        code = await asyncio.to_thread(run, ["chart", *arguments])
        printed = self.capture.readouterr()
        return Told(code, printed.out, printed.err)

    async def kept(self) -> list[str]:
        return [f"{chart.name} {chart.version}" for chart in await self.store.charts.list()]


@pytest.fixture
async def platform(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> AsyncIterator[Platform]:
    url = f"sqlite+aiosqlite:///{tmp_path}/store.db"
    await migrate(url)
    store = open_store(url, SecretKey.generate(), clock=lambda: datetime.now(UTC))
    await store.local_users.put_local_user("admin", scrypt_hash("a password"))
    services = Services(store, ProxmoxGate(), EngineDouble(), lambda: datetime.now(UTC))
    services.charts = ChartFolder(tmp_path / "folder")
    monkeypatch.setenv("TRILITHON_CONFIG", str(tmp_path / "config"))
    monkeypatch.delenv("TRILITHON_URL", raising=False)
    monkeypatch.setattr("sys.stdin", io.StringIO("a password\n"))
    async with served(cast(World, _Served(services))) as address:
        login = ["login", address.removesuffix("/api/v1"), "--user", "admin@local", "--password-stdin"]
        assert await asyncio.to_thread(run, login) == 0
        capsys.readouterr()
        yield Platform(store, capsys)
    await store.close()


@dataclass
class _Served:
    services: Services


@pytest.fixture
async def repository() -> AsyncIterator[Callable[[dict[str, bytes]], str]]:
    """Serves files by their paths, at the address that it returns."""
    files: dict[str, bytes] = {}

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        found = files.get(request.path)
        return web.Response(status=404) if found is None else web.Response(body=found)

    runner = web.ServerRunner(web.Server(handle, access_log=None), shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()

    def put(more: dict[str, bytes]) -> str:
        files.update(more)
        return f"http://127.0.0.1:{runner.addresses[0][1]}"

    yield put
    await runner.cleanup()


def index(digest: str) -> bytes:
    entry = {"name": "some", "version": "1.2.3", "urls": ["some-1.2.3.tgz"], "digest": digest}
    return yaml.safe_dump({"apiVersion": "v1", "entries": {"some": [entry]}}).encode()


async def test_charts_are_pulled_uploaded_listed_and_deleted(platform: Platform, tmp_path: Path) -> None:
    lab = await serve(0, 0, host="127.0.0.1", artifact_host="127.0.0.1")
    try:
        by_index = await platform.run("pull", "cilium", "--repository", f"{lab.artifact_url}/charts")
        registry = lab.artifact_url.replace("http://", "oci://")
        name = CLOUD_CONTROLLER.name
        by_registry = await platform.run("pull", name, "--repository", f"{registry}/charts")
    finally:
        await lab.close()
    assert (by_index.code, by_index.err) == (0, "")
    assert by_index.out.startswith("chart/cilium-1.19.6 kept (sha256 ")
    assert by_registry.out.endswith(f"from {registry}/charts/{name}:{CLOUD_CONTROLLER.version})\n")

    file = tmp_path / "some-1.2.3.tgz"
    file.write_bytes(packed())
    digest = hashlib.sha256(packed()).hexdigest()
    uploaded = await platform.run("upload", str(file))
    assert (uploaded.code, uploaded.err) == (0, "")
    assert uploaded.out == f"chart/some-1.2.3 kept (sha256 {digest[:12]})\n"

    table = await platform.run("list")
    lines = table.out.splitlines()
    assert lines[0].split() == ["NAME", "VERSION", "DIGEST", "SIZE", "USED", "SOURCE"]
    assert lines[-1].split() == ["some", "1.2.3", digest[:12], "1", "KiB", "0", "upload"]
    missing = {chart.name for chart in CHARTS} - {"cilium", name}
    assert table.err.splitlines() == [
        f"{chart.label} is not here: trilithon chart pull {chart.name}" for chart in CHARTS if chart.name in missing
    ]
    rows = json.loads((await platform.run("list", "-o", "json")).out)["items"]
    assert [row["digest"] for row in rows if row["name"] == "some"] == [digest]
    assert digest in (await platform.run("list", "-o", "wide", "--no-headers")).out

    gone = await platform.run("delete", "some", "1.2.3", "--yes")
    assert (gone.code, gone.out, gone.err) == (0, "chart/some-1.2.3 deleted\n", "")
    assert await platform.kept() == ["cilium 1.19.6", CLOUD_CONTROLLER.label]


def too_large() -> bytes:
    """A packed chart of a little more than may be sent."""
    return gzip.compress(b"\0" * 100, mtime=0) + b"\0" * LARGEST


@pytest.mark.parametrize(
    ("data", "why", "cure"),
    [
        (b"hello", "This is no Helm chart: it is no gzipped tar archive.", "helm package"),
        (packed(version="latest"), "its Chart.yaml gives no version", "helm package"),
        (too_large(), "larger than 10", "Send"),
    ],
    ids=["no chart", "no version", "too large"],
)
async def test_a_file_that_is_no_chart_is_not_kept(
    platform: Platform, tmp_path: Path, data: bytes, why: str, cure: str
) -> None:
    file = tmp_path / "some-1.2.3.tgz"
    file.write_bytes(data)
    told = await platform.run("upload", str(file))
    assert (told.code, told.out) == (ERROR, "")
    assert why in told.err
    assert cure in told.err
    assert await platform.kept() == []


async def test_a_file_that_is_not_there_is_named(platform: Platform, tmp_path: Path) -> None:
    told = await platform.run("upload", str(tmp_path / "none.tgz"))
    assert (told.code, told.out) == (ERROR, "")
    assert "none.tgz cannot be read: No such file" in told.err


async def test_a_version_means_one_content(platform: Platform, tmp_path: Path) -> None:
    one, other = tmp_path / "one.tgz", tmp_path / "other.tgz"
    one.write_bytes(packed())
    other.write_bytes(packed(**{"some/values.yaml": b"a: 1\n"}))
    assert (await platform.run("upload", str(one))).code == 0
    assert (await platform.run("upload", str(one))).code == 0
    told = await platform.run("upload", str(other))
    assert (told.code, told.out) == (ERROR, "")
    assert "some 1.2.3 is kept already, with other content" in told.err


Files = dict[str, bytes]
PULLS: dict[str, tuple[Files, str]] = {
    "another digest": ({"/index.yaml": index("0" * 64), "/some-1.2.3.tgz": packed()}, "does not have the digest"),
    "cut off": (
        {"/index.yaml": index(hashlib.sha256(packed()).hexdigest()), "/some-1.2.3.tgz": packed()[:-9]},
        "does not have the digest",
    ),
    "too large": ({"/index.yaml": index(""), "/some-1.2.3.tgz": too_large()}, "is larger than 10 MiB"),
    "no archive there": ({"/index.yaml": index("")}, "answered 404"),
    "no chart": ({"/index.yaml": index(""), "/some-1.2.3.tgz": b"hello"}, "no gzipped tar"),
    "no repository": ({"/index.yaml": b"<html>"}, "is no index of charts"),
}


@pytest.mark.parametrize("case", PULLS)
async def test_what_a_repository_gives_wrongly_is_not_kept(
    platform: Platform, repository: Callable[[Files], str], case: str
) -> None:
    files, why = PULLS[case]
    told = await platform.run("pull", "some", "--version", "1.2.3", "--repository", repository(files))
    assert (told.code, told.out) == (ERROR, "")
    assert "The chart some 1.2.3 was not kept" in told.err
    assert why in told.err
    assert "trilithon chart upload FILE" in told.err
    assert await platform.kept() == []


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["some", "--version", "1.2.3", "--repository", "http://127.0.0.1:1/charts"], "does not answer"),
        (["some", "--version", "1.2.3", "--repository", "oci://127.0.0.1:1/charts"], "does not answer"),
        (["some", "--version", "1.2.3", "--repository", "ftp://example.org"], "is no repository: write https://"),
        (["some", "--version", "1.2.3", "--repository", "http://charts.example.org"], "has no TLS"),
        (["some"], "Choose one of tigera-operator"),
    ],
)
async def test_a_repository_that_is_none_is_named_with_what_to_do(
    platform: Platform, arguments: list[str], why: str
) -> None:
    told = await platform.run("pull", *arguments)
    assert (told.code, told.out) == (ERROR, "")
    assert why in told.err
    assert "Traceback" not in told.err


async def test_a_chart_in_use_is_not_deleted(platform: Platform, tmp_path: Path) -> None:
    file = tmp_path / "chart.tgz"
    file.write_bytes(packed(CLOUD_CONTROLLER.name, CLOUD_CONTROLLER.version))
    await platform.run("upload", str(file))
    made: Any = await platform.store.sites.add(a_site())
    await platform.store.clusters.create(spec(), made.id, "dev@pve")
    told = await platform.run("delete", CLOUD_CONTROLLER.name, CLOUD_CONTROLLER.version, "--yes")
    assert (told.code, told.out) == (ERROR, "")
    assert f"{CLOUD_CONTROLLER.label} is needed by 1 cluster, and stays" in told.err
    assert await platform.kept() == [CLOUD_CONTROLLER.label]


async def test_a_chart_that_is_not_there_is_not_deleted(platform: Platform) -> None:
    told = await platform.run("delete", "some", "1.2.3+build.7", "--yes")
    assert (told.code, told.out) == (ERROR, "")
    assert "The cache has no chart some 1.2.3+build.7" in told.err
    assert "trilithon chart list" in told.err


async def test_a_deletion_asks_for_the_name_and_never_without_a_terminal(
    platform: Platform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "some.tgz"
    file.write_bytes(packed())
    await platform.run("upload", str(file))
    told = await platform.run("delete", "some", "1.2.3")
    assert (told.code, told.out) == (USAGE, "")
    assert "--yes" in told.err
    for typed, code in (("other", ERROR), ("some", 0)):
        terminal = io.StringIO(f"{typed}\n")
        monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
        monkeypatch.setattr("sys.stdin", terminal)
        assert await platform.kept() == ["some 1.2.3"]
        assert (await platform.run("delete", "some", "1.2.3")).code == code
    assert await platform.kept() == []
