"""Idempotency keys: the answer to a request that is sent twice is the first one's answer.

Answers that hold a secret must not be kept here.
"""

from datetime import timedelta

from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from domain.frozen import Payload
from store import tables
from store.database import Database
from store.errors import Conflict, InProgress

_t = tables.idempotency

KEPT = timedelta(hours=24)
"""A key may be used for another request after this time."""
ABANDONED = timedelta(seconds=60)
"""A request that has no answer after this time died with its process; the next one with its key goes on."""


class StoredAnswer(Payload):
    """What the first request with this key was answered: HTTP status and body."""

    status: int
    body: str


class Idempotency:
    """Repository of idempotency keys. `owner` keeps the keys of different people apart."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def remember(self, key: str, owner: str, request_hash: str) -> StoredAnswer | None:
        """The stored answer, or None: then the caller answers and calls `complete` (or `drop` when it fails).

        Raises InProgress while the first request is being answered, and Conflict when the key came with another
        request.
        """
        try:
            async with self._database.write() as writing:
                await writing.connection.execute(delete(_t).where(_t.c.at <= writing.now - KEPT))
                mine = (_t.c.owner == owner, _t.c.key == key)
                row = (await writing.connection.execute(select(_t).where(*mine).with_for_update())).one_or_none()
                if row is None:
                    await writing.connection.execute(
                        insert(_t).values(owner=owner, key=key, request_hash=request_hash, at=writing.now)
                    )
                    return None
                if row.request_hash != request_hash:
                    raise Conflict("this idempotency key was used for another request; use a new one")
                if row.status is not None:
                    return StoredAnswer(status=row.status, body=row.body)
                if row.at > writing.now - ABANDONED:
                    raise InProgress("the same request is being answered right now; try again in a moment")
                await writing.connection.execute(update(_t).where(*mine).values(at=writing.now))
                return None
        except IntegrityError:
            raise InProgress("the same request is being answered right now; try again in a moment") from None

    async def complete(self, key: str, owner: str, status: int, body: str) -> None:
        """Keeps the answer for the next request with this key."""
        async with self._database.write() as writing:
            await writing.connection.execute(
                update(_t).where(_t.c.owner == owner, _t.c.key == key).values(status=status, body=body)
            )

    async def drop(self, key: str, owner: str) -> None:
        """Forgets a key whose request failed before anything was done, so that it can be sent again at once."""
        async with self._database.write() as writing:
            await writing.connection.execute(
                delete(_t).where(_t.c.owner == owner, _t.c.key == key, _t.c.status.is_(None))
            )
