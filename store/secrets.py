"""The secret box: every secret value that we keep, sealed with AES-256-GCM.

A row holds the id of the key that sealed it, a nonce of its own and the sealed value; scope and name are authenticated
with it, so that a row copied to another place does not open. Scopes: `cluster/<id>`, `site/<id>`, `session/<id>`.
"""

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from store import tables
from store.database import Database, Writing
from store.errors import NotFound, SecretUnreadable
from store.keys import SecretKey

_t = tables.secrets
NONCE_BYTES = 12


class Secrets:
    """Repository of secrets. Values are bytes and never appear in errors."""

    def __init__(self, database: Database, key: SecretKey) -> None:
        self._database = database
        self._key = key

    async def put(self, scope: str, name: str, value: bytes) -> None:
        """Keeps a secret, in place of an earlier one of this scope and name."""
        place = _place(scope, name)
        async with self._database.write() as writing:
            await self._write(writing, scope, name, self._seal(place, value))

    async def put_new(self, scope: str, name: str, value: bytes) -> bytes:
        """Keeps a secret only where there is none yet, and returns the one that is kept.

        For what is made once (a cluster's authorities): of two attempts that each made one, both go on with the first.
        """
        sealed = self._seal(_place(scope, name), value)
        try:
            async with self._database.write() as writing:
                await writing.connection.execute(
                    insert(_t).values(scope=scope, name=name, updated_at=writing.now, **sealed)
                )
        except IntegrityError:
            return await self.get(scope, name)
        return value

    async def get(self, scope: str, name: str) -> bytes:
        """The value. Raises NotFound, and SecretUnreadable (its key is not ours, or the row was altered)."""
        query = select(_t).where(_t.c.scope == scope, _t.c.name == name)
        async with self._database.read() as connection:
            row = (await connection.execute(query)).one_or_none()
        if row is None:
            raise NotFound("secret", f"{scope}/{name}")
        return self._open(_place(scope, name), row.key_id, row.nonce, row.sealed)

    async def has(self, scope: str, name: str) -> bool:
        """True when there is a value, readable or not."""
        query = select(_t.c.name).where(_t.c.scope == scope, _t.c.name == name)
        async with self._database.read() as connection:
            return (await connection.execute(query)).one_or_none() is not None

    async def delete(self, scope: str, name: str) -> None:
        """Forgets one secret; does nothing when there is none."""
        async with self._database.write() as writing:
            await writing.connection.execute(delete(_t).where(_t.c.scope == scope, _t.c.name == name))

    async def delete_scope(self, scope: str) -> None:
        """Forgets every secret of a scope."""
        async with self._database.write() as writing:
            await writing.connection.execute(delete(_t).where(_t.c.scope == scope))

    async def names(self, scope: str) -> list[str]:
        """The names in a scope, sorted."""
        query = select(_t.c.name).where(_t.c.scope == scope).order_by(_t.c.name)
        async with self._database.read() as connection:
            return list((await connection.execute(query)).scalars())

    async def reseal(self) -> int:
        """Seals everything with the active key and returns how many rows that were. Raises SecretUnreadable.

        One transaction: afterwards the older keys may leave the key file.
        """
        async with self._database.write() as writing:
            rows = await writing.connection.execute(select(_t).where(_t.c.key_id != self._key.active).with_for_update())
            old = rows.all()
            for row in old:
                place = _place(row.scope, row.name)
                value = self._open(place, row.key_id, row.nonce, row.sealed)
                await self._write(writing, row.scope, row.name, self._seal(place, value))
            return len(old)

    async def _write(self, writing: Writing, scope: str, name: str, sealed: dict[str, object]) -> None:
        values = {**sealed, "updated_at": writing.now}
        replaced = await writing.connection.execute(
            update(_t).where(_t.c.scope == scope, _t.c.name == name).values(**values).returning(_t.c.name)
        )
        if replaced.one_or_none() is None:
            await writing.connection.execute(insert(_t).values(scope=scope, name=name, **values))

    def _seal(self, place: bytes, value: bytes) -> dict[str, object]:
        key = self._key.key(self._key.active)
        if key is None:
            raise SecretUnreadable("the active key is not among the keys")
        nonce = os.urandom(NONCE_BYTES)
        return {"key_id": self._key.active, "nonce": nonce, "sealed": AESGCM(key).encrypt(nonce, value, place)}

    def _open(self, place: bytes, key_id: str, nonce: bytes, sealed: bytes) -> bytes:
        key = self._key.key(key_id)
        if key is None:
            raise SecretUnreadable(
                f"secret {place.decode()} was sealed with key {key_id}, which the key file does not hold"
            )
        try:
            return AESGCM(key).decrypt(nonce, sealed, place)
        except InvalidTag:
            raise SecretUnreadable(f"secret {place.decode()} does not open: its row was altered") from None


def _place(scope: str, name: str) -> bytes:
    """What is authenticated beside the value. A slash in a name would make two places look the same."""
    if not scope or not name or "/" in name:
        raise ValueError(f"no place for a secret: scope {scope!r}, name {name!r}")
    return f"{scope}/{name}".encode()
