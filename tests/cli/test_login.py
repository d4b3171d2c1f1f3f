"""`trilithon login` and what is said to somebody who is not signed in; the API is the real one."""

import asyncio
import io
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest

from api.gate import ProxmoxGate
from api.services import Services
from cli.failures import ERROR
from cli.main import run
from store import SecretKey, migrate, open_store, scrypt_hash
from tests.api.test_jobs import served
from tests.api.world import EngineDouble, World


@dataclass
class _Served:
    services: Services


@pytest.fixture
async def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    """Where an installation without sites listens; its local administrator's password is `right`."""
    url = f"sqlite+aiosqlite:///{tmp_path}/store.db"
    await migrate(url)
    store = open_store(url, SecretKey.generate(), clock=lambda: datetime.now(UTC))
    await store.local_users.put_local_user("admin", scrypt_hash("right"))
    services = Services(store, ProxmoxGate(), EngineDouble(), lambda: datetime.now(UTC))
    monkeypatch.setenv("TRILITHON_CONFIG", str(tmp_path / "config"))
    async with served(cast(World, _Served(services))) as listening:
        monkeypatch.setenv("TRILITHON_URL", listening.removesuffix("/api/v1"))
        yield listening
    await store.close()


async def login(monkeypatch: pytest.MonkeyPatch, password: str) -> int:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{password}\n"))
    return await asyncio.to_thread(run, ["login", "--user", "admin@local", "--password-stdin"])


async def test_a_wrong_password_is_called_so(
    address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await login(monkeypatch, "wrong") == ERROR
    told = capsys.readouterr().err
    assert "User name or password is wrong" in told
    assert "not signed in" not in told


async def test_somebody_who_never_signed_in_is_told_how(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert await asyncio.to_thread(run, ["get", "clusters"]) == ERROR
    assert "Sign in with `trilithon login`" in capsys.readouterr().err


async def test_an_empty_chart_cache_says_where_charts_come_from(
    address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await login(monkeypatch, "right") == 0
    assert await asyncio.to_thread(run, ["chart", "list"]) == 0
    printed = capsys.readouterr()
    assert "The cache holds no charts" in printed.err
    assert printed.out == ""
