"""Workflows: wire names, inputs, signals and updates."""

from domain.frozen import Payload

# Workflow types. All cluster jobs share one workflow id (ids.cluster_workflow).
CREATE_CLUSTER = "CreateCluster"
DELETE_CLUSTER = "DeleteCluster"
CREATE_MACHINE = "CreateMachine"
REMOVE_MACHINE = "RemoveMachine"
SITE_MONITOR = "SiteMonitor"
SELF_TEST = "SelfTest"

# Signals to a cluster job.
CHANGED = "changed"
"""The cluster's row changed: look again at the next safe point. Also what signal-with-start sends."""
MACHINE_PROGRESS = "machine-progress"
"""A machine's own workflow tells its parent how far it is (argument: MachineProgress)."""

# Signals to a machine's workflow.
POWER_ON = "power-on"
"""It is this machine's turn."""
DECIDED = "decided"
"""A person decided about a parked step (argument: the Decision's value)."""
STAND_DOWN = "stand-down"
"""The parent job was superseded: end at the next safe point, undo nothing."""

# Updates of a cluster job, validated: refused unless it is parked (domain.jobs.Decision).
RETRY = "retry"
ABORT = "abort"

# Search attributes (all Keyword). In clear text in Temporal whatever the codec: nothing secret or personal.
SEARCH_ATTRIBUTES = ("ClusterName", "Site", "JobKind", "JobPhase")


class TimeLimits(Payload):
    """How long a job waits before it asks a person, in seconds.

    The defaults serve production; tests and the lab pass a smaller profile. Every limit ends in a parked job, never
    in lost work.
    """

    task: float = 3600.0
    """One Proxmox VE task, from its start."""
    boot: float = 1200.0
    """From power-on to a registered node (document: twenty minutes)."""
    ready: float = 1200.0
    """From a registered node to Ready and initialised."""
    available: float = 1200.0
    heartbeat: float = 10.0
    effect: float = 60.0
    """One short effect on an outside world, one attempt."""
    retry_first: float = 1.0
    retry_max: float = 30.0
    persist: float = 900.0
    """How long a failing effect is retried before the job is parked."""


class JobInput(Payload):
    """Input of every cluster job."""

    cluster_id: str
    cluster_name: str
    """`<namespace>/<name>`, for summaries and search attributes only."""
    site_id: str
    site_name: str
    limits: TimeLimits = TimeLimits()


class MachineInput(Payload):
    """Input of a machine's workflow (CreateMachine, RemoveMachine), a child of the cluster job."""

    job_id: str
    cluster_id: str
    site_id: str
    machine_id: str
    name: str
    limits: TimeLimits = TimeLimits()
    permitted: bool = False
    """CreateMachine: it may be powered on without waiting for the parent's signal."""


class MachineProgress(Payload):
    """A machine's workflow to its parent: `seeded`, `started`, `joined`, `ready`, `stuck` (why) or `moving` again.

    `waiting` carries in `error` what an effect waits for, and an empty text when it moves again.
    """

    machine_id: str
    state: str
    step: str = ""
    error: str = ""


class SiteInput(Payload):
    """Input of SiteMonitor and SelfTest."""

    site_id: str
    site_name: str
    limits: TimeLimits = TimeLimits()
    cycles: int = 0
    """SiteMonitor: how often it has continued as new."""
