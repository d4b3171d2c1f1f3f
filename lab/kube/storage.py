"""The double's etcd: objects by collection, one revision counter, a bounded history for watches."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from lab.kube.objects import Key, Obj, key_of, meta

HISTORY = 4000
"""Changes that are kept for watches; an older start is answered with 410."""


@dataclass(frozen=True)
class Change:
    """One change of a collection. `previous` is None for a new object; `obj` is the last state of a deleted one."""

    revision: int
    storage: str
    type: str
    obj: Obj
    previous: Obj | None


class Compacted(Exception):
    """The history that was asked for is no longer kept."""

    def __init__(self, oldest: int) -> None:
        super().__init__(f"compacted up to {oldest}")
        self.oldest = oldest


class ObjectStore:
    """Objects are never changed in place: who reads one may keep it, who writes one gives it away.

    With a `journal` file every change is appended to it, so that a process that was killed finds its objects again.
    """

    def __init__(self, journal: Path | None = None) -> None:
        self.revision = 1
        self.compacted = 1
        self._objects: dict[str, dict[Key, Obj]] = {}
        self._history: deque[Change] = deque()
        self._changed: asyncio.Event = asyncio.Event()
        self._listeners: list[Callable[[Change], None]] = []
        self._journal_path = journal
        self._journal: IO[str] | None = None

    # reading

    def get(self, storage: str, key: Key) -> Obj | None:
        return self._objects.get(storage, {}).get(key)

    def rows(self, storage: str, namespace: str = "") -> list[Obj]:
        """Objects in the order of their keys; of one namespace, or of all when it is empty."""
        found = self._objects.get(storage, {})
        return [found[key] for key in sorted(found) if not namespace or key[0] == namespace]

    def rows_at(self, storage: str, namespace: str, revision: int) -> list[Obj]:
        """Like `rows`, as they were at a past revision. Raises Compacted when the history does not reach back."""
        if revision < self.compacted:
            raise Compacted(self.compacted)
        found = dict(self._objects.get(storage, {}))
        for item in reversed(self._history):
            if item.revision <= revision:
                break
            if item.storage == storage and item.previous is None:
                found.pop(key_of(item.obj), None)
            elif item.storage == storage and item.previous is not None:
                found[key_of(item.obj)] = item.previous
        return [found[key] for key in sorted(found) if not namespace or key[0] == namespace]

    def collections(self) -> Iterable[str]:
        return list(self._objects)

    # writing

    def put(self, storage: str, obj: Obj) -> Obj:
        """Stores the object under its own name with the next revision, and returns it."""
        key = key_of(obj)
        previous = self.get(storage, key)
        self.revision += 1
        meta(obj)["resourceVersion"] = str(self.revision)
        self._objects.setdefault(storage, {})[key] = obj
        self._note(Change(self.revision, storage, "MODIFIED" if previous else "ADDED", obj, previous))
        return obj

    def remove(self, storage: str, key: Key) -> Obj | None:
        """Takes the object out; returns its last state with the revision of the removal."""
        previous = self._objects.get(storage, {}).pop(key, None)
        if previous is None:
            return None
        self.revision += 1
        last = {**previous, "metadata": {**meta(previous), "resourceVersion": str(self.revision)}}
        self._note(Change(self.revision, storage, "DELETED", last, previous))
        return last

    def _note(self, change: Change) -> None:
        self._history.append(change)
        while len(self._history) > HISTORY:
            self.compacted = self._history.popleft().revision
        self._write(change)
        for listener in list(self._listeners):
            listener(change)
        self._changed.set()
        self._changed = asyncio.Event()

    def compact(self) -> None:
        """Forgets the history up to now: watches from an older revision get 410."""
        self._history.clear()
        self.compacted = self.revision

    # watching

    def listen(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Calls `listener` for every change from now on; returns the function that ends it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def watch(self, storage: str, since: int, stop: asyncio.Event) -> AsyncIterator[Change | None]:
        """Changes of a collection after revision `since`, until `stop` is set; None after each pause (idle).

        Raises Compacted when the history does not reach back to `since`.
        """
        if since < self.compacted:
            raise Compacted(self.compacted)
        at = since
        while True:
            changed = self._changed
            if at < self.revision:
                if at < self.compacted:
                    raise Compacted(self.compacted)
                fresh = self._newer(at)
                at = self.revision
                for item in fresh:
                    if item.storage == storage:
                        yield item
                continue
            if stop.is_set():
                return
            waits = [asyncio.ensure_future(changed.wait()), asyncio.ensure_future(stop.wait())]
            try:
                done, _ = await asyncio.wait(waits, timeout=5, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
            if not done:
                yield None

    def _newer(self, revision: int) -> list[Change]:
        found: list[Change] = []
        for item in reversed(self._history):
            if item.revision <= revision:
                break
            found.append(item)
        return found[::-1]

    # the journal on disk

    def load(self) -> bool:
        """Reads the journal, shortens it and goes on writing to it. True when it held anything."""
        if self._journal_path is None:
            return False
        found = False
        if self._journal_path.exists():
            for line in self._journal_path.read_text().splitlines():
                try:
                    record = json.loads(line)
                except ValueError:
                    break  # the last line of a killed process
                found = True
                self.revision = max(self.revision, record["r"])
                if record.get("o") is None:
                    self._objects.get(record["s"], {}).pop(tuple(record["k"]), None)
                else:
                    self._objects.setdefault(record["s"], {})[key_of(record["o"])] = record["o"]
        self.compacted = self.revision
        fresh = self._journal_path.with_suffix(".new")
        with fresh.open("w") as out:
            out.write(json.dumps({"r": self.revision, "s": "", "k": ["", ""]}) + "\n")
            for storage, objects in self._objects.items():
                for obj in objects.values():
                    out.write(json.dumps({"r": self.revision, "s": storage, "o": obj}) + "\n")
        fresh.replace(self._journal_path)
        self._journal = self._journal_path.open("a")
        return found

    def _write(self, change: Change) -> None:
        if self._journal is None or (change.storage.endswith("/leases") and change.type == "MODIFIED"):
            return  # a lease's renewals are worth nothing after a restart
        if change.type == "DELETED":
            record = {"r": change.revision, "s": change.storage, "k": list(key_of(change.obj))}
        else:
            record = {"r": change.revision, "s": change.storage, "o": change.obj}
        self._journal.write(json.dumps(record) + "\n")
        self._journal.flush()

    def close(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def destroy(self) -> None:
        """Closes and deletes the journal: the cluster's last disk is gone."""
        self.close()
        if self._journal_path is not None:
            self._journal_path.unlink(missing_ok=True)
