"""A store on SQLite, a crew of real workers with faked effects, and an engine on a real server."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from temporalio.testing import WorkflowEnvironment

from activities.journal import Journal
from activities.records import RecordActivities
from domain.clusters import Cluster
from jobs import Engine, EngineSettings
from store import SecretKey, Store, migrate, open_store
from tests.store.builders import site, spec
from tests.temporal_server import client as client
from tests.temporal_server import temporal as temporal
from tests.workers.effects import FakeEffects
from tests.workflows.conftest import LIMITS
from workers.main import Crew, now
from workers.registry import collect
from workers.settings import WorkerSettings


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    url = f"sqlite+aiosqlite:///{tmp_path}/store.db"
    await migrate(url)
    opened = open_store(url, SecretKey.generate(), clock=now)
    yield opened
    await opened.close()


@pytest.fixture
async def engine(temporal: WorkflowEnvironment) -> Engine:
    address = temporal.client.service_client.config.target_host
    return await Engine.connect(EngineSettings(address=address, ui="http://127.0.0.1:8233/", limits=LIMITS))


@pytest.fixture
def effects(store: Store) -> FakeEffects:
    return FakeEffects(store)


@pytest.fixture
async def cluster(store: Store, request: pytest.FixtureRequest) -> Cluster:
    lab = await store.sites.add(site(id=f"site-{request.node.name[:40]}"))
    return await store.clusters.create(spec(), lab.id, "pat")


@asynccontextmanager
async def crew(store: Store, engine: Engine, effects: FakeEffects, **settings: object) -> AsyncIterator[Crew]:
    """A running crew; ended gracefully."""
    made = Crew(
        WorkerSettings(store_url="", engine=engine.settings, grace_seconds=1.0, **settings),  # type: ignore[arg-type]
        store,
        engine,
        [*collect(RecordActivities(store, now)), *effects.activities()],
        Journal(store, now, beat=0.5),
    )
    running = asyncio.create_task(made.run())
    try:
        yield made
    finally:
        made.stop()
        await running


async def until(met: Callable[[], Awaitable[bool]], limit: float = 30.0) -> None:
    """Look again and again until it is so."""
    async with asyncio.timeout(limit):
        while not await met():  # noqa: ASYNC110 - the store is looked at, it cannot call
            await asyncio.sleep(0.05)
