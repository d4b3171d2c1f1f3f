"""The observing body of SiteMonitor: one read of the whole site every few seconds; only what changed is written."""

import asyncio
import time
from dataclasses import dataclass, field

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities import journal
from activities.proxmox.acting import Acting
from activities.proxmox.presence import Resources
from clients.proxmox import ProxmoxError
from domain.conditions import Condition, ConditionType, Reason
from domain.contracts import activities as names
from domain.contracts.jobs import SiteInput
from store import NotFound

_AWAY = " is offline"
"""Ends our notes on machines; only notes that end so are ever taken back by us."""


@dataclass
class _Known:
    """What was written last, so that an unchanged site costs no write and hardly a read."""

    reachable: tuple[bool, str] | None = None
    away: dict[int, str] = field(default_factory=dict)
    failures: int = 0
    first: bool = True


class Watching(Acting):
    """proxmox.watch_site."""

    watch_for = 600.0
    """Seconds of one round; then the workflow begins the next."""
    watch_every = 3.0
    """Seconds between two reads."""
    patience = 2
    """Reads in a row that must fail before the site counts as unreachable."""

    @activity.defn(name=names.WATCH_SITE)
    async def watch_site(self, site: SiteInput) -> None:
        """Watches one site for about ten minutes.

        Effect: none outside; the condition SiteReachable of its clusters, and notes on machines whose node is offline.
        Key: the site.
        Done-when: the round is over; every round looks afresh.
        Final: the site is no longer registered (SiteGone).
        """
        known = _Known()
        end = time.monotonic() + self.watch_for
        while time.monotonic() < end:
            journal.heartbeat(site.site_id)
            try:
                _, client = await self.sites.by_id(site.site_id)
            except NotFound as gone:
                raise ApplicationError(str(gone), type="SiteGone", non_retryable=True) from gone
            try:
                resources = await Resources.read(client)
            except ProxmoxError as error:
                known.failures += 1
                if known.failures >= self.patience:
                    await self._tell_clusters(site.site_id, known, False, str(error))
            else:
                known.failures = 0
                await self._observed(site.site_id, known, resources)
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

    async def _tell_clusters(self, site_id: str, known: _Known, reachable: bool, message: str) -> None:
        if known.reachable == (reachable, message):
            return
        reason = Reason.READY if reachable else Reason.SITE_UNREACHABLE
        condition = Condition(type=ConditionType.SITE_REACHABLE, status=reachable, reason=reason, message=message)
        for cluster in await self._store.clusters.all_living():
            if cluster.site_id == site_id:
                await self._store.clusters.set_condition(cluster.id, condition)
        known.reachable = (reachable, message)
