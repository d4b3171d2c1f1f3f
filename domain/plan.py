"""The planner: from what is wanted and what exists to what is done next.

One pure function answers the preview, the dry-run diff, the preflight and the running job. See `plan`.
"""

from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum

from domain.clusters import Cluster, Distribution, Mark
from domain.etcd import EtcdView, all_vote, may_add_server
from domain.frozen import Frozen, Payload
from domain.jobs import JobKind
from domain.machines import Machine, Phase, short_of
from domain.releases import pod_network


class StepKind(StrEnum):
    """Steps that a cluster job can take. Each is one activity or one child workflow."""

    MAKE_AUTHORITIES = "make-authorities"
    RESERVE_MACHINES = "reserve-machines"
    ENSURE_POOL = "ensure-pool"
    ENSURE_USER = "ensure-user"
    ENSURE_TOKEN = "ensure-token"  # noqa: S105
    GRANT_RIGHTS = "grant-rights"
    CREATE_MACHINE = "create-machine"
    POWER_ON = "power-on"
    AWAIT_API = "await-api"
    INSTALL_POD_NETWORK = "install-pod-network"
    INSTALL_CLOUD_CONTROLLER = "install-cloud-controller"
    OPEN_JOINING = "open-joining"
    CLOSE_JOINING = "close-joining"
    LOOK_AT_ETCD = "look-at-etcd"
    SET_TAINTS = "set-taints"
    AWAIT_AVAILABLE = "await-available"
    REVOKE_TOKEN = "revoke-token"  # noqa: S105
    REMOVE_MACHINE = "remove-machine"
    DELETE_USER = "delete-user"
    REVOKE_RIGHTS = "revoke-rights"
    DELETE_POOL = "delete-pool"
    FORGET_CLUSTER = "forget-cluster"


class Step(Payload):
    """One thing to do now; `key` is unique within a job."""

    kind: StepKind
    machine_id: str = ""
    name: str = ""
    summary: str = ""

    @property
    def key(self) -> str:
        return f"{self.kind}/{self.machine_id}" if self.machine_id else str(self.kind)


class Plan(Frozen):
    """What to do now. `steps` may be started together; each is in flight until the caller drops it from `busy`.

    `finished` means that nothing is left to do. Otherwise `waiting_for` says what the plan waits for, for people.
    """

    steps: tuple[Step, ...] = ()
    finished: bool = False
    waiting_for: str = ""


def plan(
    kind: JobKind,
    cluster: Cluster,
    machines: Sequence[Machine],
    busy: Collection[str] = (),
    etcd: EtcdView | None = None,
) -> Plan:
    """The next steps of a cluster's job.

    `machines` are the cluster's machines as the store has them (gone ones may be left out). `busy` holds the keys of
    the steps in flight; none of them is given again. What the caller keeps in `busy`:

    * `create-machine/<id>` from its start until the machine is Ready: the child first prepares (up to Seeded), then
      waits for its turn, then starts and joins.
    * `power-on/<id>` from being ordered until the machine's phase is Started.
    * every other step until its activity or child has ended.

    `etcd` is what this job has seen of etcd, an empty view before its first look: no further server is powered on
    unless it allows it (docs/decisions/021-etcd-before-servers.md). None means that nobody looks at all, as in a
    preview: then etcd refuses nothing.

    Raises ValueError for a kind of job that has no cluster to plan for.
    """
    if kind is JobKind.CREATE:
        return _create(cluster, machines, frozenset(busy), etcd)
    if kind is JobKind.DELETE:
        return _delete(cluster, machines, frozenset(busy))
    raise ValueError(f"{kind} is not a job on a cluster")


def in_order(machines: Iterable[Machine]) -> list[Machine]:
    """Servers before workers, the initialiser first: the order in which servers join.

    The order must not depend on phases. A phase may lag behind reality, so after a crash the server that was already
    powered on is known only by being first in line again; any other order could start a second one beside it.
    """
    return sorted(machines, key=lambda m: (not m.is_server, not m.initialiser, m.vmid, m.name))


