"""The store as a whole: one database, one key, one repository per noun."""

from sqlalchemy import select, update

from store import tables
from store.audit import Audit
from store.charts import Charts
from store.clusters import Clusters
from store.database import Clock, Database, make_engine
from store.feed import Change, Feed
from store.idempotency import Idempotency
from store.jobs import Jobs
from store.keys import SecretKey
from store.local_users import LocalUsers
from store.machines import Machines
from store.secrets import Secrets
from store.sessions import Sessions
from store.sites import Sites
from store.templates import Templates
from store.turns import Turns


class Store:
    """An open store. Belongs to one event loop; close it when done."""

    def __init__(self, database: Database, key: SecretKey) -> None:
        self._database = database
        self.clusters = Clusters(database)
        self.machines = Machines(database)
        self.sites = Sites(database)
        self.templates = Templates(database)
        self.charts = Charts(database)
        self.turns = Turns(database)
        self.jobs = Jobs(database)
        self.secrets = Secrets(database, key)
        self.audit = Audit(database)
        self.sessions = Sessions(database)
        self.local_users = LocalUsers(database)
        self.idempotency = Idempotency(database)
        self.feed = Feed(database)

    async def close(self) -> None:
        """Closes every connection."""
        await self.feed.close()
        await self._database.dispose()

    async def epoch(self) -> int:
        """The store's epoch. A job of another epoch stops before its next effect."""
        query = select(tables.counters.c.value).where(tables.counters.c.name == "epoch")
        async with self._database.read() as connection:
            return int((await connection.execute(query)).scalar_one())

    async def raise_epoch(self) -> int:
        """Begins a new epoch, after a restore, and returns it."""
        counters = tables.counters
        async with self._database.write() as writing:
            raised = await writing.connection.execute(
                update(counters)
                .where(counters.c.name == "epoch")
                .values(value=counters.c.value + 1)
                .returning(counters.c.value)
            )
            return int(raised.scalar_one())

    async def changes_after(
        self, seq: int, *, cluster_id: str | None = None, site_id: str | None = None, limit: int = 500
    ) -> list[Change]:
        """See Feed.changes_after."""
        return await self.feed.changes_after(seq, cluster_id=cluster_id, site_id=site_id, limit=limit)

    async def wait_change(self, seq: int, timeout: float) -> bool:
        """See Feed.wait_change."""
        return await self.feed.wait_change(seq, timeout)


def open_store(url: str, key: SecretKey, *, clock: Clock, busy_seconds: float = 10.0) -> Store:
    """Opens a migrated store (`migrate`). Connects at the first call, so it succeeds while the database is down.

    `url` is `sqlite+aiosqlite:///file` or `postgresql+asyncpg://user:password@host/database`. `clock` gives aware
    times. `busy_seconds` is how long a call waits for a locked or silent database before it raises StoreUnavailable.
    """
    return Store(Database(make_engine(url, busy_seconds), clock, busy_seconds), key)
