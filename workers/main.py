"""The worker process: one connection, one worker per task queue, the dispatcher beside them.

python -m workers.main        # settings from TRILITHON_* (workers/settings.py)
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from temporalio.client import Client
from temporalio.worker import Worker

from activities.journal import Journal
from domain.contracts import ids
from domain.contracts.activities import Lane
from jobs import Engine
from jobs.dispatcher import BREATH, Dispatcher
from store import SecretKey, Store, StoreError, open_store
from workers.crash_points import CrashPoints
from workers.outfit import Outfit
from workers.registry import WORKFLOWS, Activity, for_lane, sandbox
from workers.settings import WorkerSettings, from_environment

SITES_EVERY = 5.0
"""Longest time in seconds until a site that was added elsewhere gets its workers; usually the feed is faster."""
THROTTLE = timedelta(seconds=2)
"""Heartbeats reach the server at least this often: how soon a cancelled wait ends (the SDK's default is 8 s of 10)."""
AGAIN_AFTER = 2.0
LAST_SECONDS = 5.0
"""After the grace, for what must be closed; then the process ends whatever still waits."""

_log = logging.getLogger(__name__)


def now() -> datetime:
    """The time, aware, in UTC."""
    return datetime.now(UTC)


class Crew:
    """All workers of one process. `run` lasts until `stop` is set."""

    def __init__(
        self, settings: WorkerSettings, store: Store, engine: Engine, activities: list[Activity], journal: Journal
    ) -> None:
        self._settings = settings
        self._store = store
        self._engine = engine
        self._activities = activities
        self._journal = journal
        self._sites: dict[str, list[asyncio.Task[None]]] = {}
        self._stop = asyncio.Event()
        self._client: Client

    def stop(self) -> None:
        """End gracefully: no new tasks, what runs may finish within the grace."""
        self._stop.set()

    async def run(self) -> None:
        """Serve until `stop`. Waits for a Temporal server that is not there yet."""
        connecting = asyncio.create_task(self._engine.worker_client())
        stopping = asyncio.create_task(self._stop.wait())
        await asyncio.wait({connecting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if self._stop.is_set():
            connecting.cancel()
            return
        self._client = await connecting
        others: list[asyncio.Task[None]] = []
        if self._settings.control:
            others.append(self._keep(self._control))
            others.append(asyncio.create_task(Dispatcher(self._store, self._engine, now).run()))
        others.append(asyncio.create_task(self._follow_sites()))
        _log.info("Working for %s", self._settings.engine.address)
        await stopping
        keepers = [task for tasks in self._sites.values() for task in tasks] + others
        for task in keepers:
            task.cancel()
        await asyncio.gather(*keepers, return_exceptions=True)

    async def _follow_sites(self) -> None:
        """Start workers for new sites and end those of removed ones."""
        seq = 0
        while True:
            try:
                wanted = {site.id for site in await self._store.sites.list()}
                if self._settings.sites:
                    wanted &= set(self._settings.sites)
                for site_id in wanted - set(self._sites):
                    self._sites[site_id] = [self._keep(make) for make in self._site(site_id)]
                for site_id in set(self._sites) - wanted:
                    for task in self._sites.pop(site_id):
                        task.cancel()
                seq = await self._next_site_change(seq)
            except StoreError as error:
                _log.warning("The list of sites could not be read: %s", error)
                await asyncio.sleep(AGAIN_AFTER)

    async def _next_site_change(self, seq: int) -> int:
        """Wait until a site changed, at most SITES_EVERY; the feed's number up to which we have looked."""
        if seq == 0:
            return await self._store.feed.last()
        clock = asyncio.get_running_loop().time
        deadline = clock() + SITES_EVERY
        while (left := deadline - clock()) > 0 and await self._store.wait_change(seq, left):
            await asyncio.sleep(BREATH)  # one read for a burst of changes, of which most concern no site
            changes = await self._store.changes_after(seq)
            seq = changes[-1].seq if changes else seq
            if any(change.kind == "site" for change in changes):
                break
        return seq

    def _keep(self, make: Callable[[], Worker]) -> "asyncio.Task[None]":
        return asyncio.create_task(self._serve(make))

    async def _serve(self, make: Callable[[], Worker]) -> None:
        """Run one worker; a fatal error of the SDK is followed by a new one, cancelling by a graceful end."""
        while True:
            try:
                await _run_one(make())
            except Exception:
                _log.exception("A worker ended; another follows")
                await asyncio.sleep(AGAIN_AFTER)

    def _control(self) -> Worker:
        return Worker(
            self._client,
            task_queue=ids.CONTROL_QUEUE,
            workflows=WORKFLOWS,
            activities=for_lane(self._activities, Lane.CONTROL),
            workflow_runner=sandbox(),
            interceptors=[self._journal],
            max_concurrent_activities=self._settings.control_slots,
            max_concurrent_workflow_task_polls=10,
            max_concurrent_activity_task_polls=10,
            sticky_queue_schedule_to_start_timeout=timedelta(seconds=self._settings.sticky_seconds),
            max_heartbeat_throttle_interval=THROTTLE,
            default_heartbeat_throttle_interval=THROTTLE,
            graceful_shutdown_timeout=timedelta(seconds=self._settings.grace_seconds),
        )

    def _site(self, site_id: str) -> list[Callable[[], Worker]]:
        lanes = (
            (Lane.SITE, ids.site_queue(site_id), self._settings.effect_slots),
            (Lane.CLONE, ids.site_clone_queue(site_id), self._settings.clone_slots),
            (Lane.WAIT, ids.site_wait_queue(site_id), self._settings.wait_slots),
        )

        def of(lane: Lane, queue: str, slots: int) -> Callable[[], Worker]:
            # A wait is cheap to begin again, so it does not hold up a restart.
            grace = 0.0 if lane is Lane.WAIT else self._settings.grace_seconds
            return lambda: Worker(
                self._client,
                task_queue=queue,
                activities=for_lane(self._activities, lane),
                interceptors=[self._journal],
                max_concurrent_activities=slots,
                max_heartbeat_throttle_interval=THROTTLE,
                default_heartbeat_throttle_interval=THROTTLE,
                graceful_shutdown_timeout=timedelta(seconds=grace),
            )

        return [of(*lane) for lane in lanes]


async def _run_one(worker: Worker) -> None:
    """Run a worker; when cancelled, end it gracefully first."""
    running = asyncio.create_task(worker.run())
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        await worker.shutdown()
        await asyncio.gather(running, return_exceptions=True)
        raise


async def serve(settings: WorkerSettings, stop: asyncio.Event | None = None) -> None:
    """Run a worker process's work until `stop` is set. The store must be migrated."""
    key = SecretKey.load(settings.key_file)
    store = open_store(settings.store_url, key, clock=now)
    points = CrashPoints.from_environment()
    outfit = Outfit(store, now, settings.charts, points)
    crew = Crew(
        settings,
        store,
        await Engine.connect(settings.engine),
        outfit.activities(),
        Journal(store, now, point=points.at),
    )
    watcher = asyncio.create_task(_stop_with(crew, stop)) if stop is not None else None
    try:
        await crew.run()
    finally:
        if watcher is not None:
            watcher.cancel()
        await outfit.aclose()
        await store.close()


async def _stop_with(crew: Crew, stop: asyncio.Event) -> None:
    await stop.wait()
    crew.stop()


def run_worker(settings: WorkerSettings) -> None:
    """Be a worker process. Never returns.

    It leaves by `os._exit`: the SDK may crash at interpreter exit (facts/temporal.md 0.10), and a thread that still
    waits for a silent Proxmox VE must not hold up the end.
    """
    asyncio.run(_as_process(settings))


async def _as_process(settings: WorkerSettings) -> None:
    code = 0
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def ending() -> None:
        stop.set()
        loop.call_later(settings.grace_seconds + LAST_SECONDS, _leave, 0)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ending)
    try:
        await serve(settings, stop)
    except BaseException:
        _log.exception("The worker ends with an error")
        code = 1
    _leave(code)


def _leave(code: int) -> None:
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main() -> None:
    """Entry point of `python -m workers.main`."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        settings = from_environment(os.environ)
    except ValueError as error:
        sys.exit(str(error))
    run_worker(settings)


if __name__ == "__main__":
    main()