# What must exist before the machines (F-016), with what each needs to exist itself.
_GROUNDWORK: tuple[tuple[Mark, StepKind, tuple[Mark, ...], str], ...] = (
    (Mark.AUTHORITIES, StepKind.MAKE_AUTHORITIES, (), "make its certificate authorities and join tokens"),
    (Mark.POOL, StepKind.ENSURE_POOL, (), "make its Proxmox VE pool"),
    (Mark.USER, StepKind.ENSURE_USER, (), "make its Proxmox VE user"),
    (Mark.TOKEN, StepKind.ENSURE_TOKEN, (Mark.USER,), "make its API token"),
    (Mark.RIGHTS, StepKind.GRANT_RIGHTS, (Mark.POOL, Mark.USER, Mark.TOKEN), "grant its rights on pool and storage"),
    (Mark.MACHINES_RESERVED, StepKind.RESERVE_MACHINES, (), "reserve VM ids, addresses and names of its machines"),
)


def etcd_refusal(etcd: EtcdView, machines: Iterable[Machine]) -> str:
    """Why a create must wait for etcd now; empty when etcd bears its next step.

    While a server is still to join, every present one must be a healthy voter and nobody else may be there. When all
    have joined, all must vote; there an etcd that could not be asked at all holds nothing back, since nothing is done
    to it any more and its condition says so.
    """
    living = in_order(machine for machine in machines if not machine.leaving)
    joining = [machine for machine in living if machine.is_server and not machine.phase.reached(Phase.READY)]
    if joining:
        return may_add_server(etcd, living, joining[0]).reason
    return all_vote(etcd, living).reason if etcd.members else ""


def _looked_at(etcd: EtcdView, machines: Iterable[Machine]) -> bool:
    """True when the view is of these very servers: one that became Ready since makes it an old one."""
    return set(etcd.servers) == {
        machine.id for machine in machines if machine.is_server and machine.phase is Phase.READY
    }


def _create(cluster: Cluster, machines: Sequence[Machine], busy: frozenset[str], etcd: EtcdView | None) -> Plan:
    if cluster.deleting:
        # The job loop ends this job at its next safe point; until then nothing new is begun.
        return Plan(waiting_for="its deletion")
    marks = set(cluster.marks)
    if short_of(cluster.spec, machines):
        # The spec asks for more than is reserved: the mark is of an earlier spec.
        marks.discard(Mark.MACHINES_RESERVED)
    missing = [work for work in _GROUNDWORK if work[0] not in marks]
    if missing:
        return _answer(
            [
                _cluster_step(kind, cluster, what)
                for _, kind, needs, what in missing
                if all(need in marks for need in needs)
            ],
            busy,
            f"the groundwork: {', '.join(what for *_, what in missing)}",
        )
    living = in_order(machine for machine in machines if not machine.leaving)
    unready = [machine for machine in living if not machine.phase.reached(Phase.READY)]
    steps = [_machine_step(StepKind.CREATE_MACHINE, machine, "create the machine") for machine in unready]
    due = [
        machine
        for machine in _turns(living, marks, busy)
        if machine.phase is Phase.SEEDED and _may_join(cluster, machine, living, marks)
    ]
    if any(machine.is_server and machine is not living[0] for machine in due):
        refusal, look = _etcd_allows(cluster, living, etcd)
        if look:
            due = [machine for machine in due if not machine.is_server]
            steps += look
    else:
        refusal = ""
    steps += [_machine_step(StepKind.POWER_ON, machine, "power on") for machine in due]
    steps += _cluster_effects(cluster, living, marks, etcd)
    steps += _joining(cluster, living, marks)
    if not steps and Mark.AVAILABLE in marks:
        return Plan(finished=True)
    return _answer(steps, busy, refusal or _awaited(cluster, unready, marks))


def _etcd_allows(cluster: Cluster, living: Sequence[Machine], etcd: EtcdView | None) -> tuple[str, list[Step]]:
    """Why etcd holds the job back, and the look that must come first; no step when it holds nothing back."""
    if etcd is None:
        return "", []
    seen = _looked_at(etcd, living)
    refusal = etcd_refusal(etcd, living) if seen else ""
    if seen and not refusal:
        return "", []
    return refusal, [_cluster_step(StepKind.LOOK_AT_ETCD, cluster, "look whether etcd is whole")]


