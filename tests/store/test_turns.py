"""Turns: one holder at a time, taken over only from one that stands still."""

import asyncio

from store import Store


async def test_of_many_who_want_a_free_turn_one_gets_it(store: Store) -> None:
    got = await asyncio.gather(*(store.turns.take("release/a", f"worker-{n}", None) for n in range(8)))
    assert sum(got) == 1
    assert await store.turns.take("release/b", "worker-9", None)


async def test_a_holder_that_lives_keeps_its_turn(store: Store) -> None:
    await store.turns.take("release/a", "first", None)
    seen = await store.turns.find("release/a")
    assert seen is not None
    assert seen.holder == "first"
    assert await store.turns.beat("release/a", "first")
    assert not await store.turns.take("release/a", "second", seen)
    assert (await store.turns.find("release/a")) != seen


async def test_of_many_who_take_it_over_one_gets_it_and_the_old_holder_learns_it(store: Store) -> None:
    await store.turns.take("release/a", "first", None)
    seen = await store.turns.find("release/a")
    got = await asyncio.gather(*(store.turns.take("release/a", f"worker-{n}", seen) for n in range(8)))
    assert sum(got) == 1
    assert not await store.turns.beat("release/a", "first")
    await store.turns.leave("release/a", "first")
    found = await store.turns.find("release/a")
    assert found is not None
    assert found.holder == f"worker-{got.index(True)}"


async def test_a_turn_that_was_given_back_is_free(store: Store) -> None:
    await store.turns.take("release/a", "first", None)
    await store.turns.leave("release/a", "first")
    assert await store.turns.find("release/a") is None
    assert await store.turns.take("release/a", "second", None)
