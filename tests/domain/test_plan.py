"""The planner against a world of its own: it ends, doubles nothing and keeps the order, whatever is lost on the way."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.clusters import Cluster, Cni, Distribution, Mark
from domain.jobs import JobKind
from domain.machines import Machine, Phase
from domain.plan import Plan, Step, StepKind, in_order, plan
from domain.releases import pod_network
from domain.walk import after, distance, walk
from tests.domain.builders import cluster, machines, spec

DELETED = datetime(2026, 1, 1, tzinfo=UTC)
GROUNDWORK = (Mark.AUTHORITIES, Mark.POOL, Mark.USER, Mark.TOKEN, Mark.RIGHTS, Mark.MACHINES_RESERVED)
LIVING = [phase for phase in Phase if not phase.reached(Phase.DELETING)]

shapes = st.tuples(st.sampled_from([1, 3, 5, 7]), st.lists(st.integers(0, 4), max_size=3).map(tuple))
KUBEADM = {"distribution": Distribution.KUBEADM, "version": "v1.36.3", "cni": Cni.CILIUM}
kinds_of_cluster = st.sampled_from(
    [
        {},
        KUBEADM,
        KUBEADM | {"cni": Cni.CALICO, "pod_cidrs": ("10.60.0.0/16",)},
        {"distribution": Distribution.K3S, "version": "v1.36.5+k3s1", "cni": Cni.CILIUM},
    ]
)


class World:
    """A job loop, the machines' children and reality, as far as the planner can feel them.

    `phase` is what the store says and may lag; `powered` and `ready` are what is true. A crash forgets everything that
    is in flight, never what is true.
    """

    def __init__(self, kind: JobKind, job: Cluster, having: list[Machine], choose) -> None:
        self.kind, self.cluster, self.machines, self.choose = kind, job, having, choose
        self.busy: dict[str, Step] = {}
        self.permitted: set[str] = set()
        self.powered = {one.id for one in having if one.phase.reached(Phase.STARTED)}
        self.ready = {one.id for one in having if one.phase.reached(Phase.READY)}
        self.told: list[Step] = []
        self.done = False

    def tick(self) -> None:
        answer = plan(self.kind, self.cluster, self.machines, set(self.busy))
        self.check(answer)
        if answer.finished:
            self.done = True
            return
        for step in answer.steps:
            self.told.append(step)
            self.busy[step.key] = step
            if step.kind is StepKind.POWER_ON:
                self.permitted.add(step.machine_id)
        moves = [step for step in self.busy.values() if self.can_move(step)]
        assert moves, f"stands still, waiting for {answer.waiting_for}; in flight: {list(self.busy)}"
        self.move(self.choose(moves))

    def check(self, answer: Plan) -> None:
        keys = [step.key for step in answer.steps]
        assert len(keys) == len(set(keys))
        assert not set(keys) & set(self.busy), "a step in flight was given again"
        assert answer.finished or answer.waiting_for
        assert not any(word.strip(",") in set(Mark) and "-" in word for word in answer.waiting_for.split())
        assert answer.waiting_for not in set(Mark), "what is waited for is said in words, not in names of the code"
        assert not (answer.finished and answer.steps)
        for step in answer.steps:
            assert step.name in step.summary
            if step.kind is StepKind.POWER_ON and self.cluster.spec.distribution is Distribution.KUBEADM:
                first = in_order(self.machines)[0]
                assert step.machine_id == first.id or Mark.JOINING_OPEN in self.cluster.marks, "the door is shut"
            if step.kind is StepKind.CLOSE_JOINING:
                assert all(one.phase is Phase.READY for one in self.machines), "shut before the last has joined"

    def phase(self, machine_id: str) -> Phase:
        return next(one.phase for one in self.machines if one.id == machine_id)

    def can_move(self, step: Step) -> bool:
        if step.kind is StepKind.POWER_ON:
            return False  # nothing of its own: the child moves
        if step.kind is not StepKind.CREATE_MACHINE:
            return True
        phase = self.phase(step.machine_id)
        if phase is Phase.SEEDED:
            return step.machine_id in self.permitted | self.powered
        # No node is Ready without a pod network, nor initialised before the cloud controller runs.
        needed = {Mark.CLOUD_CONTROLLER} | ({Mark.POD_NETWORK} if pod_network(self.cluster.spec) else set())
        return phase is not Phase.JOINED or needed <= set(self.cluster.marks)

    def move(self, step: Step) -> None:
        if step.kind is not StepKind.CREATE_MACHINE:
            self.cluster, self.machines = after(step, self.cluster, self.machines)
            del self.busy[step.key]
            self.done = step.kind is StepKind.FORGET_CLUSTER
            return
        following = LIVING[self.phase(step.machine_id).rank + 1]
        if following is Phase.STARTED and step.machine_id not in self.powered:
            self.powered.add(step.machine_id)
            if self.choose([False, True]):
                return  # the answer was lost: it runs, and the store does not know yet
        self.machines = [
            one.model_copy(update={"phase": following}) if one.id == step.machine_id else one for one in self.machines
        ]
        if following is Phase.STARTED:
            self.busy.pop(f"{StepKind.POWER_ON}/{step.machine_id}", None)
        if following is Phase.READY:
            self.ready.add(step.machine_id)
            del self.busy[step.key]

    def crash(self) -> None:
        self.busy.clear()
        self.permitted.clear()

    def forget(self, mark: Mark) -> None:
        self.cluster = self.cluster.model_copy(
            update={"marks": tuple(one for one in self.cluster.marks if one is not mark)}
        )

    def servers_in_hand(self) -> set[str]:
        return {one.id for one in self.machines if one.is_server and one.id in self.powered - self.ready}


@settings(max_examples=40, deadline=None)
@given(shapes, kinds_of_cluster, st.data())
def test_a_create_ends_and_keeps_its_promises_through_crashes_and_lost_marks(shape, kind, data) -> None:
    wanted = spec(*shape, **kind)
    world = World(JobKind.CREATE, cluster(wanted), [], lambda options: data.draw(st.sampled_from(options)))
    total = wanted.control_planes + wanted.workers
    mishaps = 3
    for _ in range(12 * total + 60):
        if world.done:
            break
        world.tick()
        if mishaps and not world.done and data.draw(st.integers(0, 9)) == 0:
            mishaps -= 1
            world.crash()
            if world.cluster.marks:
                world.forget(data.draw(st.sampled_from(world.cluster.marks)))
        assert len(world.servers_in_hand()) <= 1, "two servers at once"
        first = [one for one in world.machines if one.initialiser]
        assert len(first) == bool(world.machines)
        assert len(world.machines) in (0, total)
        if world.powered - {one.id for one in first}:
            assert {one.id for one in first} <= world.ready, "something started before the first server was Ready"
    assert world.done
    assert all(one.phase is Phase.READY for one in world.machines)
    assert {Mark.TAINTS, Mark.AVAILABLE, Mark.CLOUD_CONTROLLER, *GROUNDWORK} <= set(world.cluster.marks)
    assert (Mark.POD_NETWORK in world.cluster.marks) is bool(pod_network(wanted))
    assert Mark.JOINING_OPEN not in world.cluster.marks, "the join token was left behind"
    opened = [step.kind for step in world.told if step.kind is StepKind.OPEN_JOINING]
    assert bool(opened) is (wanted.distribution is Distribution.KUBEADM and total > 1)


@settings(max_examples=40, deadline=None)
@given(shapes, kinds_of_cluster, st.data())
def test_a_create_ends_from_any_mid_state(shape, kind, data) -> None:
    wanted = spec(*shape, **kind)
    having = [
        one.model_copy(update={"phase": data.draw(st.sampled_from(LIVING))})
        for one in machines(wanted)[: data.draw(st.integers(0, 40))]
    ]
    marks = tuple(data.draw(st.sets(st.sampled_from([*Mark]))))
    world = World(JobKind.CREATE, cluster(wanted, marks), having, lambda options: data.draw(st.sampled_from(options)))
    for _ in range(12 * (wanted.control_planes + wanted.workers) + 60):
        if world.done:
            break
        world.tick()
    assert world.done
    assert len(world.machines) == wanted.control_planes + wanted.workers
    assert all(one.phase is Phase.READY for one in world.machines)
    assert wanted.distribution is not Distribution.KUBEADM or Mark.JOINING_OPEN not in world.cluster.marks


@settings(max_examples=40, deadline=None)
@given(shapes, st.data())
def test_a_delete_ends_from_any_mid_state_in_its_order(shape, data) -> None:
    wanted = spec(*shape)
    having = [
        one.model_copy(update={"phase": data.draw(st.sampled_from([*Phase]))})
        for one in machines(wanted)[: data.draw(st.integers(0, 40))]
    ]
    marks = tuple(data.draw(st.sets(st.sampled_from(GROUNDWORK))))
    job = cluster(wanted, marks, deletion_requested_at=DELETED)
    world = World(JobKind.DELETE, job, having, lambda options: data.draw(st.sampled_from(options)))
    for _ in range(len(having) + 20):
        if world.done:
            break
        world.tick()
        if data.draw(st.integers(0, 9)) == 0:
            world.crash()
    assert world.done
    assert all(one.phase is Phase.GONE for one in world.machines)
    kinds = list(dict.fromkeys(step.kind for step in world.told))
    order = [
        StepKind.REVOKE_TOKEN,
        StepKind.REMOVE_MACHINE,
        StepKind.DELETE_USER,
        StepKind.REVOKE_RIGHTS,
        StepKind.DELETE_POOL,
        StepKind.FORGET_CLUSTER,
    ]
    assert kinds == [kind for kind in order if kind in kinds]
    assert set(order) - set(kinds) <= {StepKind.REMOVE_MACHINE}


def test_nothing_is_removed_before_the_token_is_revoked() -> None:
    having = machines(spec(1, (2,)), Phase.READY)
    job = cluster(spec(1, (2,)), deletion_requested_at=DELETED)
    assert [step.kind for step in plan(JobKind.DELETE, job, having).steps] == [StepKind.REVOKE_TOKEN]
    waiting = plan(JobKind.DELETE, job, having, {"revoke-token"})
    assert waiting.steps == ()
    assert not waiting.finished


def test_machines_are_removed_all_at_once() -> None:
    having = machines(spec(3, (2,)), Phase.READY)
    job = cluster(spec(3, (2,)), (Mark.TOKEN_REVOKED,), deletion_requested_at=DELETED)
    steps = plan(JobKind.DELETE, job, having).steps
    assert {step.key for step in steps} == {f"remove-machine/{one.id}" for one in having}


def test_the_groundwork_comes_first_and_side_by_side() -> None:
    steps = plan(JobKind.CREATE, cluster(spec(3, (2,))), []).steps
    assert [step.kind for step in steps] == [
        StepKind.MAKE_AUTHORITIES,
        StepKind.ENSURE_POOL,
        StepKind.ENSURE_USER,
        StepKind.RESERVE_MACHINES,
    ]


@pytest.mark.parametrize("missing", GROUNDWORK)
def test_no_machine_is_made_before_all_groundwork_is_done(missing: Mark) -> None:
    marks = tuple(mark for mark in GROUNDWORK if mark is not missing)
    steps = plan(JobKind.CREATE, cluster(spec(3), marks), machines(spec(3))).steps
    assert len(steps) == 1
    assert steps[0].kind is not StepKind.CREATE_MACHINE


def test_all_machines_are_prepared_at_once_and_only_the_first_server_starts() -> None:
    wanted = spec(3, (2,))
    having = machines(wanted, Phase.SEEDED)
    steps = plan(JobKind.CREATE, cluster(wanted, GROUNDWORK), having).steps
    assert {step.machine_id for step in steps if step.kind is StepKind.CREATE_MACHINE} == {one.id for one in having}
    assert [step.machine_id for step in steps if step.kind is StepKind.POWER_ON] == [having[0].id]
    assert having[0].initialiser


def _ready_first(marks: tuple[Mark, ...], phases: dict[int, Phase]) -> list[Step]:
    """Steps of a 3 + 2 cluster whose first server is Ready, the others Seeded except for `phases` by index."""
    wanted = spec(3, (2,))
    having = [
        one.model_copy(update={"phase": phases.get(i, Phase.READY if i == 0 else Phase.SEEDED)})
        for i, one in enumerate(machines(wanted))
    ]
    busy = {f"create-machine/{one.id}" for one in having}
    return list(plan(JobKind.CREATE, cluster(wanted, GROUNDWORK + marks), having, busy).steps)


def _powered(steps: list[Step]) -> list[str]:
    names = [one.name for one in machines(spec(3, (2,)))]
    return [f"{names.index(step.name)}" for step in steps if step.kind is StepKind.POWER_ON]


CONTROLLED = (Mark.API_ANSWERS, Mark.CLOUD_CONTROLLER)


def test_workers_start_together_beside_one_further_server() -> None:
    assert _powered(_ready_first(CONTROLLED, {})) == ["1", "3", "4"]


def test_no_further_server_starts_without_the_cloud_controller() -> None:
    assert _powered(_ready_first((Mark.API_ANSWERS,), {})) == ["3", "4"]


@pytest.mark.parametrize("phase", [Phase.STARTED, Phase.JOINED])
def test_the_next_server_waits_for_the_one_before(phase: Phase) -> None:
    assert _powered(_ready_first(CONTROLLED, {1: phase})) == ["3", "4"]


def test_a_server_waits_for_another_that_is_ahead_of_its_turn() -> None:
    assert _powered(_ready_first(CONTROLLED, {2: Phase.STARTED})) == ["3", "4"]


def test_the_initialiser_leads_whatever_its_vm_id() -> None:
    first, second, third = machines(spec(3))
    late = first.model_copy(update={"vmid": 29999})
    assert in_order([third, second, late]) == [late, second, third]


def test_the_next_server_waits_for_one_that_is_being_powered_on() -> None:
    wanted = spec(3)
    having = [
        one.model_copy(update={"phase": Phase.READY if i == 0 else Phase.SEEDED})
        for i, one in enumerate(machines(wanted))
    ]
    busy = {f"create-machine/{one.id}" for one in having} | {f"power-on/{having[1].id}"}
    assert plan(JobKind.CREATE, cluster(wanted, GROUNDWORK + CONTROLLED), having, busy).steps == ()


def test_servers_keep_their_turn_whatever_their_phase() -> None:
    # The second one may run already although the store does not know: the third must not overtake it.
    assert _powered(_ready_first(CONTROLLED, {1: Phase.CLONED, 3: Phase.READY, 4: Phase.READY})) == []


def test_the_third_server_follows_once_the_second_is_ready() -> None:
    assert _powered(_ready_first(CONTROLLED, {1: Phase.READY, 3: Phase.STARTED, 4: Phase.READY})) == ["2"]


def test_the_api_is_awaited_only_once_the_first_server_runs() -> None:
    wanted = spec(1)
    kinds = {}
    for phase in (Phase.SEEDED, Phase.STARTED):
        having = machines(wanted, phase)
        busy = {f"create-machine/{one.id}" for one in having} | {f"power-on/{one.id}" for one in having}
        kinds[phase] = [step.kind for step in plan(JobKind.CREATE, cluster(wanted, GROUNDWORK), having, busy).steps]
    assert kinds == {Phase.SEEDED: [], Phase.STARTED: [StepKind.AWAIT_API]}


def _settled(servers: Phase, workers: tuple[Phase, ...]) -> list[StepKind]:
    wanted = spec(3, (len(workers),))
    having = [
        one.model_copy(update={"phase": servers if one.is_server and not one.initialiser else Phase.READY})
        for one in in_order(machines(wanted))
    ]
    phases = iter(workers)
    having = [one if one.is_server else one.model_copy(update={"phase": next(phases)}) for one in having]
    busy = {f"{kind}/{one.id}" for kind in ("create-machine", "power-on") for one in having}
    return [step.kind for step in plan(JobKind.CREATE, cluster(wanted, GROUNDWORK + CONTROLLED), having, busy).steps]


@pytest.mark.parametrize(
    ("servers", "workers", "expected"),
    [
        (Phase.READY, (Phase.READY, Phase.JOINED), [StepKind.SET_TAINTS]),
        (Phase.READY, (Phase.JOINED, Phase.JOINED), []),
        (Phase.READY, (), [StepKind.SET_TAINTS]),
        (Phase.JOINED, (Phase.READY, Phase.READY), []),
    ],
)
def test_taints_wait_for_one_worker_and_every_server(servers, workers, expected) -> None:
    assert _settled(servers, workers) == expected


def test_available_is_awaited_last_and_then_nothing_is_left() -> None:
    wanted = spec(3, (2,))
    having = machines(wanted, Phase.READY)
    marks = (*GROUNDWORK, *CONTROLLED, Mark.TAINTS)
    assert [step.kind for step in plan(JobKind.CREATE, cluster(wanted, marks), having).steps] == [
        StepKind.AWAIT_AVAILABLE
    ]
    assert plan(JobKind.CREATE, cluster(wanted, (*marks, Mark.AVAILABLE)), having) == Plan(finished=True)


def _with_one_joining(marks: tuple[Mark, ...]) -> Plan:
    wanted = spec(1, (2,))
    having = machines(wanted, Phase.READY)
    having[-1] = having[-1].model_copy(update={"phase": Phase.JOINED})
    return plan(JobKind.CREATE, cluster(wanted, marks), having, {f"create-machine/{having[-1].id}"})


def test_available_waits_for_the_last_machine() -> None:
    answer = _with_one_joining((*GROUNDWORK, *CONTROLLED, Mark.TAINTS))
    assert answer.steps == ()
    assert "prod-md-0-" in answer.waiting_for


def test_a_mark_of_earlier_availability_finishes_nothing() -> None:
    assert not _with_one_joining(tuple(Mark)).finished


def test_a_spec_that_wants_more_is_reserved_again() -> None:
    having = machines(spec(1, (1,)), Phase.READY)
    grown = cluster(spec(1, (2,)), tuple(Mark))
    assert [step.kind for step in plan(JobKind.CREATE, grown, having).steps] == [StepKind.RESERVE_MACHINES]


def test_a_create_begins_nothing_once_the_cluster_is_to_be_deleted() -> None:
    job = cluster(spec(1), GROUNDWORK, deletion_requested_at=DELETED)
    answer = plan(JobKind.CREATE, job, machines(spec(1)))
    assert answer.steps == ()
    assert not answer.finished


def test_a_self_test_is_not_planned_here() -> None:
    with pytest.raises(ValueError, match="SelfTest"):
        plan(JobKind.SELF_TEST, cluster(spec()), [])


def test_the_walk_of_a_create_is_the_whole_way() -> None:
    names = [one.name for one in machines(spec(3, (1,)))]
    steps = [f"{step.kind} {step.name}" for step in walk(JobKind.CREATE, cluster(spec(3, (1,))), [])]
    assert steps == [
        "make-authorities prod",
        "ensure-pool prod",
        "ensure-user prod",
        "reserve-machines prod",
        "ensure-token prod",
        "grant-rights prod",
        *[f"create-machine {name}" for name in names],
        f"power-on {names[0]}",
        "await-api prod",
        "install-cloud-controller prod",
        f"power-on {names[1]}",
        f"power-on {names[3]}",
        f"power-on {names[2]}",
        "set-taints prod",
        "await-available prod",
    ]


def test_the_walk_of_a_kubeadm_create_opens_the_door_and_shuts_it() -> None:
    wanted = spec(3, (1,), **KUBEADM)
    names = [one.name for one in machines(wanted)]
    steps = [f"{step.kind} {step.name}" for step in walk(JobKind.CREATE, cluster(wanted), [])]
    assert steps[10:] == [
        f"power-on {names[0]}",
        "await-api prod",
        "install-pod-network prod",
        "install-cloud-controller prod",
        "open-joining prod",
        f"power-on {names[1]}",
        f"power-on {names[3]}",
        f"power-on {names[2]}",
        "set-taints prod",
        "close-joining prod",
        "await-available prod",
    ]


def test_a_kubeadm_cluster_of_one_machine_never_opens_the_door() -> None:
    kinds = {step.kind for step in walk(JobKind.CREATE, cluster(spec(1, **KUBEADM)), [])}
    assert not kinds & {StepKind.OPEN_JOINING, StepKind.CLOSE_JOINING}
    assert StepKind.INSTALL_POD_NETWORK in kinds


def test_pod_network_and_cloud_controller_are_installed_side_by_side() -> None:
    wanted = spec(1, **KUBEADM)
    having = machines(wanted, Phase.STARTED)
    busy = {f"create-machine/{one.id}" for one in having}
    steps = plan(JobKind.CREATE, cluster(wanted, (*GROUNDWORK, Mark.API_ANSWERS)), having, busy).steps
    assert [step.kind for step in steps] == [StepKind.INSTALL_POD_NETWORK, StepKind.INSTALL_CLOUD_CONTROLLER]


def test_the_door_opens_only_once_the_first_server_is_ready() -> None:
    wanted = spec(1, (1,), **KUBEADM)
    kinds = {}
    for phase in (Phase.JOINED, Phase.READY):
        first, other = machines(wanted, Phase.SEEDED)
        having = [first.model_copy(update={"phase": phase}), other]
        busy = {f"create-machine/{one.id}" for one in having}
        marks = (*GROUNDWORK, Mark.API_ANSWERS, Mark.POD_NETWORK, Mark.CLOUD_CONTROLLER)
        kinds[phase] = [step.kind for step in plan(JobKind.CREATE, cluster(wanted, marks), having, busy).steps]
    assert kinds == {Phase.JOINED: [], Phase.READY: [StepKind.OPEN_JOINING]}


def test_an_available_cluster_is_not_finished_while_the_door_is_open() -> None:
    wanted = spec(1, (1,), **KUBEADM)
    answer = plan(JobKind.CREATE, cluster(wanted, tuple(Mark)), machines(wanted, Phase.READY))
    assert [step.kind for step in answer.steps] == [StepKind.CLOSE_JOINING]


def test_the_walk_of_a_delete_ends_with_forgetting() -> None:
    wanted = spec(1, (1,))
    job = cluster(wanted, GROUNDWORK, deletion_requested_at=DELETED)
    kinds = [step.kind for step in walk(JobKind.DELETE, job, machines(wanted, Phase.READY))]
    assert kinds == [
        StepKind.REVOKE_TOKEN,
        StepKind.REMOVE_MACHINE,
        StepKind.REMOVE_MACHINE,
        StepKind.DELETE_USER,
        StepKind.REVOKE_RIGHTS,
        StepKind.DELETE_POOL,
        StepKind.FORGET_CLUSTER,
    ]


def test_the_walk_of_a_finished_cluster_is_empty() -> None:
    marks = tuple(mark for mark in Mark if mark is not Mark.JOINING_OPEN)
    for kind in ({}, KUBEADM):
        assert walk(JobKind.CREATE, cluster(spec(1, **kind), marks), machines(spec(1), Phase.READY)) == []


def test_the_distance_of_a_create_grows_with_each_step_to_the_whole() -> None:
    for kind in ({}, KUBEADM):
        job, having = cluster(spec(1, (1,), **kind)), []
        ahead = walk(JobKind.CREATE, job, having)
        said = [distance(JobKind.CREATE, job, having)]
        for step in ahead:
            job, having = after(step, job, having)
            if step.kind is StepKind.AWAIT_AVAILABLE:
                having = [machine.model_copy(update={"phase": Phase.READY}) for machine in having]
            said.append(distance(JobKind.CREATE, job, having))
        assert {total for _, total in said} == {len(ahead)}
        done = [done for done, _ in said]
        assert (done[0], done[-1]) == (0, len(ahead))
        assert done == sorted(done)


def test_the_distance_of_a_delete_counts_what_is_gone() -> None:
    wanted = spec(1, (1,))
    job = cluster(wanted, (*GROUNDWORK, Mark.TOKEN_REVOKED), deletion_requested_at=DELETED)
    one, other = machines(wanted, Phase.READY)
    assert distance(JobKind.DELETE, job, [one, other]) == (1, 7)
    assert distance(JobKind.DELETE, job, [one, other.model_copy(update={"phase": Phase.GONE})]) == (2, 7)


@pytest.mark.parametrize("shape", [(1, ()), (3, (3,)), (7, (100, 3))])
def test_a_walk_takes_each_step_once(shape) -> None:
    for kind in ({}, KUBEADM):
        keys = [step.key for step in walk(JobKind.CREATE, cluster(spec(*shape, **kind)), [])]
        assert len(keys) == len(set(keys))
