"""Every look and every change of an activity, in one place: counted, and the looks answered with old answers on demand.

A *look* is a GET of a client, a SELECT of the store, or Helm's question about a release. A *change* is a call that a
client passes through its Crossing, a row that the store writes, or an order to Helm. Not counted as a change: taking a
machine (the fence that every attempt raises) and the feed.

`stale` takes an activity's 'already done' look away: until its first change it sees what it saw the first time.
"""

import json
import os
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Delete, Insert, Select, Update
from sqlalchemy.ext.asyncio import AsyncConnection

from clients.charts import Helm
from clients.kubernetes import KubernetesClient
from clients.proxmox import ProxmoxClient
from store.database import Database
from tests.faults import helm_looks

LIVE, RECORD, STALE = "live", "record", "stale"
NO_CHANGE_OF_THE_CLUSTER = ("helm ensure", "/agent/")
"""Crossings that are looks in truth: Helm's subprocess looks first by itself; questions to a guest agent are POSTs."""

NO_EFFECT = ("counters", "changes", "turns")
"""Tables whose rows are no effects: numbers, the feed, and turns, which come and go with every attempt."""


class Looks:
    """The switch. Also a `clients.crossings.Crossing`, which every client of the test is given."""

    def __init__(self, folder: Path) -> None:
        self.mode = LIVE
        self.outside: list[str] = []
        self.written: list[str] = []
        self._whole_store = False
        self._answers: dict[str, deque[tuple[bool, Any]]] = defaultdict(deque)
        self._helm = folder / "helm"

    def begin(self, mode: str, *, store_only: bool = False) -> None:
        """Starts counting anew. `store_only`: the activity changes nothing but the store, so its first write counts."""
        self.mode, self._whole_store = mode, store_only
        self.outside, self.written = [], []
        if mode == RECORD:
            self._answers.clear()
            self._helm.unlink(missing_ok=True)
        os.environ[helm_looks.VARIABLE] = json.dumps({"mode": mode, "file": str(self._helm)})
        helm_looks.changes_in(self._helm, clear=True)

    @property
    def changes(self) -> list[str]:
        """What was changed outside so far."""
        return [*self.outside, *helm_looks.changes_in(self._helm)]

    def before(self, name: str) -> None:
        if not any(words in name for words in NO_CHANGE_OF_THE_CLUSTER):
            self.outside.append(name)

    def after(self, name: str) -> None:
        return None

    async def look(self, key: str, live: Callable[[], Awaitable[Any]]) -> Any:
        """The answer to one look: the real one, or the next of those that were recorded under its key."""
        if self.mode == STALE and not self._changed() and self._answers[key]:
            failed, answer = self._answers[key].popleft()
            if failed:
                raise answer
            return answer
        try:
            answer = await live()
        except Exception as error:
            self._keep(key, True, error)
            raise
        self._keep(key, False, answer)
        return answer

    def _keep(self, key: str, failed: bool, answer: Any) -> None:
        if self.mode == RECORD:
            self._answers[key].append((failed, answer))

    def _changed(self) -> bool:
        return bool(self.outside or (self._whole_store and self.written))

    def knows(self, *, writing: bool) -> bool:
        """True where a SELECT is a look: inside a write only for activities that change nothing but the store."""
        return not writing or self.mode == RECORD or self._whole_store


class _Watched:
    """A store connection whose statements are looks or changes."""

    def __init__(self, connection: AsyncConnection, looks: Looks, *, writing: bool) -> None:
        self._connection = connection
        self._looks = looks
        self._writing = writing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def execute(self, statement: Any, parameters: Any = None) -> Any:
        if isinstance(statement, Select):
            return await self._select(statement, parameters)
        table = statement.table.name if isinstance(statement, Insert | Update | Delete) else ""
        counted = bool(table) and table not in NO_EFFECT and not _is_take(statement)
        if counted and isinstance(statement, Insert):
            self._looks.written.append(f"insert {table}")
        result = await self._connection.execute(statement, parameters)
        if result.returns_rows:
            frozen = result.freeze()
            rows, result = len(frozen.data), frozen()
        else:
            rows = result.rowcount
        if counted and not isinstance(statement, Insert) and rows:
            self._looks.written.append(f"{type(statement).__name__.lower()} {table}")
        return result

    async def _select(self, statement: Any, parameters: Any) -> Any:
        async def live() -> Any:
            return (await self._connection.execute(statement, parameters)).freeze()

        if not self._looks.knows(writing=self._writing):
            return (await live())()
        compiled = statement.compile()
        key = f"{self._writing} {compiled} {sorted(compiled.params.items(), key=str)} {parameters}"
        return (await self._looks.look(key, live))()


def _is_take(statement: Any) -> bool:
    return isinstance(statement, Update) and str(statement).startswith("UPDATE machines SET attempt=")


def watch(looks: Looks, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts `looks` between the activities and everything they look at."""
    get, send, read, write = ProxmoxClient.get, KubernetesClient._send, Database.read, Database.write

    async def proxmox_get(self: ProxmoxClient, path: str, /, **params: Any) -> Any:
        return await looks.look(f"{self.account} {path} {sorted(params.items())}", lambda: get(self, path, **params))

    async def kubernetes_send(self: KubernetesClient, method: str, path: str, **options: Any) -> Any:
        if method != "GET":
            return await send(self, method, path, **options)
        return await looks.look(f"{self.server}{path}", lambda: send(self, method, path, **options))

    @asynccontextmanager
    async def reading(self: Database) -> AsyncIterator[Any]:
        async with read(self) as connection:
            yield _Watched(connection, looks, writing=False)

    @asynccontextmanager
    async def writing(self: Database) -> AsyncIterator[Any]:
        async with write(self) as opened:
            opened.connection = _Watched(opened.connection, looks, writing=True)  # type: ignore[assignment]
            yield opened

    monkeypatch.setattr(ProxmoxClient, "get", proxmox_get)
    monkeypatch.setattr(KubernetesClient, "_send", kubernetes_send)
    monkeypatch.setattr(Database, "read", reading)
    monkeypatch.setattr(Database, "write", writing)
    monkeypatch.setattr(Helm, "worker", "tests.faults.helm_looks")
