"""etcd: who belongs to it, how well it is, and which change of servers it bears.

Pure. What was seen (`EtcdView`) comes from `activities.kubernetes.etcd`; the planner asks here before every decision
about servers. The rules are those of the Cluster API's control plane (facts/kubernetes.md 6.4) and, for k3s and RKE2,
"at least two healthy voters before a removal and one after" (2.8).
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from domain.conditions import Condition, ConditionType, Reason
from domain.frozen import Frozen, Payload
from domain.sizes import bytes_text

if TYPE_CHECKING:  # a cluster carries its view of etcd, so at run time the import goes the other way
    from domain.machines import Machine


class EtcdSource(StrEnum):
    """How a view came about."""

    GATEWAY = "gateway"
    """Asked from etcd itself, server by server (kubeadm)."""
    NODES = "nodes"
    """Read from what k3s and RKE2 write on their Node objects; leader and size are unknown there."""


class EtcdMember(Payload):
    """One member. `name` is its node's name, empty when it was added and has never started."""

    id: str
    name: str = ""
    peer_urls: tuple[str, ...] = ()
    learner: bool = False
    healthy: bool | None = None
    """None: nobody could be asked, since no machine of ours runs it."""
    trouble: str = ""
    """Why it is not healthy, in the words of whoever said so."""

    @property
    def label(self) -> str:
        """What a person calls it."""
        return self.name or f"{self.id} (never started)"


class EtcdAlarm(Payload):
    member_id: str
    kind: str