def _may_join(cluster: Cluster, machine: Machine, living: Sequence[Machine], marks: Collection[Mark]) -> bool:
    """False while a machine that joins by kubeadm's token would find no door: the token's Secret is not there yet."""
    return not _by_token(cluster) or machine is living[0] or Mark.JOINING_OPEN in marks


def _joining(cluster: Cluster, living: Sequence[Machine], marks: Collection[Mark]) -> list[Step]:
    """Opens the door just before the first machine that needs it is powered on, and shuts it behind the last."""
    if not _by_token(cluster) or not living:
        return []
    if Mark.JOINING_OPEN in marks:
        if all(machine.phase.reached(Phase.READY) for machine in living):
            return [_cluster_step(StepKind.CLOSE_JOINING, cluster, "take the join token away")]
        return []
    others = [machine for machine in living[1:] if not machine.phase.reached(Phase.READY)]
    if Mark.API_ANSWERS in marks and living[0].phase.reached(Phase.READY) and others:
        return [_cluster_step(StepKind.OPEN_JOINING, cluster, "let machines join by its token")]
    return []


def _by_token(cluster: Cluster) -> bool:
    """kubeadm's bootstrap token is valid only while its Secret stands; the other two keep theirs."""
    return cluster.spec.distribution is Distribution.KUBEADM


def _turns(living: Sequence[Machine], marks: Collection[Mark], busy: frozenset[str]) -> list[Machine]:
    """The machines whose turn it is to be powered on, once they are prepared.

    The first server alone; then one server at a time, each only after the one before is Ready and the cloud
    controller runs (without it no node gets initialised); workers all at once beside them.
    """
    if not living:
        return []
    first = living[0]
    if not first.phase.reached(Phase.READY):
        return [first]
    turns = [machine for machine in living if not machine.is_server]
    joining = [machine for machine in living if machine.is_server and not machine.phase.reached(Phase.READY)]
    in_hand = [m for m in joining if m.phase.reached(Phase.STARTED) or _key(StepKind.POWER_ON, m) in busy]
    if joining and not in_hand and Mark.CLOUD_CONTROLLER in marks:
        turns.insert(0, joining[0])
    return turns


_INSTALLED: dict[Mark, tuple[StepKind, str]] = {
    Mark.POD_NETWORK: (StepKind.INSTALL_POD_NETWORK, "install its pod network"),
    Mark.CLOUD_CONTROLLER: (StepKind.INSTALL_CLOUD_CONTROLLER, "install the cloud controller manager"),
}


def _add_ons(cluster: Cluster) -> tuple[Mark, ...]:
    """What we install in it; the pod network only where the distribution does not bring the chosen one."""
    return (*((Mark.POD_NETWORK,) if pod_network(cluster.spec) else ()), Mark.CLOUD_CONTROLLER)


def _cluster_effects(
    cluster: Cluster, living: Sequence[Machine], marks: Collection[Mark], etcd: EtcdView | None
) -> list[Step]:
    """What is done inside the cluster, as far as its machines have come.

    The taint is set when every server and one worker are Ready, not at the first worker alone: it is set on the nodes
    that exist, and a server that joined later would go without.
    """
    servers = [machine for machine in living if machine.is_server]
    workers = [machine for machine in living if not machine.is_server]
    servers_ready = bool(servers) and all(machine.phase.reached(Phase.READY) for machine in servers)
    a_worker_ready = not workers or any(machine.phase.reached(Phase.READY) for machine in workers)
    all_ready = all(machine.phase.reached(Phase.READY) for machine in living)
    steps = []
    if Mark.API_ANSWERS not in marks:
        if servers and servers[0].phase.reached(Phase.STARTED):
            steps.append(_cluster_step(StepKind.AWAIT_API, cluster, f"wait for the API server of {servers[0].name}"))
    elif missing := [mark for mark in _add_ons(cluster) if mark not in marks]:
        # Side by side: neither needs the other, and no node is Ready without both.
        steps += [_cluster_step(_INSTALLED[mark][0], cluster, _INSTALLED[mark][1]) for mark in missing]
    elif Mark.TAINTS not in marks:
        if servers_ready and a_worker_ready:
            what = "keep workloads off its servers" if workers else "let workloads run on its servers"
            steps.append(_cluster_step(StepKind.SET_TAINTS, cluster, what))
    elif Mark.AVAILABLE not in marks and all_ready and servers:
        what = f"wait until it is available at {cluster.spec.endpoint}"
        _, look = _etcd_allows(cluster, living, etcd)
        steps += look or [_cluster_step(StepKind.AWAIT_AVAILABLE, cluster, what)]
    return steps


