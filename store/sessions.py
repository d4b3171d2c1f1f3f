"""Sessions of people. A session's Proxmox VE ticket lies in the secret box, scope `session/<id>`.

The id is not what the cookie carries: it is `session_id(cookie)`, a hash, so that whoever reads the database cannot
act as the people who are signed in.
"""

import hashlib
from datetime import datetime

from sqlalchemy import delete, insert, select, update

from domain.frozen import Payload
from store import tables
from store.database import Database
from store.errors import NotFound

_t = tables.sessions


class Session(Payload):
    """`site_id` is the site whose realm signed the person in; None with `local` for a local administrator."""

    id: str
    site_id: str | None = None
    user: str
    csrf: str
    created_at: datetime
    seen_at: datetime
    expires_at: datetime
    local: bool = False


def session_id(cookie: str) -> str:
    """The id of the session that a cookie's value (at least 128 random bits) stands for."""
    return hashlib.sha256(cookie.encode()).hexdigest()


class Sessions:
    """Repository of sessions."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, session: Session) -> Session:
        """Keeps a new session."""
        async with self._database.write() as writing:
            await writing.connection.execute(insert(_t).values(**session.model_dump()))
        return session

    async def get(self, id: str) -> Session:
        """A session that has not expired. Raises NotFound."""
        query = select(_t).where(_t.c.id == id, _t.c.expires_at > self._database.now())
        async with self._database.read() as connection:
            row = (await connection.execute(query)).one_or_none()
        if row is None:
            raise NotFound("session", id[:8])
        return Session.model_validate(dict(row._mapping))

    async def renew(self, id: str, expires_at: datetime) -> Session:
        """Marks the session as seen now and moves its end. Raises NotFound, also when it has expired."""
        async with self._database.write() as writing:
            renewed = await writing.connection.execute(
                update(_t)
                .where(_t.c.id == id, _t.c.expires_at > writing.now)
                .values(seen_at=writing.now, expires_at=expires_at)
                .returning(*_t.c)
            )
            row = renewed.one_or_none()
            if row is None:
                raise NotFound("session", id[:8])
            return Session.model_validate(dict(row._mapping))

    async def delete(self, id: str) -> None:
        """Ends a session, its ticket included; does nothing when there is none."""
        async with self._database.write() as writing:
            await writing.connection.execute(delete(_t).where(_t.c.id == id))
            await writing.connection.execute(delete(tables.secrets).where(tables.secrets.c.scope == f"session/{id}"))

    async def expire(self) -> int:
        """Removes every session whose end has come, with its ticket, and returns how many those were."""
        async with self._database.write() as writing:
            ended = await writing.connection.execute(
                delete(_t).where(_t.c.expires_at <= writing.now).returning(_t.c.id)
            )
            scopes = [f"session/{id}" for id in ended.scalars()]
            if scopes:
                await writing.connection.execute(delete(tables.secrets).where(tables.secrets.c.scope.in_(scopes)))
            return len(scopes)
