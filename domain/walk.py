"""The whole way of a job, seen ahead: the planner played against effects that all succeed.

Preview, diff and preflight show what the running job will do because it is the same planner that answers.
"""

from collections.abc import Sequence

from domain.clusters import Cluster, Mark
from domain.jobs import JobKind
from domain.machines import Machine, MachineDraft, Phase, drafts, identities
from domain.plan import Step, StepKind, plan
from domain.releases import pod_network

_MARKS: dict[StepKind, Mark] = {
    StepKind.MAKE_AUTHORITIES: Mark.AUTHORITIES,
    StepKind.ENSURE_POOL: Mark.POOL,
    StepKind.ENSURE_USER: Mark.USER,
    StepKind.ENSURE_TOKEN: Mark.TOKEN,
    StepKind.GRANT_RIGHTS: Mark.RIGHTS,
    StepKind.RESERVE_MACHINES: Mark.MACHINES_RESERVED,
    StepKind.AWAIT_API: Mark.API_ANSWERS,
    StepKind.INSTALL_POD_NETWORK: Mark.POD_NETWORK,
    StepKind.INSTALL_CLOUD_CONTROLLER: Mark.CLOUD_CONTROLLER,
    StepKind.OPEN_JOINING: Mark.JOINING_OPEN,
    StepKind.SET_TAINTS: Mark.TAINTS,
    StepKind.AWAIT_AVAILABLE: Mark.AVAILABLE,
    StepKind.REVOKE_TOKEN: Mark.TOKEN_REVOKED,
    StepKind.DELETE_USER: Mark.USER_DELETED,
    StepKind.REVOKE_RIGHTS: Mark.RIGHTS_REVOKED,
    StepKind.DELETE_POOL: Mark.POOL_DELETED,
}
"""What each cluster-wide step leaves behind."""

_PHASES: dict[StepKind, Phase] = {
    StepKind.CREATE_MACHINE: Phase.SEEDED,
    StepKind.POWER_ON: Phase.STARTED,
    StepKind.REMOVE_MACHINE: Phase.GONE,
}
"""How far each machine step brings its machine, when everything goes well."""


def walk(kind: JobKind, cluster: Cluster, machines: Sequence[Machine]) -> list[Step]:
    """Every step that the job would take from here to its end, in an order in which it may take them.

    Machines that are still to be reserved appear with the identities that the reservation will give them; their VM ids
    are stand-ins that keep the order of the reservation, and their addresses are empty. Raises RuntimeError when the
    plan does not come to an end, which is a mistake in the planner.
    """
    steps: list[Step] = []
    busy: set[str] = set()
    # Each round takes at least one step, and no step is taken twice for the same machine or mark.
    for _ in range(4 * (len(machines) + cluster.spec.control_planes + cluster.spec.workers) + len(StepKind)):
        machines = _joined(cluster, machines)
        answer = plan(kind, cluster, machines, busy)
        if answer.finished:
            return steps
        if not answer.steps:
            break
        for step in answer.steps:
            steps.append(step)
            if step.kind is StepKind.FORGET_CLUSTER:
                return steps
            cluster, machines = after(step, cluster, machines)
            if step.kind is StepKind.CREATE_MACHINE:
                busy.add(step.key)
    raise RuntimeError(f"the plan of {kind} for {cluster.name} does not end: {answer.waiting_for}")


_DELETION = frozenset({Mark.TOKEN_REVOKED, Mark.USER_DELETED, Mark.RIGHTS_REVOKED, Mark.POOL_DELETED})


def distance(kind: JobKind, cluster: Cluster, machines: Sequence[Machine]) -> tuple[int, int]:
    """How many steps of the job's plan are done, and how many it has from its beginning to its end.

    `machines` are all machines of the cluster, gone ones too: what was removed counts as done. Raises what `walk`
    raises.
    """
    living = [machine for machine in machines if machine.phase is not Phase.GONE]
    left = len(walk(kind, cluster, living))
    if kind is JobKind.DELETE:
        marks = tuple(mark for mark in cluster.marks if mark not in _DELETION)
        standing = [machine.model_copy(update={"phase": Phase.RESERVED}) for machine in machines]
        whole = len(walk(kind, cluster.model_copy(update={"marks": marks}), standing))
    else:
        whole = len(walk(kind, cluster.model_copy(update={"marks": ()}), ()))
    return max(0, whole - left), max(whole, left)


def after(step: Step, cluster: Cluster, machines: Sequence[Machine]) -> tuple[Cluster, list[Machine]]:
    """Cluster and machines as they are once a step has succeeded. A machine never goes back by it."""
    machines = list(machines)
    if step.kind is StepKind.RESERVE_MACHINES:
        last = max((machine.vmid for machine in machines), default=0)
        machines += [
            Machine(**draft.model_dump(), cluster_id=cluster.id, vmid=last + 1 + i, address="")
            for i, draft in enumerate(_missing(cluster, machines))
        ]
    if step.kind is StepKind.CLOSE_JOINING:
        left = tuple(mark for mark in cluster.marks if mark is not Mark.JOINING_OPEN)
        return cluster.model_copy(update={"marks": left}), machines
    if step.kind in _MARKS:
        return _marked(cluster, _MARKS[step.kind]), machines
    reached = _PHASES.get(step.kind, Phase.RESERVED)
    return cluster, [
        machine.model_copy(update={"phase": reached})
        if machine.id == step.machine_id and not machine.phase.reached(reached)
        else machine
        for machine in machines
    ]


def _joined(cluster: Cluster, machines: Sequence[Machine]) -> list[Machine]:
    """Started machines become Ready by themselves, though none before it has a pod network and is initialised."""
    ready = Mark.CLOUD_CONTROLLER in cluster.marks and (
        Mark.POD_NETWORK in cluster.marks or not pod_network(cluster.spec)
    )
    return [
        machine.model_copy(update={"phase": Phase.READY})
        if ready and machine.phase.reached(Phase.STARTED) and not machine.phase.reached(Phase.READY)
        else machine
        for machine in machines
    ]


def _missing(cluster: Cluster, machines: Sequence[Machine]) -> list[MachineDraft]:
    return drafts(cluster.spec, cluster.id, machines, identities(cluster.id, len(machines)))


def _marked(cluster: Cluster, mark: Mark) -> Cluster:
    if mark in cluster.marks:
        return cluster
    return cluster.model_copy(update={"marks": (*cluster.marks, mark)})
