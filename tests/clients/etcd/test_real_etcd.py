"""The client against real etcd servers with mutual TLS."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from bootstrap import authorities
from clients.etcd import Alarm, EtcdClient, Member, Refused, TlsMismatch, Unreachable
from domain.clusters import Distribution
from tests.etcd_servers import LIFE, NOW, Fixed, Servers, identity, servers

NAMES = ["prod-cp-a", "prod-cp-b", "prod-cp-c"]


@pytest.fixture
async def three(tmp_path: Path) -> AsyncIterator[Servers]:
    async with servers(tmp_path, NAMES) as running:
        yield running


@pytest.fixture
async def one_of_two(tmp_path: Path) -> AsyncIterator[Servers]:
    async with servers(tmp_path, NAMES[:2], first=1) as running:
        yield running


async def raw(here: Servers, name: str, path: str, body: dict[str, object]) -> dict[str, object]:
    """A call that our client does not offer: the distribution adds members and we never do."""
    async with httpx.AsyncClient(verify=here.identity.context(), trust_env=False) as http:
        answer = await http.post(f"https://{here.addresses[name]}:2379{path}", json=body)
        answer.raise_for_status()
        return dict(answer.json())


async def add_learner(here: Servers, name: str) -> Member:
    body = {"peerURLs": [here.peer_url(name)], "isLearner": True}
    await raw(here, here.names[0], "/v3/cluster/member/add", body)
    async with here.client(here.names[0]) as client:
        (found,) = [one for one in await client.members() if one.learner]
    return found


async def ill_because(client: EtcdClient) -> str | None:
    """Why the server is not healthy, in its own words; None while it still waits for its majority."""
    try:
        health = await client.health()
    except Unreachable:
        return None
    assert not health.good
    return health.reason


async def test_every_server_tells_the_same_members_and_leader(three: Servers) -> None:
    seen = []
    for name in NAMES:
        async with three.client(name) as client:
            members = sorted(await client.members(confirmed=True), key=lambda one: one.name)
            status = await client.status()
            assert (await client.health()).good
            assert await client.alarms() == []
        assert [one.name for one in members] == NAMES
        assert {one.started for one in members} == {True}
        assert {one.learner for one in members} == {False}
        assert members[NAMES.index(name)].peer_urls == (three.peer_url(name),)
        assert members[NAMES.index(name)].client_urls == (f"https://{three.addresses[name]}:2379",)
        assert status.member_id == members[NAMES.index(name)].id
        assert status.errors == ()
        assert 0 < status.size_in_use <= status.size < status.quota
        assert status.version.startswith("3.")
        assert status.raft_term >= 2
        seen.append((status.leader, tuple(one.id for one in members)))
    assert len(set(seen)) == 1
    assert seen[0][0] in seen[0][1]


async def test_without_a_majority_the_rest_still_tells_who_belongs(three: Servers) -> None:
    for name in NAMES[1:]:
        three.kill(name)
    async with three.client(NAMES[0], timeout=1.5) as client:
        with pytest.raises((Refused, Unreachable)):  # as long as it believes in its leader it waits, in vain
            await client.members(confirmed=True)
        assert len(await client.members()) == 3
        async with asyncio.timeout(20):
            while (reason := await ill_because(client)) is None:
                pass  # each look waits by itself
        assert reason


async def test_a_dead_member_is_removed_and_the_rest_is_healthy(three: Servers) -> None:
    three.kill(NAMES[2])
    async with three.client(NAMES[0]) as client:
        (dead,) = [one for one in await client.members() if one.name == NAMES[2]]
        await client.remove_member(dead.id)
        assert [one.name for one in await client.members() if one.id == dead.id] == []
        await client.remove_member(dead.id)  # twice is the same as once
        await three.ready(*NAMES[:2])


async def test_etcd_itself_refuses_a_removal_that_costs_the_majority(three: Servers) -> None:
    three.kill(NAMES[2])
    async with three.client(NAMES[0], patience=3.0, step=0.5) as client:
        alive = next(one for one in await client.members() if one.name == NAMES[1])
        with pytest.raises(Refused) as refused:
            await client.remove_member(alive.id)
        assert len(await client.members()) == 3
    assert refused.value.status in (400, 503)


async def test_the_lead_moves_only_by_the_leader(three: Servers) -> None:
    leader = await three.leader()
    other = next(name for name in NAMES if name != leader)
    async with three.client(other) as client:
        members = {one.name: one.id for one in await client.members()}
        third = next(name for name in NAMES if name not in (leader, other))
        with pytest.raises(Refused) as refused:
            await client.move_leader(members[third])
        assert refused.value.not_the_leader
    async with three.client(leader) as client:
        await client.move_leader(members[other])
        assert (await client.status()).leader == members[other]
        await client.move_leader(members[other])  # it leads already


async def test_a_learner_is_promoted_once_it_has_caught_up(one_of_two: Servers) -> None:
    here, (first, second) = one_of_two, one_of_two.names
    learner = await add_learner(here, second)
    assert not learner.started
    async with here.client(first, patience=2.0, step=0.5) as client:
        with pytest.raises(Refused) as refused:
            await client.promote(learner.id)
        assert refused.value.passing, "a learner that never started is not in sync; it may be, later"
        # A second learner is refused while there is one: why two servers never join at once.
        with pytest.raises(httpx.HTTPStatusError) as too_many:
            await raw(
                here, first, "/v3/cluster/member/add", {"peerURLs": ["https://127.9.9.9:2380"], "isLearner": True}
            )
        assert "too many learner" in too_many.value.response.text
    here.start(second, [first, second], joining=True)
    async with here.client(first, step=0.5) as client:
        await client.promote(learner.id)
        assert {one.learner for one in await client.members()} == {False}
        await client.promote(learner.id)
    await here.ready()


async def test_a_learner_that_never_started_is_removed_at_once(one_of_two: Servers) -> None:
    learner = await add_learner(one_of_two, one_of_two.names[1])
    async with one_of_two.client(one_of_two.names[0]) as client:
        await client.remove_member(learner.id)
        assert len(await client.members()) == 1
        with pytest.raises(Refused) as refused:
            await client.promote(learner.id)
    assert refused.value.not_found


async def test_a_raised_alarm_is_told_by_alarms_status_and_health(one_of_two: Servers) -> None:
    name = one_of_two.names[0]
    async with one_of_two.client(name) as client:
        mine = (await client.status()).member_id
        await raw(one_of_two, name, "/v3/maintenance/alarm", {
            "action": "ACTIVATE", "memberID": str(int(mine, 16)), "alarm": "NOSPACE",
        })  # fmt: skip
        assert await client.alarms() == [Alarm(member_id=mine, kind="NOSPACE")]
        assert "NOSPACE" in " ".join((await client.status()).errors)
        health = await client.health()
        assert (health.good, "NOSPACE" in health.reason) == (False, True)


async def test_who_we_are_and_who_answers_is_proved(one_of_two: Servers) -> None:
    address = one_of_two.addresses[one_of_two.names[0]]
    foreign = identity(authorities.make(Fixed(9), NOW - LIFE, NOW + LIFE, Distribution.KUBEADM))
    ours = one_of_two.identity
    async with EtcdClient(address, foreign) as client:
        with pytest.raises(TlsMismatch, match="not this cluster's"):
            await client.members()
    stranger = replace(ours, certificate=foreign.certificate, key=foreign.key)
    async with EtcdClient(address, stranger) as client:
        with pytest.raises(TlsMismatch, match="refused our certificate"):
            await client.members()


async def test_an_address_without_etcd_is_unreachable(one_of_two: Servers) -> None:
    async with one_of_two.client(one_of_two.names[1]) as client:
        with pytest.raises(Unreachable):
            await client.status()
        with pytest.raises(Unreachable):
            await client.health()
