"""Every case of this folder runs on SQLite and on a real PostgreSQL server."""

import itertools
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from domain.clusters import Cluster
from store import SecretKey, Store, migrate, open_store
from store.tables import metadata
from tests.store.builders import site, spec
from tests.store.postgres import PostgresServer, installed_server


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def forward(self, **amount: float) -> datetime:
        self.now += timedelta(**amount)
        return self.now


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    # Not below pytest's own folder: the server's user must be able to pass every parent folder.
    folder = Path(tempfile.mkdtemp(prefix="trilithon-pg-"))
    folder.chmod(0o755)
    (folder / "server").mkdir()
    server = installed_server(folder / "server")
    if isinstance(server, str):
        shutil.rmtree(folder)
        pytest.skip(server)
    try:
        server.start()
        yield server
        server.stop()
    finally:
        shutil.rmtree(folder)


_databases = itertools.count(1)


@pytest.fixture(params=["sqlite", "postgresql"])
def backend(request: pytest.FixtureRequest) -> str:
    if request.param == "postgresql":
        request.getfixturevalue("postgres")
    return str(request.param)


async def _postgres_database(server: PostgresServer) -> str:
    name = f"t{next(_databases)}"
    engine = create_async_engine(server.url("postgres"), isolation_level="AUTOCOMMIT")
    async with engine.connect() as connection:
        await connection.execute(text(f"CREATE DATABASE {name}"))
    await engine.dispose()
    return name


@pytest.fixture
async def empty_url(request: pytest.FixtureRequest, backend: str, tmp_path: Path) -> str:
    """The address of an empty database."""
    if backend == "sqlite":
        return f"sqlite+aiosqlite:///{tmp_path}/store.db"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.url(await _postgres_database(server))


_migrated: dict[str, str] = {}


@pytest.fixture
async def url(
    request: pytest.FixtureRequest, backend: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> str:
    """The address of a migrated database without rows."""
    if backend == "sqlite":
        model = _migrated.get(backend)
        if model is None:
            model = f"{tmp_path_factory.mktemp('model')}/store.db"
            await migrate(f"sqlite+aiosqlite:///{model}")
            _migrated[backend] = model
        shutil.copy(model, tmp_path / "store.db")
        return f"sqlite+aiosqlite:///{tmp_path}/store.db"
    server: PostgresServer = request.getfixturevalue("postgres")
    shared = _migrated.get(backend)
    if shared is None:
        shared = server.url(await _postgres_database(server))
        await migrate(shared)
        _migrated[backend] = shared
    await _empty(shared)
    return shared


async def _empty(url: str) -> None:
    """As just migrated. One database for all cases: making one for each took most of the tests' time and disk."""
    engine = create_async_engine(url)
    async with engine.begin() as connection:
        await connection.execute(
            text(f"TRUNCATE {', '.join(table for table in metadata.tables if table != 'counters')}")
        )
        await connection.execute(text("UPDATE counters SET value = CASE name WHEN 'epoch' THEN 1 ELSE 0 END"))
    await engine.dispose()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def key() -> SecretKey:
    return SecretKey.generate()


@pytest.fixture
async def store(url: str, key: SecretKey, clock: Clock) -> AsyncIterator[Store]:
    opened = open_store(url, key, clock=clock)
    yield opened
    await opened.close()


@pytest.fixture
async def another(url: str, key: SecretKey, clock: Clock) -> AsyncIterator[Store]:
    """A second store on the same database, as another process would open it."""
    opened = open_store(url, key, clock=clock)
    yield opened
    await opened.close()


@pytest.fixture
async def cluster(store: Store) -> Cluster:
    """A cluster `clusters/prod` on site `lab`."""
    await store.sites.add(site())
    return await store.clusters.create(spec(), "site-lab", "ada@pve")
