"""The observing body of SiteMonitor: one read of the whole site every few seconds; only what changed is written."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

import structlog
from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities import journal
from activities.proxmox.acting import Acting
from activities.proxmox.presence import Resources
from activities.proxmox.sites import SiteClients
from clients.proxmox import ProxmoxError
from domain.conditions import Condition, ConditionType, Reason
from domain.contracts import activities as names
from domain.contracts.jobs import SiteInput
from store import NotFound, Store, StoreError

_log = structlog.get_logger()

_AWAY = " is offline"
"""Ends our notes on machines; only notes that end so are ever taken back by us."""


@dataclass
class _Known:
    """What was written last, so that an unchanged site costs no write and hardly a read."""

    reachable: tuple[bool, str] | None = None
    away: dict[int, str] = field(default_factory=dict)
    running: dict[int, bool] = field(default_factory=dict)
    """Whether each VM of the datacenter ran at the last read."""
    failures: int = 0
    first: bool = True


class Watching(Acting):
    """proxmox.watch_site."""

    watch_for = 600.0
    """Seconds of one round; then the workflow begins the next."""
    watch_every = 3.0
    """Seconds between two reads."""
    etcd_every = 60.0
    """Seconds between two looks at the etcd of the site's clusters; a server whose power changes brings one at once."""
    etcd_ill_every = 5.0
    """The same for clusters whose etcd is not whole: what gets well is to be seen soon."""
    patience = 2
    """Reads in a row that must fail before the site counts as unreachable."""

    def __init__(
        self,
        store: Store,
        sites: SiteClients,
        look_at_etcd: Callable[[str, bool], Awaitable[bool]] | None = None,
        *,
        look_every: float = 0.5,
    ) -> None:
        super().__init__(store, sites, look_every=look_every)
        self._look_at_etcd = look_at_etcd

    @activity.defn(name=names.WATCH_SITE)
    async def watch_site(self, site: SiteInput) -> None:
        """Watches one site for about ten minutes.

        Effect: none outside; the condition SiteReachable of its clusters, what is seen of their etcd, and notes on
            machines whose node is offline.
        Key: the site.
        Done-when: the round is over; every round looks afresh.
        Final: the site is no longer registered (SiteGone).
        """
        moved = asyncio.Event()
        beside = asyncio.create_task(self._watch_etcd(site.site_id, moved)) if self._look_at_etcd else None
        try:
            await self._watch(site, moved)
        finally:
            if beside is not None:
                beside.cancel()
                await asyncio.wait([beside])

    async def _watch_etcd(self, site_id: str, moved: asyncio.Event) -> None:
        """Looks at etcd beside the watch: servers that do not answer must not keep it from its reads."""
        assert self._look_at_etcd is not None  # noqa: S101 - the caller has looked
        ill, due = False, time.monotonic() + self.etcd_every
        while True:
            pause = self.etcd_ill_every if ill else max(0.0, due - time.monotonic())
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await moved.wait()
            at_all = moved.is_set() or time.monotonic() >= due
            moved.clear()
            if at_all:
                due = time.monotonic() + self.etcd_every
            try:
                ill = await self._look_at_etcd(site_id, not at_all)
            except StoreError as error:
                _log.warning("etcd was not looked at", site=site_id, error=str(error))

    async def _watch(self, site: SiteInput, moved: asyncio.Event) -> None:
        known = _Known()
        end = time.monotonic() + self.watch_for
        while time.monotonic() < end:
            journal.heartbeat(site.site_id)
            try:
                _, client = await self.sites.by_id(site.site_id)
                resources = await Resources.read(client)
            except NotFound as gone:
                if gone.kind == "site":
                    raise ApplicationError(str(gone), type="SiteGone", non_retryable=True) from gone
                lost = "the site's token is not in the secret box; give it a new one: trilithon site rotate-token"
                await self._tell_clusters(site.site_id, known, False, lost)
            except ProxmoxError as error:
                known.failures += 1
                if known.failures >= self.patience:
                    await self._tell_clusters(site.site_id, known, False, str(error))
            else:
                known.failures = 0
                await self._observed(site.site_id, known, resources)
                if await self._server_moved(site.site_id, known, resources):
                    moved.set()
            await asyncio.sleep(self.watch_every)

    async def _observed(self, site_id: str, known: _Known, resources: Resources) -> None:
        offline = sorted(name for name, online in resources.nodes.items() if not online)
        message = "; ".join(f"node {name}{_AWAY}" for name in offline)
        await self._tell_clusters(site_id, known, True, message)
        away = {
            int(row["vmid"]): str(row["node"])
            for row in resources.rows
            if row.get("type") == "qemu" and (row.get("node") in offline or row.get("status") == "unknown")
        }
        if known.first or away != known.away:
            for machine in await self._store.machines.of_site(site_id):
                node = away.get(machine.vmid)
                if node is not None and machine.message != f"node {node}{_AWAY}":
                    await self._store.machines.note(machine.id, f"node {node}{_AWAY}")
                elif node is None and machine.message.endswith(_AWAY):
                    await self._store.machines.note(machine.id, "")
            known.away, known.first = away, False

    async def _server_moved(self, site_id: str, known: _Known, resources: Resources) -> bool:
        """True when a server of ours got or lost its power since the last read, or its node went."""
        before = known.running
        known.running = {
            int(row["vmid"]): row.get("status") == "running" for row in resources.rows if row.get("type") == "qemu"
        }
        changed = {vmid for vmid in before.keys() | known.running if before.get(vmid) != known.running.get(vmid)}
        if not before or not changed:
            return False
        return any(one.is_server and one.vmid in changed for one in await self._store.machines.of_site(site_id))

    async def _tell_clusters(self, site_id: str, known: _Known, reachable: bool, message: str) -> None:
        if known.reachable == (reachable, message):
            return
        reason = Reason.READY if reachable else Reason.SITE_UNREACHABLE
        condition = Condition(type=ConditionType.SITE_REACHABLE, status=reachable, reason=reason, message=message)
        for cluster in await self._store.clusters.all_living():
            if cluster.site_id == site_id:
                await self._store.clusters.set_condition(cluster.id, condition)
        known.reachable = (reachable, message)
