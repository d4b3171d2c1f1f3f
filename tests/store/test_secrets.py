"""The secret box and its keys."""

import asyncio
import base64
import os
from pathlib import Path

import pytest
from sqlalchemy import text

from store import KeyUnusable, NotFound, SecretKey, SecretUnreadable, Store, open_store, scrypt_hash, session_id
from store.database import make_engine
from tests.store.conftest import Clock
from tests.store.postgres import PostgresServer

VALUE = b"only-for-the-box-7f3a"


async def test_put_get_delete(store: Store) -> None:
    await store.secrets.put("cluster/1", "token", VALUE)
    assert await store.secrets.get("cluster/1", "token") == VALUE
    await store.secrets.put("cluster/1", "token", b"")
    assert await store.secrets.get("cluster/1", "token") == b""
    await store.secrets.put("cluster/1", "authorities", VALUE)
    await store.secrets.put("cluster/10", "token", VALUE)
    assert await store.secrets.names("cluster/1") == ["authorities", "token"]
    await store.secrets.delete("cluster/1", "token")
    assert not await store.secrets.has("cluster/1", "token")
    with pytest.raises(NotFound):
        await store.secrets.get("cluster/1", "token")
    await store.secrets.delete_scope("cluster/1")
    assert await store.secrets.names("cluster/1") == []
    assert await store.secrets.has("cluster/10", "token")
    with pytest.raises(ValueError, match="no place"):
        await store.secrets.put("cluster/1", "a/b", VALUE)


async def test_of_two_makers_both_go_on_with_the_first(store: Store, another: Store) -> None:
    made = await asyncio.gather(
        *(where.secrets.put_new("cluster/1", "authorities", bytes([n])) for n, where in enumerate((store, another) * 5))
    )
    assert len(set(made)) == 1
    assert await store.secrets.get("cluster/1", "authorities") == made[0]


async def test_no_value_is_readable_in_the_database(
    url: str, store: Store, backend: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    password, cookie = "correct-horse-9b1c", "cookie-value-51aa"
    await store.secrets.put("site/1", "token", VALUE)
    await store.local_users.put_local_user("admin", scrypt_hash(password))
    await store.secrets.put(f"session/{session_id(cookie)}", "ticket", VALUE)
    engine = make_engine(url)
    async with engine.connect() as connection:
        if backend == "postgresql":
            await connection.execute(text("CHECKPOINT"))
    await engine.dispose()
    folder = tmp_path
    if backend == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        folder = server.folder / "data"
    stored = b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())
    assert b"trilithon" in stored or backend == "sqlite"
    assert b"admin" in stored
    for value in (VALUE, password.encode(), cookie.encode(), base64.b64encode(VALUE)):
        assert value not in stored


async def test_a_row_opens_only_in_its_place(url: str, store: Store) -> None:
    await store.secrets.put("cluster/1", "token", VALUE)
    await store.secrets.put("cluster/2", "token", b"other")
    engine = make_engine(url)
    async with engine.begin() as connection:
        await connection.execute(
            text(
                "UPDATE secrets SET nonce = (SELECT nonce FROM secrets WHERE scope = 'cluster/1'), "
                "sealed = (SELECT sealed FROM secrets WHERE scope = 'cluster/1') WHERE scope = 'cluster/2'"
            )
        )
        nonces = (await connection.execute(text("SELECT nonce FROM secrets"))).scalars().all()
        assert {len(nonce) for nonce in nonces} == {12}
    await engine.dispose()
    with pytest.raises(SecretUnreadable, match="cluster/2/token"):
        await store.secrets.get("cluster/2", "token")


async def test_a_key_is_changed_by_a_new_first_line(url: str, tmp_path: Path, clock: Clock) -> None:
    old_file, new_file = tmp_path / "old.key", tmp_path / "new.key"
    old = open_store(url, SecretKey.create(old_file), clock=clock)
    await old.secrets.put("cluster/1", "token", VALUE)
    await old.close()

    stranger = open_store(url, SecretKey.create(new_file), clock=clock)
    with pytest.raises(SecretUnreadable, match="does not hold"):
        await stranger.secrets.get("cluster/1", "token")
    with pytest.raises(SecretUnreadable):
        await stranger.secrets.reseal()
    await stranger.close()

    only_new = new_file.read_bytes()
    new_file.write_bytes(only_new + b"# the old one\n\n" + old_file.read_bytes())
    both = open_store(url, SecretKey.load(new_file), clock=clock)
    assert await both.secrets.get("cluster/1", "token") == VALUE
    assert await both.secrets.reseal() == 1
    assert await both.secrets.reseal() == 0
    await both.close()

    new_file.write_bytes(only_new)
    new = open_store(url, SecretKey.load(new_file), clock=clock)
    assert await new.secrets.get("cluster/1", "token") == VALUE
    await new.close()


def test_a_key_file_is_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "key"
    made = SecretKey.create(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert SecretKey.load(path).active == made.active
    with pytest.raises(KeyUnusable, match="cannot be made"):
        SecretKey.create(path)
    path.chmod(0o640)
    with pytest.raises(KeyUnusable, match="chmod 600"):
        SecretKey.load(path)


def test_keys_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyUnusable, match="cannot be read"):
        SecretKey.load(tmp_path / "none")
    path = tmp_path / "key"
    for content, complaint in (
        (b"", "holds no key"),
        (b"# nothing\n", "holds no key"),
        (b"# a\nc2hvcnQ=\n", "line 2"),
        (b"!!\n", "line 1"),
    ):
        path.write_bytes(content)
        path.chmod(0o600)
        with pytest.raises(KeyUnusable, match=complaint):
            SecretKey.load(path)
    monkeypatch.delenv("TRILITHON_KEY", raising=False)
    with pytest.raises(KeyUnusable, match="TRILITHON_KEY is not set"):
        SecretKey.load()


def test_keys_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = os.urandom(32), os.urandom(32)
    monkeypatch.setenv("TRILITHON_KEY", f"{base64.b64encode(first).decode()},{base64.b64encode(second).decode()}")
    keys = SecretKey.load()
    assert keys.key(keys.active) == first
    assert "readable=2" in repr(keys)
    assert base64.b64encode(first).decode() not in repr(keys)
