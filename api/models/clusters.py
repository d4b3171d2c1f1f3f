"""Clusters: lists, one cluster, previews and the answers to changes."""

from datetime import datetime
from typing import Any

from pydantic import Field

from api.models.jobs import JobSummary, Progress
from api.models.problems import Violation
from api.models.shapes import Allowed, Answer, Asked
from domain.clusters import ClusterSpec, ClusterStatus, Distribution
from domain.conditions import ConditionType, Reason
from domain.machines import Phase, Role


class Count(Answer):
    """How many of the wanted are ready."""

    ready: int
    wanted: int


class Condition(Answer):
    type: ConditionType
    status: bool | None
    reason: Reason
    message: str
    last_transition: datetime | None
    worth_a_look: bool = Field(
        description="True where the status is not the good one for this type, and no job is about to change that."
    )
    in_progress: bool = Field(description="Not the good status yet only because a job works on it.")


class Conditions(Answer):
    items: list[Condition]
    as_of: datetime


class Machine(Answer):
    name: str
    role: Role
    pool: str
    phase: Phase
    version: str
    address: str
    vmid: int
    node: str | None
    cores: int
    memory_mib: int
    disk_gib: int
    initialiser: bool
    message: str = ""


class Machines(Answer):
    items: list[Machine]
    as_of: datetime


class ClusterRow(Answer):
    """A cluster in a list."""

    namespace: str
    name: str
    site: str
    distribution: Distribution
    version: str
    status: ClusterStatus
    message: str = Field(default="", description="The one sentence that explains a status that is not Available.")
    control_plane: Count
    workers: Count
    endpoint: str
    created_at: datetime | None
    created_by: str
    pending: bool = Field(description="An accepted change is not settled yet.")


class ClusterRights(Answer):
    """What the person may do with this cluster now; each with the reason when it is off."""

    change: Allowed
    delete: Allowed
    kubeconfig: Allowed


class EtcdMember(Answer):
    name: str = Field(description="Its machine's name; where no machine has it, what etcd itself calls it.")
    machine: bool = Field(description="False: it belongs to no machine of this cluster.")
    healthy: bool | None = Field(description="Null: nobody could ask it.")
    learner: bool = Field(description="It does not vote yet.")
    leader: bool
    message: str = ""


class Etcd(Answer):
    """What was last seen of its etcd."""

    members: list[EtcdMember]
    healthy: int
    voters: int
    tolerance: int = Field(description="How many more voters may be lost; below zero it has no majority.")
    leader: str = Field(description="Empty while there is none, and for k3s and RKE2, which do not tell.")
    size: int = Field(description="Bytes of its database; 0 where it is not told.")
    quota: int
    version: str


class Cluster(ClusterRow):
    """One cluster with everything that its pages show."""

    id: str
    spec: ClusterSpec
    pool: str = Field(description="Its Proxmox VE pool, whole path.")
    generation: int
    settled_generation: int
    resource_version: int
    conditions: list[Condition]
    etcd: Etcd | None = Field(default=None, description="Null until its first look.")
    deletion_requested_at: datetime | None
    job: JobSummary | None = Field(default=None, description="The job that works on it now, else its last one.")
    progress: Progress | None = Field(default=None, description="Null while no job works on it.")
    may: ClusterRights
    as_of: datetime


class PlannedMachine(Answer):
    name: str
    role: Role
    pool: str
    cores: int
    memory_mib: int
    disk_gib: int


class PlannedStep(Answer):
    """One step of the job, in an order in which it may take them; some are taken at the same time."""

    order: int
    kind: str
    summary: str
    machine: str = ""


class Preview(Answer):
    """What an accepted change would do. `violations` lists what stands in its way; nothing was written."""

    namespace: str
    name: str
    exists: bool
    spec: ClusterSpec | None
    violations: list[Violation]
    machines: list[PlannedMachine]
    steps: list[PlannedStep]
    not_acted_on: list[Condition] = Field(description="Settings that are kept, but that this release does not act on.")


class Accepted(Answer):
    """A change was written. `started` false: its job starts when Temporal is back (condition JobPending)."""

    cluster: Cluster
    changed: bool
    started: bool


class Deletion(Asked):
    """Proof that the right cluster is meant: its name, typed."""

    confirm: str


class FieldChange(Answer):
    """One field that differs; null where it is not there on that side."""

    path: str
    old: Any
    new: Any


class Revision(Answer):
    number: int
    author: str
    at: datetime
    spec: ClusterSpec
    diff: list[FieldChange] = Field(description="What changed against the revision before.")


class Revisions(Answer):
    items: list[Revision]
