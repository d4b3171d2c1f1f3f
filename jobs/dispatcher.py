"""Empties the outbox: wherever a cluster's accepted change is not settled and no job runs, it starts one.

The API pokes at once; this is the second look that never gives up: after a crash between write and poke, after a run
that was terminated, after the Temporal server lost its data. Several dispatchers at once (one in every worker) are
harmless, since a start under a running id only signals it.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta

from domain.clusters import Cluster
from domain.conditions import Condition, ConditionType, Reason
from domain.contracts import ids
from domain.jobs import JobPhase, wanted_job
from jobs.engine import Engine, Running
from jobs.errors import EngineAway
from store import NotFound, Store, StoreError

BREATH = 0.2
LOOK_EVERY = 2.0
"""Shortest and longest time in seconds between two looks; a change in the store wakes it."""
PAUSE_FIRST, PAUSE_MAX = 2.0, 300.0
"""Seconds until a run that died without an outcome is started again, doubled with every counted attempt."""
GRACE = 5.0
"""Seconds that a run which has just been started is left alone."""
RUNNING_AGAIN = 15.0
"""Seconds after which a cluster whose job runs is asked about again."""
MONITORS_EVERY = 30.0

_log = logging.getLogger(__name__)


class Dispatcher:
    """One per worker process.

    Args:
        store: the outbox.
        engine: the connection to Temporal.
        clock: the time.
    """

    def __init__(self, store: Store, engine: Engine, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._engine = engine
        self._clock = clock
        self._seen: dict[tuple[str, int], datetime] = {}
        """Until when a cluster's generation needs no look, because its job was just seen running."""
        self._monitored_at: datetime | None = None
        self._away = False

    async def run(self) -> None:
        """Look until cancelled. No error ends it: the next look may succeed."""
        while True:
            try:
                seq = await self._store.feed.last()
                await self.look()
                await self._store.wait_change(seq, LOOK_EVERY)
                await asyncio.sleep(BREATH)  # one look for a burst of changes
            except StoreError as error:
                _log.warning("The dispatcher could not read the store: %s", error)
                await asyncio.sleep(LOOK_EVERY)
            except Exception:
                _log.exception("The dispatcher stumbled and goes on")
                await asyncio.sleep(LOOK_EVERY)

    async def look(self) -> None:
        """One look at everything that is due."""
        now = self._clock()
        due = [c for c in await self._store.clusters.unsettled(now) if self._seen.get((c.id, c.generation), now) <= now]
        try:
            for cluster in due:
                await self._serve(cluster, now)
            await self._watch_sites(now)
            self._away = False
        except EngineAway as error:
            if not self._away:
                _log.warning("%s; accepted changes wait in the store", error)
            self._away = True
            for cluster in due:
                await self._pending(cluster, str(error))
        self._seen = {key: until for key, until in self._seen.items() if until > now}

    async def _serve(self, cluster: Cluster, now: datetime) -> None:
        kind = wanted_job(cluster)
        if kind is None:
            return
        running = await self._engine.running(ids.cluster_workflow(cluster))
        await self._close_dead_jobs(cluster, running, now)
        if running is None:
            # The attempt is counted before the start: a start that kills us must not be repeated at full speed.
            pause = min(PAUSE_FIRST * 2**cluster.attempt, PAUSE_MAX)
            await self._store.clusters.record_attempt(cluster.id, now + timedelta(seconds=max(pause, GRACE)))
        if running is None or running.kind != kind.value:
            await self._engine.start_or_signal(cluster, await self._site_name(cluster.site_id))
        self._seen[cluster.id, cluster.generation] = now + timedelta(
            seconds=RUNNING_AGAIN if running is not None and running.kind == kind.value else 1.0
        )

    async def _close_dead_jobs(self, cluster: Cluster, running: Running | None, now: datetime) -> None:
        """A run that ended without an outcome (terminated, data lost) leaves an open record: close it."""
        for job in await self._store.jobs.of_cluster(cluster.id):
            if job.ended_at is not None or (running is not None and running.run_id == job.id):
                continue
            if job.started_at is not None and now - job.started_at < timedelta(seconds=GRACE):
                continue
            await self._store.jobs.finish(job.id, JobPhase.FAILED, "The run ended without an outcome; another follows")

    async def _site_name(self, site_id: str) -> str:
        with suppress(NotFound):
            return (await self._store.sites.get(site_id)).name
        return ""

    async def _watch_sites(self, now: datetime) -> None:
        if self._monitored_at is not None and now - self._monitored_at < timedelta(seconds=MONITORS_EVERY):
            return
        for site in await self._store.sites.list():
            if await self._engine.running(ids.site_monitor(site.id)) is None:
                await self._engine.watch(site)
        self._monitored_at = now

    async def _pending(self, cluster: Cluster, why: str) -> None:
        message = f"{why}. The change is kept and starts by itself when it is back."
        with suppress(NotFound):
            await self._store.clusters.set_condition(
                cluster.id,
                Condition(type=ConditionType.JOB_PENDING, status=True, reason=Reason.ENGINE_AWAY, message=message),
            )
