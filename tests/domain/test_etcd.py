"""etcd's health and what may be done to its members: worked cases, and every shape of one to seven members."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.conditions import ConditionType, Reason
from domain.etcd import (
    EtcdAlarm,
    EtcdMember,
    EtcdSource,
    EtcdView,
    all_vote,
    etcd_condition,
    health,
    may_add_server,
    may_remove_server,
    member_of,
    successor,
)
from domain.machines import Machine, Phase, Role
from domain.sizes import bytes_text
from tests.domain.builders import machine

MIB = 1024**2


def servers(count: int, phase: Phase = Phase.READY) -> list[Machine]:
    return [machine(f"cp-{i}", address=f"192.0.2.{51 + i}", phase=phase) for i in range(1, count + 1)]


def member(number: int, **changes) -> EtcdMember:
    fields = {"id": f"{number:x}", "name": f"cp-{number}", "healthy": True}
    return EtcdMember(**(fields | {"peer_urls": (f"https://192.0.2.{51 + number}:2380",)} | changes))


def view(*members: EtcdMember, **changes) -> EtcdView:
    fields = {"members": members, "leader": members[0].id if members else "", "size": 24 * MIB, "quota": 2048 * MIB}
    return EtcdView(**(fields | changes))


def test_three_good_members_in_one_sentence() -> None:
    seen = view(member(1), member(2), member(3))
    found = health(seen, servers(3))
    assert (found.voters, found.healthy, found.majority, found.tolerance) == (3, 3, 2, 1)
    told = etcd_condition(seen, servers(3))
    assert (told.type, told.status, told.reason) == (ConditionType.ETCD_HEALTHY, True, Reason.READY)
    assert told.message == "3 of 3 members healthy, leader cp-1, 24 MiB of 2 GiB used"


@pytest.mark.parametrize(
    ("seen", "machines", "reason", "words"),
    [
        (view(), servers(3), Reason.ETCD_UNREACHABLE, "was not seen"),
        (
            view(member(1), member(2, healthy=False, trouble="no route"), member(3)),
            servers(3),
            Reason.ETCD_DEGRADED,
            "cp-2 does not work: no route",
        ),
        (
            view(member(1), member(2, healthy=False), member(3, healthy=False), leader=""),
            servers(3),
            Reason.ETCD_NO_MAJORITY,
            "1 of 3 members healthy, 24 MiB of 2 GiB used; cp-2",
        ),
        (view(member(1), member(9)), servers(1), Reason.ETCD_DEGRADED, "cp-9 belongs to no machine"),
        (
            view(member(1), member(9, name="", learner=True, healthy=None, peer_urls=())),
            servers(1),
            Reason.ETCD_DEGRADED,
            "9 (never started) belongs to no machine",
        ),
        (view(member(1)), servers(2), Reason.ETCD_DEGRADED, "cp-2 is Ready and not a member"),
        (view(member(1), member(2, learner=True)), servers(2), Reason.ETCD_DEGRADED, "cp-2 does not vote yet"),
        (
            view(member(1), alarms=(EtcdAlarm(member_id="1", kind="NOSPACE"),)),
            servers(1),
            Reason.ETCD_DEGRADED,
            "alarm NOSPACE on cp-1",
        ),
        (view(member(1), member(2), disagreeing=("cp-2",)), servers(2), Reason.ETCD_DEGRADED, "cp-2 sees other"),
        (view(member(1), leader=""), servers(1), Reason.ETCD_DEGRADED, "no leader"),
    ],
)
def test_every_trouble_is_named_and_stops_a_further_server(seen, machines, reason, words) -> None:
    told = etcd_condition(seen, machines)
    assert told.reason is reason
    assert told.status is (None if reason is Reason.ETCD_UNREACHABLE else False)
    assert words in told.message
    verdict = may_add_server(seen, machines)
    assert not verdict.allowed
    assert verdict.reason


def test_a_server_on_its_way_is_no_trouble_and_lets_no_other_in() -> None:
    machines = [*servers(1), machine("cp-2", phase=Phase.JOINED), machine("cp-3", phase=Phase.SEEDED)]
    seen = view(member(1), member(2, learner=True))
    assert etcd_condition(seen, machines).status is True
    assert may_add_server(seen, machines, machines[2]).reason == "cp-2 is still joining etcd"


@pytest.mark.parametrize("learner", [True, False])
def test_what_a_server_left_behind_before_a_crash_does_not_stop_its_own_power_on(learner: bool) -> None:
    machines = [*servers(1), machine("cp-2", address="192.0.2.53", phase=Phase.SEEDED)]
    seen = view(member(1, healthy=learner), member(2, name="", learner=learner, healthy=None), leader="1")
    assert member_of(seen, machines[1]) == seen.members[1]
    assert may_add_server(seen, machines, machines[1]).allowed
    assert not may_add_server(seen, [*machines, machine("cp-3", phase=Phase.SEEDED)], machine("cp-3")).allowed


def test_workers_and_gone_machines_are_passed_over() -> None:
    others = [machine("md-1", role=Role.WORKER, phase=Phase.READY), machine("cp-0", phase=Phase.GONE)]
    assert health(view(member(1)), [*servers(1), *others]).troubles == ()


def test_available_waits_for_votes_and_not_for_strangers() -> None:
    assert all_vote(view(member(1), member(9)), servers(1)).allowed
    assert all_vote(view(member(1), member(2, learner=True)), servers(2)).reason == "cp-2 does not vote in etcd yet"
    assert "not a member" in all_vote(view(member(1)), servers(2)).reason
    assert "does not work: silent" in all_vote(view(member(1, healthy=False, trouble="silent")), servers(1)).reason


@pytest.mark.parametrize(
    ("alive", "target_alive", "allowed"),
    [
        # voters that work / that do not, and whether the target is one that works
        ((3, 0), True, True),
        ((2, 1), False, True),
        ((2, 1), True, False),
        ((1, 2), False, False),
        ((1, 0), True, False),
        ((2, 0), True, True),
        ((1, 1), False, False),
        ((4, 1), True, True),
        ((3, 2), False, True),
        ((3, 2), True, False),
    ],
)
@pytest.mark.parametrize("source", [*EtcdSource])
def test_removals_by_count(alive, target_alive, allowed, source) -> None:
    good, bad = alive
    members = [member(i, healthy=i <= good) for i in range(1, good + bad + 1)]
    target = members[0] if target_alive else members[-1]
    verdict = may_remove_server(view(*members, source=source), target.id)
    assert verdict.allowed is allowed
    assert bool(verdict.reason) is not allowed


def test_the_annotation_of_k3s_and_rke2_needs_two_that_work() -> None:
    # The rule's own edge: from two to one, and from three to one by way of two.
    two = view(member(1), member(2), source=EtcdSource.NODES)
    assert may_remove_server(two, "1").allowed
    assert not may_remove_server(view(member(1), source=EtcdSource.NODES), "1").allowed


def test_a_learner_goes_first_and_only_with_a_majority() -> None:
    members = [member(1), member(2), member(3, name="", learner=True, healthy=None)]
    assert may_remove_server(view(*members), "3").allowed
    assert "still joining" in may_remove_server(view(*members), "2").reason
    ill = [member(1), member(2, healthy=False), members[2]]
    assert "no majority" in may_remove_server(view(*ill), "3").reason


def test_nothing_unknown_is_removed() -> None:
    assert may_remove_server(view(), "1").reason == "etcd was not seen"
    assert "no member 7" in may_remove_server(view(member(1), member(2)), "7").reason


def test_the_lead_goes_to_another_healthy_voter() -> None:
    members = (member(1), member(2, healthy=False), member(3, learner=True), member(4))
    assert successor(view(*members), "1") == "4"
    assert successor(view(*members), "4") == ""
    assert successor(view(*members[:3]), "1") == ""


def test_a_breathing_database_is_not_written_again() -> None:
    before = view(member(1))
    assert before.model_copy(update={"size": 30 * MIB, "size_in_use": 5}).calm(before) == before
    grown = before.model_copy(update={"size": 60 * MIB})
    assert grown.calm(before) == grown
    assert grown.calm(None) == grown


def test_sizes_are_said_in_whole_units() -> None:
    assert [bytes_text(n) for n in (20 * 1024, 24 * MIB - 5, 2048 * MIB, 1500 * MIB)] == [
        "20 KiB",
        "24 MiB",
        "2 GiB",
        "1500 MiB",
    ]


class Reality:
    """An etcd of 1 to 7 members on machines, and our two acts on it, each only where the verdict allows it."""

    def __init__(self, states: list[bool | None], source: EtcdSource) -> None:
        self.source = source
        self.members = [
            member(i, healthy=bool(state), learner=state is None) for i, state in enumerate(states, start=1)
        ]

    def view(self) -> EtcdView:
        return view(*self.members, source=self.source)

    def machines(self) -> list[Machine]:
        return [machine(one.name, phase=Phase.READY) for one in self.members]

    def works(self) -> bool:
        found = health(self.view(), self.machines())
        return found.tolerance >= 0


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from([True, True, True, False, None]), min_size=1, max_size=7).filter(
        lambda states: states.count(None) <= 1 and any(state is not None for state in states)
    ),
    st.sampled_from([*EtcdSource]),
    st.data(),
)
def test_our_own_acts_never_cost_the_majority(states, source, data) -> None:
    reality = Reality(states, source)
    for number in range(100, 100 + data.draw(st.integers(1, 8))):
        worked = reality.works()
        if data.draw(st.booleans()):
            if not may_add_server(reality.view(), reality.machines()).allowed:
                continue
            # A further server is a learner first and votes once it is in sync; at worst it dies right then.
            reality.members.append(member(number, learner=True))
            assert reality.works()
            reality.members[-1] = member(number, healthy=len(reality.members) == 2 or data.draw(st.booleans()))
        else:
            target = data.draw(st.sampled_from(reality.members))
            if not may_remove_server(reality.view(), target.id).allowed:
                continue
            reality.members.remove(target)
        assert worked, "an act was allowed without a majority"
        assert reality.works(), "an act of ours cost the majority"


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 7), st.integers(1, 7))
def test_from_any_number_to_any_other_by_steps_that_are_allowed(begin: int, end: int) -> None:
    """The rules are not so strict that healthy clusters stand still (3 to 1 and 1 to 2 to 1 among them)."""
    reality = Reality([True] * begin, EtcdSource.NODES)
    number = 100
    while len(reality.members) != end:
        if len(reality.members) < end:
            assert may_add_server(reality.view(), reality.machines()).allowed
            number += 1
            reality.members.append(member(number))
        else:
            target = reality.members[0]
            assert may_remove_server(reality.view(), target.id).allowed
            reality.members.remove(target)
