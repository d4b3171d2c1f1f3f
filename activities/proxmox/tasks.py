"""Waiting for Proxmox VE tasks: many waiters, one poll per site.

While anybody waits, one loop per site asks /cluster/tasks twice a second, and more often while few wait and a task is
new; only tasks that it shows as ended, or does not show at all, are asked for one by one. A wait costs next to nothing,
so clones of a hundred machines can be awaited at once.
"""

import asyncio
from collections.abc import Awaitable, Callable

from temporalio import activity

from activities import journal
from activities.proxmox.acting import Acting, deed, final
from activities.proxmox.sites import SiteClients
from clients.proxmox import BadParameter, NotThere, ProxmoxClient, ProxmoxError, Unreachable
from domain.contracts import activities as names
from domain.contracts.activities import TaskOutcome, TaskRef
from store import Store, StoreError


def node_of(upid: str) -> str:
    """The node that runs a task: the second part of its UPID. Raises ValueError for anything else."""
    parts = upid.split(":")
    if len(parts) < 8 or parts[0] != "UPID":
        raise ValueError(f"{upid!r} is not a UPID")
    return parts[1]


async def task_ended(client: ProxmoxClient, upid: str) -> TaskOutcome | None:
    """How a task ended; None while it runs. `vanished` when nobody can say: decide from the real state then."""
    node = node_of(upid)
    try:
        status = await client.get(f"nodes/{node}/tasks/{upid}/status")
    except (NotThere, BadParameter):
        return TaskOutcome(ok=False, vanished=True, exit_status="the task is no longer known")
    except Unreachable as away:
        if away.status:
            # Another node answered for it: the task's own node is away, and its outcome with it.
            return TaskOutcome(ok=False, vanished=True, exit_status=f"node {node} is offline")
        raise
    if status.get("status") != "stopped":
        return None
    words = str(status.get("exitstatus") or "")
    return TaskOutcome(ok=words == "OK" or words.startswith("WARNINGS"), exit_status=words, vanished=not words)


class TaskPoll:
    """The one poll of a site.

    Args:
        client: gives the site's client, asked afresh in every round (its token may have been rotated).
        look_every: seconds between two rounds.
    """

    FULL_ROUND = 10
    """Every so many rounds each task is asked for itself: a node that died leaves its tasks in the list for ever."""

    FEW, SOON = 4, 4
    """While no more than `FEW` wait, a new task is looked at `SOON` times as often for two rounds' time: most end in a
    second, and a machine on its way waits for half a dozen of them, one after the other."""

    def __init__(self, client: Callable[[], Awaitable[ProxmoxClient]], look_every: float) -> None:
        self._client = client
        self._look_every = look_every
        self._newest = 0.0
        self._waiting: dict[str, set[asyncio.Future[TaskOutcome]]] = {}
        self._loop: asyncio.Task[None] | None = None

    async def ended(self, upid: str) -> TaskOutcome:
        """Waits until the task has ended. Raises what the poll met when Proxmox VE could not be asked."""
        future: asyncio.Future[TaskOutcome] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(upid, set()).add(future)
        self._newest = asyncio.get_running_loop().time()
        if self._loop is None or self._loop.done():
            self._loop = asyncio.create_task(self._run())
        try:
            return await future
        finally:
            waiters = self._waiting.get(upid, set())
            waiters.discard(future)
            if not waiters:
                self._waiting.pop(upid, None)

    async def _run(self) -> None:
        rounds = 0
        while self._waiting:
            try:
                client = await self._client()
                listed = await self._running(client) if rounds % self.FULL_ROUND else set()
            except (ProxmoxError, StoreError) as error:
                for upid in list(self._waiting):
                    self._tell(upid, error)
            else:
                await asyncio.gather(*(self._ask(client, upid) for upid in list(self._waiting) if upid not in listed))
            rounds += 1
            await asyncio.sleep(self._pause())

    def _pause(self) -> float:
        age = asyncio.get_running_loop().time() - self._newest
        hurry = len(self._waiting) <= self.FEW and age < 2 * self._look_every
        return self._look_every / self.SOON if hurry else self._look_every

    async def _running(self, client: ProxmoxClient) -> set[str]:
        rows = await client.get("cluster/tasks")
        return {str(row["upid"]) for row in rows if row.get("upid") and not row.get("endtime")}

    async def _ask(self, client: ProxmoxClient, upid: str) -> None:
        try:
            outcome = await task_ended(client, upid)
        except ProxmoxError as error:
            self._tell(upid, error)
        else:
            if outcome is not None:
                self._tell(upid, outcome)

    def _tell(self, upid: str, news: TaskOutcome | Exception) -> None:
        for future in self._waiting.get(upid, ()):
            if future.done():
                continue
            if isinstance(news, Exception):
                future.set_exception(news)
            else:
                future.set_result(news)


class Tasks(Acting):
    """proxmox.wait_task."""

    def __init__(self, store: Store, sites: SiteClients, *, look_every: float = 0.5) -> None:
        super().__init__(store, sites, look_every=look_every)
        self._polls: dict[str, TaskPoll] = {}

    def poll(self, site_id: str) -> TaskPoll:
        """The site's poll, shared by all waits of this process."""

        async def client() -> ProxmoxClient:
            return (await self.sites.by_id(site_id))[1]

        if site_id not in self._polls:
            self._polls[site_id] = TaskPoll(client, self._look_every)
        return self._polls[site_id]

    @activity.defn(name=names.WAIT_TASK)
    @deed
    async def wait_task(self, ref: TaskRef) -> TaskOutcome:
        """Waits for one Proxmox VE task.

        Effect: none.
        Key: the task's UPID, which is also what the heartbeat carries.
        Done-when: the task has ended, or nobody can say any more how it went.
        Final: the UPID is none.
        """
        try:
            node_of(ref.upid)
        except ValueError as error:
            raise final(str(error), "InvalidSpec") from error
        journal.heartbeat(ref.upid)
        return await self.poll(ref.site_id).ended(ref.upid)
