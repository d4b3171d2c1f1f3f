"""The one poll of a site: a few new tasks are looked at often, many are not."""

import asyncio
from typing import Any

import pytest

from activities.proxmox.tasks import TaskPoll

ROUND = 0.2


class Site:
    """A Proxmox VE that counts the questions; each task ends when the test says so."""

    def __init__(self) -> None:
        self.rounds = 0
        self.ended: set[str] = set()

    async def get(self, path: str, **_: Any) -> Any:
        if path == "cluster/tasks":
            self.rounds += 1
            return [{"upid": upid} for upid in UPIDS if upid not in self.ended]
        return {"status": "stopped", "exitstatus": "OK"} if path.split("/")[3] in self.ended else {"status": "running"}


UPIDS = [f"UPID:pve1:0000000{n}:0:0:qmclone:{n}:t@pve!x:" for n in range(9)]


@pytest.mark.parametrize(("waiters", "quicker"), [(1, True), (len(UPIDS), False)])
async def test_few_new_tasks_are_looked_at_more_often(
    monkeypatch: pytest.MonkeyPatch, waiters: int, quicker: bool
) -> None:
    site, pauses = Site(), []
    sleep = asyncio.sleep

    async def counted(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    async def client() -> Any:
        return site

    monkeypatch.setattr(asyncio, "sleep", counted)
    poll = TaskPoll(client, ROUND)
    waits = [asyncio.create_task(poll.ended(upid)) for upid in UPIDS[:waiters]]
    while site.rounds < 3:
        await sleep(0)
    site.ended.update(UPIDS)
    assert all(outcome.ok for outcome in await asyncio.gather(*waits))
    assert (pauses[0] < ROUND) is quicker


async def test_a_task_that_lasts_is_looked_at_at_leisure(monkeypatch: pytest.MonkeyPatch) -> None:
    site, pauses = Site(), []
    sleep, loop = asyncio.sleep, asyncio.get_running_loop()
    begun = loop.time()

    async def counted(seconds: float) -> None:
        pauses.append(seconds)
        # An hour passes in each pause.
        monkeypatch.setattr(loop, "time", lambda: begun + 3600.0 * len(pauses))
        await sleep(0)

    async def client() -> Any:
        return site

    monkeypatch.setattr(asyncio, "sleep", counted)
    waiting = asyncio.create_task(TaskPoll(client, ROUND).ended(UPIDS[0]))
    while site.rounds < 3:
        await sleep(0)
    site.ended.update(UPIDS)
    assert (await waiting).ok
    assert pauses[0] < ROUND
    assert pauses[1:3] == [ROUND, ROUND]