class EtcdView(Payload):
    """What was seen of a cluster's etcd at one look. Without members: nothing was seen (yet).

    `servers` are the ids of the machines that were Ready at that look, `job_id` the job that looked last: a plan that
    needs a fresh look sees by them whether this is one.
    """

    source: EtcdSource = EtcdSource.GATEWAY
    members: tuple[EtcdMember, ...] = ()
    leader: str = ""
    alarms: tuple[EtcdAlarm, ...] = ()
    disagreeing: tuple[str, ...] = ()
    """Machines whose own list of members is another than the rest's."""
    silent: str = ""
    """Why nothing was seen, when nothing was."""
    size: int = 0
    size_in_use: int = 0
    quota: int = 0
    version: str = ""
    servers: tuple[str, ...] = ()
    job_id: str = ""

    def calm(self, before: "EtcdView | None") -> "EtcdView":
        """This view, with the earlier sizes where they hardly differ: a database breathes, and must not be written."""
        if before is None or abs(self.size - before.size) > max(_BREATH, before.size // 10):
            return self
        return self.model_copy(update={"size": before.size, "size_in_use": before.size_in_use})


_BREATH = 16 * 1024**2


class EtcdHealth(Frozen):
    """A view held against the machines.

    `tolerance` is how many more voters may be lost; below zero there is no majority. `strangers` are members without
    a machine, `missing` machines whose node is Ready and that have no member.
    """

    voters: int
    healthy: int
    majority: int
    tolerance: int
    joining: tuple[EtcdMember, ...] = ()
    """Learners of machines that are on their way: as it should be, and still a reason to add nobody else."""
    strangers: tuple[EtcdMember, ...] = ()
    missing: tuple[str, ...] = ()
    troubles: tuple[str, ...] = ()
    """Everything that is not as it should be, for people; empty when all is well."""


class Verdict(Frozen):
    """Whether a change may be made now; `reason` says why not."""

    allowed: bool
    reason: str = ""


def member_of(view: EtcdView, machine: "Machine") -> EtcdMember | None:
    """The member that a machine runs: by its name, and while it has none by its address."""
    for member in view.members:
        if member.name == machine.name:
            return member
    for member in view.members:
        if not member.name and any(urlsplit(url).hostname == machine.address for url in member.peer_urls):
            return member
    return None


def health(view: EtcdView, machines: Iterable["Machine"]) -> EtcdHealth:
    """How well etcd is. `machines` are the cluster's; workers and gone ones are passed over."""
    servers = _servers(machines)
    voters = [member for member in view.members if not member.learner]
    healthy = sum(1 for member in voters if member.healthy)
    majority = len(voters) // 2 + 1
    owned = {member.id: machine for machine in servers if (member := member_of(view, machine)) is not None}
    missing = tuple(m.name for m in servers if _is_ready(m) and m.id not in {one.id for one in owned.values()})
    strangers = tuple(member for member in view.members if member.id not in owned)
    learners = [member for member in view.members if member.learner and member.id in owned]
    joining = tuple(one for one in learners if not _is_ready(owned[one.id]))
    known_ill = [one for one in voters if not one.healthy and (one.id in owned or one.healthy is False)]
    troubles = [
        *(f"{one.label} does not work: {one.trouble or 'it was not asked'}" for one in known_ill),
        *(f"{one.label} belongs to no machine of this cluster" for one in strangers),
        *(f"{name} is Ready and not a member" for name in missing),
        *(f"{one.label} does not vote yet" for one in learners if one not in joining),
        *(f"alarm {alarm.kind} on {_label(view, alarm.member_id)}" for alarm in view.alarms),
        *(f"{name} sees other members than the rest" for name in view.disagreeing),
    ]
    if view.source is EtcdSource.GATEWAY and view.members and not view.leader:
        troubles.append("it has no leader")
    return EtcdHealth(
        voters=len(voters),
        healthy=healthy,
        majority=majority,
        tolerance=healthy - majority,
        joining=joining,
        strangers=strangers,
        missing=missing,
        troubles=tuple(troubles),
    )


def may_add_server(view: EtcdView, machines: Iterable["Machine"], adding: "Machine | None" = None) -> Verdict:
    """Whether one more server may join now: every present one is a healthy voter, and nobody else is there.

    `adding` is the server whose turn it is. What etcd knows of it already does not stand in its way: after a crash it
    may have begun to join, or may even vote, and then nothing but its power-on makes things better.
    """
    machines = list(machines)
    if not view.members:
        return _no(f"etcd was not seen: {view.silent or 'nobody has looked yet'}")
    mine = member_of(view, adding) if adding is not None else None
    if mine is not None and not mine.learner:
        return Verdict(allowed=True)
    rest = view
    if mine is not None:
        rest = view.model_copy(update={"members": tuple(one for one in view.members if one.id != mine.id)})
    found = health(rest, machines)
    reasons = [*found.troubles, *(f"{one.label} is still joining etcd" for one in found.joining)]
    return _no("; ".join(reasons)) if reasons else Verdict(allowed=True)


def all_vote(view: EtcdView, machines: Iterable["Machine"]) -> Verdict:
    """Whether every server that is Ready is a healthy voter. Members that nobody owns are another matter."""
    for machine in _servers(machines):
        if not _is_ready(machine):
            continue
        member = member_of(view, machine)
        if member is None:
            return _no(f"{machine.name} is not a member of etcd")
        if member.learner:
            return _no(f"{machine.name} does not vote in etcd yet")
        if not member.healthy:
            return _no(f"etcd of {machine.name} does not work: {member.trouble}")
    return Verdict(allowed=True)


def may_remove_server(view: EtcdView, member_id: str) -> Verdict:
    """Whether a member may be removed now, without etcd losing its majority by our own act.

    Needs a majority before (else etcd cannot even note the removal), and after it among those that stay. A learner
    never counted, so it may go whenever the others have their majority.
    """
    target = next((one for one in view.members if one.id == member_id), None)
    if target is None:
        return _no("etcd was not seen" if not view.members else f"etcd has no member {member_id}")
    before = health(view, ())
    if before.tolerance < 0:
        return _no(f"only {before.healthy} of {before.voters} members work: etcd has no majority that could decide it")
    if target.learner:
        return Verdict(allowed=True)
    learners = [one.label for one in view.members if one.learner]
    if learners:
        return _no(f"{learners[0]} is still joining etcd")
    stays = health(view.model_copy(update={"members": tuple(one for one in view.members if one.id != member_id)}), ())
    if stays.voters == 0:
        return _no(f"{target.label} is etcd's only voter")
    if stays.tolerance < 0:
        return _no(
            f"without {target.label} only {stays.healthy} of {stays.voters} members would work, {stays.majority} must"
        )
    if view.source is EtcdSource.NODES and (before.healthy < 2 or stays.healthy < 1):
        return _no(f"only {before.healthy} of etcd's members work: two must before one of them leaves")
    return Verdict(allowed=True)


def successor(view: EtcdView, member_id: str) -> str:
    """Who should lead when this member leaves: the id of another healthy voter; empty when no move is needed."""
    if view.leader != member_id:
        return ""
    return next((one.id for one in view.members if one.id != member_id and not one.learner and one.healthy), "")


def etcd_condition(view: EtcdView, machines: Sequence["Machine"]) -> Condition:
    """The condition EtcdHealthy for a view."""
    found = health(view, machines)
    if not view.members:
        reason, status, text = Reason.ETCD_UNREACHABLE, None, f"etcd was not seen: {view.silent}"
    elif found.tolerance < 0:
        reason, status, text = Reason.ETCD_NO_MAJORITY, False, "; ".join([_counted(view, found), *found.troubles])
    elif found.troubles:
        reason, status, text = Reason.ETCD_DEGRADED, False, "; ".join([_counted(view, found), *found.troubles])
    else:
        reason, status, text = Reason.READY, True, _counted(view, found)
    return Condition(type=ConditionType.ETCD_HEALTHY, status=status, reason=reason, message=text)


def _counted(view: EtcdView, found: EtcdHealth) -> str:
    parts = [f"{found.healthy} of {found.voters} members healthy"]
    if view.leader:
        parts.append(f"leader {_label(view, view.leader)}")
    if view.quota:
        parts.append(f"{bytes_text(view.size)} of {bytes_text(view.quota)} used")
    return ", ".join(parts)


def _label(view: EtcdView, member_id: str) -> str:
    return next((one.label for one in view.members if one.id == member_id), member_id)


def _servers(machines: Iterable["Machine"]) -> list["Machine"]:
    return [machine for machine in machines if machine.is_server and machine.phase.value != "Gone"]


def _is_ready(machine: "Machine") -> bool:
    return machine.phase.value == "Ready"


def _no(reason: str) -> Verdict:
    return Verdict(allowed=False, reason=reason)
