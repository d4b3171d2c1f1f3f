"""A store on SQLite and a clock that stands still."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from store import SecretKey, Store, migrate, open_store
from tests.store.builders import site

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def clock() -> datetime:
    return NOW


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    url = f"sqlite+aiosqlite:///{tmp_path}/store.db"
    await migrate(url)
    opened = open_store(url, SecretKey.generate(), clock=clock)
    await opened.sites.add(site())
    yield opened
    await opened.close()
