"""No further server is powered on unless this job has seen that etcd bears it."""

import pytest

from domain.clusters import Mark
from domain.etcd import EtcdMember, EtcdView
from domain.jobs import JobKind
from domain.machines import Machine, Phase
from domain.plan import Plan, StepKind, etcd_refusal, plan
from tests.domain.builders import cluster, machines, spec

DONE = (
    Mark.AUTHORITIES,
    Mark.POOL,
    Mark.USER,
    Mark.TOKEN,
    Mark.RIGHTS,
    Mark.MACHINES_RESERVED,
    Mark.API_ANSWERS,
    Mark.CLOUD_CONTROLLER,
)
WANTED = spec(3, (1,))


def at(*phases: Phase) -> list[Machine]:
    return [one.model_copy(update={"phase": phase}) for one, phase in zip(machines(WANTED), phases, strict=True)]


HALF = at(Phase.READY, Phase.SEEDED, Phase.SEEDED, Phase.SEEDED)
ALL = at(Phase.READY, Phase.READY, Phase.READY, Phase.READY)


def seen(of: list[Machine], *ill: int, **changes) -> EtcdView:
    """A view of etcd in which every Ready server votes; `ill` are the numbers of those that do not work."""
    ready = [one for one in of if one.is_server and one.phase is Phase.READY]
    members = tuple(
        EtcdMember(id=one.id, name=one.name, healthy=i not in ill, trouble="silent" if i in ill else "")
        for i, one in enumerate(ready)
    )
    fields = {"members": members, "leader": members[0].id, "servers": tuple(one.id for one in ready)}
    return EtcdView(**(fields | changes))


def told(of: list[Machine], etcd: EtcdView | None, *marks: Mark, busy: tuple[str, ...] = ()) -> Plan:
    children = {f"create-machine/{one.id}" for one in of}
    return plan(JobKind.CREATE, cluster(WANTED, (*DONE, *marks)), of, children | set(busy), etcd)


def powered(answer: Plan) -> list[str]:
    return [step.machine_id for step in answer.steps if step.kind is StepKind.POWER_ON]


def looks(answer: Plan) -> bool:
    return any(step.kind is StepKind.LOOK_AT_ETCD for step in answer.steps)


def test_before_its_first_look_the_job_looks_and_only_workers_start() -> None:
    answer = told(HALF, EtcdView())
    assert (looks(answer), powered(answer)) == (True, [HALF[3].id])


def test_an_etcd_that_is_whole_lets_the_next_server_in() -> None:
    answer = told(HALF, seen(HALF))
    assert (looks(answer), powered(answer)) == (False, [HALF[1].id, HALF[3].id])


def test_where_nobody_looks_nothing_is_refused() -> None:
    answer = told(HALF, None)
    assert (looks(answer), powered(answer)) == (False, [HALF[1].id, HALF[3].id])


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"members": ()}, "etcd was not seen"),
        ({"disagreeing": (HALF[0].name,)}, "sees other members"),
        ({"members": (*seen(HALF).members, EtcdMember(id="77", learner=True))}, "77 (never started) belongs to no"),
    ],
)
def test_the_server_waits_and_the_plan_says_why(changes, why) -> None:
    answer = told(HALF, seen(HALF, **changes))
    assert (looks(answer), powered(answer)) == (True, [HALF[3].id])
    assert why in answer.waiting_for
    again = told(HALF, seen(HALF, **changes), busy=("look-at-etcd", f"power-on/{HALF[3].id}"))
    assert again.steps == ()
    assert why in again.waiting_for


def test_an_ill_member_holds_the_third_server_back() -> None:
    two = at(Phase.READY, Phase.READY, Phase.SEEDED, Phase.READY)
    answer = told(two, seen(two, 1))
    assert (looks(answer), powered(answer)) == (True, [])
    assert answer.waiting_for == f"{two[1].name} does not work: silent"
    assert powered(told(two, seen(two))) == [two[2].id]


def test_a_look_from_before_the_last_server_joined_is_too_old() -> None:
    two = at(Phase.READY, Phase.READY, Phase.SEEDED, Phase.READY)
    assert looks(told(two, seen(HALF)))


def test_the_first_server_and_clusters_of_one_need_no_look() -> None:
    none = at(Phase.SEEDED, Phase.SEEDED, Phase.SEEDED, Phase.SEEDED)
    answer = told(none, EtcdView())
    assert (looks(answer), powered(answer)) == (False, [none[0].id])


def test_no_look_before_the_next_server_is_prepared() -> None:
    early = at(Phase.READY, Phase.CLONED, Phase.SEEDED, Phase.SEEDED)
    assert not looks(told(early, EtcdView()))


def test_a_server_that_ran_before_a_crash_is_let_in_again() -> None:
    """Its phase lags: it is Seeded here and a learner there. Waiting for it to vote would wait for ever."""
    learner = EtcdMember(id="2", name=HALF[1].name, learner=True)
    answer = told(HALF, seen(HALF, members=(*seen(HALF).members, learner)))
    assert HALF[1].id in powered(answer)


def test_available_comes_after_a_look_at_all_of_them() -> None:
    old = told(ALL, seen(HALF), Mark.TAINTS)
    assert [step.kind for step in old.steps] == [StepKind.LOOK_AT_ETCD]
    ill = told(ALL, seen(ALL, 2), Mark.TAINTS)
    assert [step.kind for step in ill.steps] == [StepKind.LOOK_AT_ETCD]
    whole = told(ALL, seen(ALL), Mark.TAINTS)
    assert [step.kind for step in whole.steps] == [StepKind.AWAIT_AVAILABLE]


def test_at_the_end_an_etcd_that_nobody_can_ask_holds_nothing_back() -> None:
    silent = EtcdView(silent="port 2379 is shut", servers=seen(ALL).servers)
    assert etcd_refusal(silent, ALL) == ""
    assert "port 2379 is shut" in etcd_refusal(silent, HALF)
    assert [step.kind for step in told(ALL, silent, Mark.TAINTS).steps] == [StepKind.AWAIT_AVAILABLE]


def test_an_available_cluster_is_not_looked_at_by_its_job() -> None:
    assert told(ALL, EtcdView(), Mark.TAINTS, Mark.AVAILABLE).finished