def _awaited(cluster: Cluster, unready: Sequence[Machine], marks: Collection[Mark]) -> str:
    if unready:
        names = ", ".join(machine.name for machine in unready[:3])
        more = f" and {len(unready) - 3} more" if len(unready) > 3 else ""
        return f"{names}{more} to become Ready"
    wanted = (Mark.API_ANSWERS, *_add_ons(cluster), Mark.TAINTS, Mark.AVAILABLE)
    return next((_AWAITED[mark] for mark in wanted if mark not in marks), "the join token to be taken away")


_AWAITED = {
    Mark.API_ANSWERS: "the API server to answer",
    Mark.POD_NETWORK: "the pod network to be installed",
    Mark.CLOUD_CONTROLLER: "the cloud controller to be installed",
    Mark.TAINTS: "the servers' taints to be set",
    Mark.AVAILABLE: "the cluster to be Available",
}


# After the machines, one by one: the pool carries the ACLs, and our own rights on it, so it goes last
# (facts/proxmox-addons.md: a cloud controller that outlives its rights deletes nodes; its token went first of all).
_CLEARANCE: tuple[tuple[Mark, StepKind, str], ...] = (
    (Mark.USER_DELETED, StepKind.DELETE_USER, "delete its Proxmox VE user"),
    (Mark.RIGHTS_REVOKED, StepKind.REVOKE_RIGHTS, "revoke its rights"),
    (Mark.POOL_DELETED, StepKind.DELETE_POOL, "delete its Proxmox VE pool"),
)


def _delete(cluster: Cluster, machines: Sequence[Machine], busy: frozenset[str]) -> Plan:
    if Mark.TOKEN_REVOKED not in cluster.marks:
        step = _cluster_step(StepKind.REVOKE_TOKEN, cluster, "revoke its API token")
        return _answer([step], busy, "its API token to be revoked")
    standing = in_order(machine for machine in machines if machine.phase is not Phase.GONE)
    if standing:
        steps = [_machine_step(StepKind.REMOVE_MACHINE, machine, "remove the machine") for machine in standing]
        return _answer(steps, busy, f"{len(standing)} machines to be gone, among them {standing[0].name}")
    for mark, kind, what in _CLEARANCE:
        if mark not in cluster.marks:
            return _answer([_cluster_step(kind, cluster, what)], busy, f"to {what}")
    step = _cluster_step(StepKind.FORGET_CLUSTER, cluster, "release what was reserved and forget it")
    return _answer([step], busy, "to be forgotten")


def _answer(steps: Sequence[Step], busy: frozenset[str], waiting_for: str) -> Plan:
    return Plan(steps=tuple(step for step in steps if step.key not in busy), waiting_for=waiting_for)


def _key(kind: StepKind, machine: Machine) -> str:
    return Step(kind=kind, machine_id=machine.id).key


def _machine_step(kind: StepKind, machine: Machine, what: str) -> Step:
    return Step(kind=kind, machine_id=machine.id, name=machine.name, summary=f"{machine.name}: {what}")


def _cluster_step(kind: StepKind, cluster: Cluster, what: str) -> Step:
    return Step(kind=kind, name=cluster.name, summary=f"{cluster.name}: {what}")
