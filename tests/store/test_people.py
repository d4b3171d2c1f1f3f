"""Sessions, local users, idempotency keys and the audit."""

import asyncio
from datetime import timedelta

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from store import Conflict, InProgress, NotFound, Session, Store, StoredAnswer, scrypt_hash, session_id
from store.database import make_engine
from tests.store.conftest import Clock


def session(clock: Clock, cookie: str = "cookie", minutes: int = 60) -> Session:
    return Session(
        id=session_id(cookie),
        site_id="site-lab",
        user="ada@pve",
        csrf="csrf",
        created_at=clock.now,
        seen_at=clock.now,
        expires_at=clock.now + timedelta(minutes=minutes),
    )


async def test_a_session_lives_until_its_end(store: Store, clock: Clock) -> None:
    made = await store.sessions.create(session(clock))
    assert await store.sessions.get(made.id) == made
    clock.forward(minutes=59)
    renewed = await store.sessions.renew(made.id, clock.now + timedelta(minutes=60))
    assert renewed.seen_at == clock.now
    clock.forward(minutes=59)
    assert await store.sessions.get(made.id) == renewed
    clock.forward(minutes=1)
    with pytest.raises(NotFound):
        await store.sessions.get(made.id)
    with pytest.raises(NotFound):
        await store.sessions.renew(made.id, clock.now + timedelta(minutes=60))


async def test_the_ticket_goes_with_its_session(store: Store, clock: Clock) -> None:
    first = await store.sessions.create(session(clock, "one", minutes=1))
    second = await store.sessions.create(session(clock, "two"))
    for made in (first, second):
        await store.secrets.put(f"session/{made.id}", "ticket", b"t")
    clock.forward(minutes=2)
    assert await store.sessions.expire() == 1
    assert await store.sessions.expire() == 0
    assert not await store.secrets.has(f"session/{first.id}", "ticket")
    assert await store.secrets.has(f"session/{second.id}", "ticket")
    await store.sessions.delete(second.id)
    await store.sessions.delete(second.id)
    assert not await store.secrets.has(f"session/{second.id}", "ticket")
    with pytest.raises(NotFound):
        await store.sessions.get(second.id)


async def test_local_users(store: Store) -> None:
    assert not await store.local_users.check("admin", "right")
    await store.local_users.put_local_user("admin", scrypt_hash("right"))
    assert await store.local_users.check("admin", "right")
    assert not await store.local_users.check("admin", "wrong")
    await store.local_users.put_local_user("admin", scrypt_hash("other"))
    assert not await store.local_users.check("admin", "right")
    assert await store.local_users.names() == ["admin"]


async def test_a_request_that_is_sent_twice_is_answered_once(store: Store, another: Store, clock: Clock) -> None:
    stores = [store, another]
    asked = await asyncio.gather(
        *(stores[n % 2].idempotency.remember("k", "ada", "h") for n in range(10)), return_exceptions=True
    )
    assert asked.count(None) == 1
    assert len([answer for answer in asked if isinstance(answer, InProgress)]) == 9
    await store.idempotency.complete("k", "ada", 201, '{"id": 1}')
    assert await store.idempotency.remember("k", "ada", "h") == StoredAnswer(status=201, body='{"id": 1}')
    with pytest.raises(Conflict, match="another request"):
        await store.idempotency.remember("k", "ada", "other")
    assert await store.idempotency.remember("k", "bob", "other") is None
    clock.forward(hours=24)
    assert await store.idempotency.remember("k", "ada", "other") is None


async def test_a_request_without_an_answer_is_taken_up(store: Store, clock: Clock) -> None:
    assert await store.idempotency.remember("k", "ada", "h") is None
    clock.forward(seconds=59)
    with pytest.raises(InProgress):
        await store.idempotency.remember("k", "ada", "h")
    clock.forward(seconds=1)
    assert await store.idempotency.remember("k", "ada", "h") is None
    with pytest.raises(InProgress):
        await store.idempotency.remember("k", "ada", "h")
    await store.idempotency.drop("k", "ada")
    assert await store.idempotency.remember("k", "ada", "h") is None
    await store.idempotency.complete("k", "ada", 200, "")
    await store.idempotency.drop("k", "ada")
    assert await store.idempotency.remember("k", "ada", "h") == StoredAnswer(status=200, body="")


async def test_the_audit_only_grows(store: Store, url: str, clock: Clock) -> None:
    for n in range(3):
        clock.forward(seconds=1)
        await store.audit.record(f"p{n % 2}", "platform", "cluster.create", f"c{n}", "accepted", {"n": n}, "192.0.2.9")
    entries, total = await store.audit.page(limit=2)
    assert ([entry.object for entry in entries], total) == (["c2", "c1"], 3)
    assert (entries[0].at, entries[0].detail, entries[0].source) == (clock.now, {"n": 2}, "192.0.2.9")
    assert (await store.audit.page(actor="p0"))[1] == 2
    assert (await store.audit.page(object="c1", action="cluster.create"))[1] == 1
    engine = make_engine(url)
    for statement in ("UPDATE audit SET actor = 'x'", "DELETE FROM audit"):
        with pytest.raises(DBAPIError, match="append-only"):
            async with engine.begin() as connection:
                await connection.execute(text(statement))
    await engine.dispose()
    assert (await store.audit.page())[1] == 3
