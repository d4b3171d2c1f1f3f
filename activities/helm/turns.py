"""One attempt at a release at a time, whatever worker process it runs in.

Temporal hands an activity out again when its worker was silent for too long, and a silent worker need not be dead: it
may be stopped, or cut off from Temporal alone, with Helm still at work in its subprocess. The second attempt would
take what the first is doing for the remains of a dead one, and undo it under its hands. So each attempt takes the
release's turn in the store first, and whoever holds it proves that it lives.
"""

import asyncio
import os
import secrets
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import activities.journal as journal
from store import Store, StoreError

LIFE = 15.0
"""Seconds without a sign of life after which a holder counts as dead. Holders stop earlier (`Turn.held`), and Helm's
subprocess ends when it has not heard from its worker for a third of it (clients.charts.helm.GRACE), so that nothing of
the first attempt acts when the second begins."""
_BEATS, _LOOKS = 8, 30
"""Signs of life, and looks of those who wait, within one life."""


class Turn:
    """What the holder knows of its turn."""

    def __init__(self, life: float, begun: float) -> None:
        self._life = life
        self.proved = begun

    def held(self) -> bool:
        """Whether it is still certain that nobody else has it: the last sign of life was begun half a life ago."""
        return time.monotonic() - self.proved < self._life / 2


class Turns:
    """Turns at releases.

    Args:
        store: where they are kept.
        life: seconds, see LIFE.
    """

    def __init__(self, store: Store, *, life: float = LIFE) -> None:
        self._store = store
        self._life = life

    @asynccontextmanager
    async def take(self, name: str, what: str) -> AsyncIterator[Turn]:
        """Holds the turn for the length of the block; waits for it as long as it takes.

        Args:
            name: of the turn.
            what: it is about, for the log.
        """
        holder = f"{_ourselves()}/{secrets.token_hex(4)}"
        turn = Turn(self._life, await self._wait(name, holder, what))
        living = asyncio.create_task(self._live(name, holder, turn), name=f"turn {name}")
        try:
            yield turn
        finally:
            living.cancel()
            await asyncio.gather(living, return_exceptions=True)
            # A store that is away keeps the turn; the next attempt sees it stand still and takes it over.
            with suppress(StoreError):
                await self._store.turns.leave(name, holder)

    async def _wait(self, name: str, holder: str, what: str) -> float:
        """Returns when the turn is ours, with the moment before it became so."""
        seen, since, told = None, 0.0, False
        while True:
            now = time.monotonic()
            found = await self._store.turns.find(name)
            if found != seen:
                seen, since = found, now
            free = found is None or _dead(found.holder) or now - since >= self._life
            if free and await self._store.turns.take(name, holder, found):
                return now
            if not told and not free:
                await journal.log(f"{what}: another attempt is at it, in this process or another; waiting for its end")
                told = True
            await asyncio.sleep(self._life / _LOOKS)

    async def _live(self, name: str, holder: str, turn: Turn) -> None:
        while True:
            await asyncio.sleep(self._life / _BEATS)
            begun = time.monotonic()
            with suppress(StoreError):
                if not await self._store.turns.beat(name, holder):
                    turn.proved = -self._life
                    return
                turn.proved = begun


def _ourselves() -> str:
    pid = os.getpid()
    return f"{socket.gethostname()[:64]}/{_processes()}/{pid}/{_begun(pid)}"


def _dead(holder: str) -> bool:
    """True where it can be seen: a process of this very machine (and container) that is no longer there."""
    try:
        host, processes, pid, begun, _ = holder.rsplit("/", 4)
        here = (host, processes) == (socket.gethostname()[:64], _processes())
        return here and processes != "" and _begun(int(pid)) != begun
    except ValueError:
        return False


def _processes() -> str:
    """Names the machine's present life and the set of processes that we see; empty where it cannot be told."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}:{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""


def _begun(pid: int) -> str:
    """When the process began, in the kernel's words; empty where there is none, or only its remains."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return ""
    return "" if state in "ZX" else fields[18]
