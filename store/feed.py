"""The feed: one numbered row for every change, which server-sent events are built on.

Numbers are seen in their order and without gaps (store.database.Writing.announce), so a reader that has seen number n
and asks for what came after it misses nothing. Only the newest 100,000 or so are kept.
"""

import asyncio
import contextlib

from sqlalchemy import func, select

from domain.frozen import Payload
from store import tables
from store.database import Database
from store.errors import StoreUnavailable

_t = tables.changes

POLL_SECONDS = 0.25
"""How soon a change by another process is noticed; one by our own wakes its waiters at once."""


class Change(Payload):
    """Something changed: read it again. `kind`: cluster, machine, job, step, log, site, template, chart.

    `id` is the thing's id; for steps and log lines their job's. Deletions look the same.
    """

    seq: int
    kind: str
    id: str
    cluster_id: str | None = None
    site_id: str | None = None


class Feed:
    """Reads the feed. However many wait, one task polls, and only while somebody waits."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiters: dict[asyncio.Future[None], int] = {}
        self._poller: asyncio.Task[None] | None = None
        database.announced = self._wake

    async def changes_after(
        self, seq: int, *, cluster_id: str | None = None, site_id: str | None = None, limit: int = 500
    ) -> list[Change]:
        """The changes after number `seq`, at most `limit`, optionally of one cluster or site."""
        query = select(_t).where(_t.c.seq > seq)
        if cluster_id is not None:
            query = query.where(_t.c.cluster_id == cluster_id)
        if site_id is not None:
            query = query.where(_t.c.site_id == site_id)
        async with self._database.read() as connection:
            rows = await connection.execute(query.order_by(_t.c.seq).limit(limit))
            return [Change.model_validate(dict(row._mapping)) for row in rows]

    async def last(self) -> int:
        """The number of the last change, 0 when there is none: where a new reader begins."""
        query = select(tables.counters.c.value).where(tables.counters.c.name == "feed")
        async with self._database.read() as connection:
            return int((await connection.execute(query)).scalar_one())

    async def first_kept(self) -> int:
        """The number of the oldest change that is kept. A reader that stands before it must read everything anew."""
        async with self._database.read() as connection:
            first = (await connection.execute(select(func.min(_t.c.seq)))).scalar_one()
        return int(first or 1)

    async def wait_change(self, seq: int, timeout: float) -> bool:
        """Waits until there is a change after number `seq`, at most `timeout` seconds. True when there is one."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = seq
        try:
            # Registered first, looked second: a change between the two wakes us, one before them is seen here.
            if await self.last() > seq:
                return True
            if self._poller is None or self._poller.done():
                self._poller = asyncio.create_task(self._poll(), name="store feed poll")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await waiter
                    return True
            return False
        finally:
            self._waiters.pop(waiter, None)

    async def close(self) -> None:
        """Stops polling; who still waits gets False at its time limit."""
        if self._poller is not None:
            self._poller.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._poller

    def _wake(self, last: int) -> None:
        for waiter, seq in self._waiters.items():
            if last > seq and not waiter.done():
                waiter.set_result(None)

    async def _poll(self) -> None:
        while self._waiters:
            await asyncio.sleep(POLL_SECONDS)
            # A silent database is no news; the readers that follow a wake-up will report it.
            with contextlib.suppress(StoreUnavailable):
                self._wake(await self.last())
