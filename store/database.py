"""Connections and transactions: the one place that knows which database is behind the store.

Reads run without a transaction of their own. A write is one transaction: `BEGIN IMMEDIATE` on SQLite (so that no read
has to be upgraded to a write, which SQLite refuses with `database is locked` at once), READ COMMITTED with row locks on
PostgreSQL. Locks are always taken in the order site, cluster, machine, job, feed; that order excludes deadlocks.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, event, insert, update
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError, IntegrityError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from store import tables
from store.errors import StoreUnavailable

WRITES = "trilithon_writes"
Clock = Callable[[], datetime]

FEED_KEPT = 100_000
"""So many of the newest changes stay in the feed; older ones are of no use to a page that resumes."""
FEED_PRUNED_EVERY = 1_000


def make_engine(url: str, busy_seconds: float = 10.0) -> AsyncEngine:
    """An engine for `sqlite+aiosqlite:///file` or `postgresql+asyncpg://...`.

    `busy_seconds` is how long a call waits for a locked or silent database before it gives up.
    """
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        engine = create_async_engine(
            parsed, pool_size=4, max_overflow=8, pool_timeout=busy_seconds, connect_args={"timeout": busy_seconds}
        )
        _prepare_sqlite(engine)
        return engine
    return create_async_engine(
        parsed,
        pool_size=10,
        max_overflow=20,
        pool_timeout=busy_seconds,
        pool_pre_ping=True,
        connect_args={"timeout": busy_seconds, "command_timeout": busy_seconds},
    )


def _prepare_sqlite(engine: AsyncEngine) -> None:
    @event.listens_for(engine.sync_engine, "connect")
    def connect(connection: Any, _record: Any) -> None:
        # The driver must not begin transactions by itself: `begin` below decides which kind.
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode=WAL")
        # A reserved VM id that a power cut forgets would leave a VM that nobody knows: every commit reaches the disk.
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def begin(connection: Connection) -> None:
        if connection.get_execution_options().get(WRITES):
            connection.exec_driver_sql("BEGIN IMMEDIATE")


def _unavailable(error: BaseException) -> bool:
    if isinstance(error, OperationalError | InterfaceError | PoolTimeout | TimeoutError | OSError):
        # SQLite reports a missing table as an OperationalError too: that is a mistake of ours and must stay visible.
        return not isinstance(getattr(error, "orig", None), sqlite3.OperationalError) or any(
            words in str(error) for words in ("locked", "busy", "unable to open", "disk I/O", "full")
        )
    if isinstance(error, DBAPIError) and not isinstance(error, IntegrityError):
        # asyncpg: connection lost (08), deadlock and serialisation (40), out of resources (53), shut down (57), or
        # no state at all because the connection ended in mid-call.
        state = str(getattr(error.orig, "sqlstate", None) or "")
        return error.connection_invalidated or state[:2] in {"08", "40", "53", "57"}
    return False


@asynccontextmanager
async def typed_errors() -> AsyncIterator[None]:
    """Turns whatever the drivers say of a locked or absent database into StoreUnavailable."""
    try:
        yield
    except Exception as error:
        if _unavailable(error):
            raise StoreUnavailable(f"the database does not answer: {type(error).__name__}") from error
        raise


class Writing:
    """One open write transaction and the changes that it will announce in the feed."""

    def __init__(self, connection: AsyncConnection, now: datetime) -> None:
        self.connection = connection
        self.now = now
        self._changes: list[dict[str, Any]] = []

    def changed(self, kind: str, id: str, *, cluster_id: str | None = None, site_id: str | None = None) -> None:
        """Announces a change when the transaction commits. Kinds: cluster, machine, job, step, log, site, template."""
        self._changes.append({"kind": kind, "id": id, "cluster_id": cluster_id, "site_id": site_id})

    async def announce(self) -> int:
        """Writes the feed rows; the last statement before the commit.

        All writers pass through one counter row, whose lock is held until the commit: numbers become visible in their
        order and without gaps, so a reader that resumes after a number never misses a late one.
        """
        if not self._changes:
            return 0
        counted = await self.connection.execute(
            update(tables.counters)
            .where(tables.counters.c.name == "feed")
            .values(value=tables.counters.c.value + len(self._changes))
            .returning(tables.counters.c.value)
        )
        last = int(counted.scalar_one())
        first = last - len(self._changes) + 1
        rows = [{"seq": first + index, **change} for index, change in enumerate(self._changes)]
        await self.connection.execute(insert(tables.changes), rows)
        if last // FEED_PRUNED_EVERY != (first - 1) // FEED_PRUNED_EVERY:
            await self.connection.execute(tables.changes.delete().where(tables.changes.c.seq <= last - FEED_KEPT))
        return last


class Database:
    """Gives reads and writes to the repositories."""

    def __init__(self, engine: AsyncEngine, clock: Clock, busy_seconds: float) -> None:
        self._engine = engine
        self._writing_engine = engine.execution_options(**{WRITES: True})
        if engine.dialect.name == "postgresql":
            self._engine = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._clock = clock
        self._busy_seconds = busy_seconds
        # SQLite has one writer. Within this process writers queue here, in order, instead of polling its file lock.
        self._turn: asyncio.Lock | None = asyncio.Lock() if engine.dialect.name == "sqlite" else None
        self.announced: Callable[[int], None] = lambda seq: None
        """Called after a commit with the last number that it put into the feed."""

    def now(self) -> datetime:
        """The injected clock's time, in UTC."""
        return self._clock().astimezone(UTC)

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """A connection for reading. Raises StoreUnavailable when the database is locked or down."""
        async with typed_errors(), self._engine.connect() as connection:
            yield connection

    @asynccontextmanager
    async def write(self) -> AsyncIterator[Writing]:
        """One transaction: commits at the end of the block, rolls back when it raises."""
        if self._turn is None:
            async with self._transaction() as writing:
                yield writing
            return
        # The queue's patience is bounded too: behind a held file lock every writer would else wait for all before it.
        try:
            async with asyncio.timeout(self._busy_seconds):
                await self._turn.acquire()
        except TimeoutError as error:
            raise StoreUnavailable("the database does not answer: earlier writes still wait for it") from error
        try:
            async with self._transaction() as writing:
                yield writing
        finally:
            self._turn.release()

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[Writing]:
        seq = 0
        async with typed_errors(), self._writing_engine.begin() as connection:
            writing = Writing(connection, self.now())
            yield writing
            seq = await writing.announce()
        if seq:
            self.announced(seq)

    async def dispose(self) -> None:
        await self._engine.dispose()
