"""Local administrators, for the first sign-in and for the day on which Proxmox VE is away."""

import asyncio
import base64
import hashlib
import hmac
import secrets

from sqlalchemy import insert, select, update

from store import tables
from store.database import Database

_t = tables.local_users

COST, BLOCK, PARALLEL = 2**15, 8, 1
"""scrypt's N, r, p: 32 MiB and some 60 ms a check (OWASP's list has the same row)."""
_MEMORY = 2 * 128 * COST * BLOCK


def scrypt_hash(password: str, salt: bytes | None = None) -> str:
    """A password's hash with its salt and parameters: `scrypt$N$r$p$salt$hash`. Takes some 60 ms of CPU."""
    salt = secrets.token_bytes(16) if salt is None else salt
    return _format(COST, BLOCK, PARALLEL, salt, _derive(password, salt, COST, BLOCK, PARALLEL))


def _derive(password: str, salt: bytes, cost: int, block: int, parallel: int) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=cost, r=block, p=parallel, maxmem=_MEMORY, dklen=32)


def _format(cost: int, block: int, parallel: int, salt: bytes, derived: bytes) -> str:
    return f"scrypt${cost}${block}${parallel}${base64.b64encode(salt).decode()}${base64.b64encode(derived).decode()}"


def _matches(password: str, stored: str) -> bool:
    _, cost, block, parallel, salt, derived = stored.split("$")
    found = _derive(password, base64.b64decode(salt), int(cost), int(block), int(parallel))
    return hmac.compare_digest(found, base64.b64decode(derived))


_NOBODY = _format(COST, BLOCK, PARALLEL, b"\0" * 16, b"\0" * 32)
"""Checked where a user does not exist, so that the answer takes as long and names cannot be tried out."""


class LocalUsers:
    """Repository of local users."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put_local_user(self, name: str, scrypt_hash: str) -> None:
        """Keeps a local user, or gives one another password. Hash the password with `store.scrypt_hash`."""
        async with self._database.write() as writing:
            values = {"scrypt_hash": scrypt_hash, "updated_at": writing.now}
            replaced = await writing.connection.execute(
                update(_t).where(_t.c.name == name).values(**values).returning(_t.c.name)
            )
            if replaced.one_or_none() is None:
                await writing.connection.execute(insert(_t).values(name=name, **values))

    async def check(self, name: str, password: str) -> bool:
        """True when the user exists and the password is theirs. Runs in a thread, so that nobody else waits."""
        async with self._database.read() as connection:
            stored = (await connection.execute(select(_t.c.scrypt_hash).where(_t.c.name == name))).scalar_one_or_none()
        matches = await asyncio.to_thread(_matches, password, stored or _NOBODY)
        return matches and stored is not None

    async def names(self) -> list[str]:
        """Every local user, sorted."""
        async with self._database.read() as connection:
            return list((await connection.execute(select(_t.c.name).order_by(_t.c.name))).scalars())
