"""Activities: wire names, where they run, inputs and results.

An effect on Proxmox VE that becomes a task is two activities: the effect itself, short, which looks first, acts only
where needed and returns a `Handle`; and `proxmox.wait_task`, one of many cheap waits. The workflow goes round
`effect -> wait -> effect` until the effect reports `done`: the look after the act is the effect's own next look
(workflows/effects.py). So a lost answer, a killed worker and a vanished task all end in the same look at reality.
"""

from enum import StrEnum

from domain.clusters import Mark, Outcome
from domain.frozen import Payload
from domain.jobs import JobKind, JobPhase


class Lane(StrEnum):
    """Which task queue an activity runs on (domain.contracts.ids builds the names)."""

    CONTROL = "control"
    SITE = "site"
    CLONE = "clone"
    WAIT = "wait"


class ClusterRef(Payload):
    """Names a cluster within a job. `summary` is what Temporal UI and job page show for the step."""

    job_id: str
    cluster_id: str
    site_id: str
    summary: str = ""


class MachineRef(ClusterRef):
    machine_id: str
    name: str = ""


class SiteRef(Payload):
    job_id: str
    site_id: str
    summary: str = ""


class Handle(Payload):
    """Answer of an effect: `done` when its end state was seen; otherwise the task to wait for before looking again.

    `done=False` with an empty `upid` means: nothing to wait for, look again after `pause` seconds (for example while
    another's lock is held); `waiting_for` then names what it waits for.
    """

    done: bool
    upid: str = ""
    waiting_for: str = ""
    pause: float = 1.0


class TaskRef(Payload):
    """One Proxmox VE task to wait for."""

    job_id: str
    cluster_id: str = ""
    site_id: str
    machine_id: str = ""
    upid: str
    summary: str = ""


class TaskOutcome(Payload):
    """How a task ended. `ok` counts warnings as success; a vanished task is neither: look at the real state."""

    ok: bool
    exit_status: str = ""
    vanished: bool = False


class BeginJob(Payload):
    """Opens the job's record. The job's id is the workflow's run id."""

    job_id: str
    workflow_id: str
    kind: JobKind
    cluster_id: str = ""
    site_id: str = ""


class JobState(Payload):
    """What `records.begin_job` and `records.plan` report of the cluster: enough to decide whether to go on."""

    generation: int = 0
    deleting: bool = False
    exists: bool = True
    epoch: int = 0


class StepOrder(Payload):
    """One thing to do next. `kind` is a domain.plan.StepKind value; `machine_id`/`name` for machine steps."""

    kind: str
    machine_id: str = ""
    name: str = ""
    summary: str = ""
    permitted: bool = False
    """create-machine: it was powered on before (by an earlier job), so its workflow waits for no turn."""


class PlanRequest(Payload):
    """Asks the planner for the next steps. `busy` lists step keys (`kind` or `kind/machine id`) already in flight."""

    job_id: str
    cluster_id: str
    site_id: str
    kind: JobKind
    epoch: int = 0
    busy: tuple[str, ...] = ()


class PlanAnswer(Payload):
    """The planner's answer: start these now; when nothing is in flight and nothing is to start, `finished` says why.

    `waiting_for` names what the plan waits for when it has nothing to start. Only this small answer enters the
    history, never the whole cluster: a create of 7+100 machines stays far below the history limits, and a change of
    the planner never breaks replay.
    """

    state: JobState
    steps: tuple[StepOrder, ...] = ()
    finished: bool = False
    waiting_for: str = ""


class ReportJob(Payload):
    """Tells the store what a job does between steps: its phase, what it waits for, why it is parked."""

    job_id: str
    cluster_id: str = ""
    phase: JobPhase
    waiting_for: str = ""
    error: str = ""


class FinishJob(Payload):
    """Writes a job's outcome and settles the generation it worked on."""

    job_id: str
    cluster_id: str = ""
    generation: int = 0
    outcome: Outcome
    error: str = ""


class JoinWait(MachineRef):
    """Waits for a machine's node. `limit` in seconds, from power-on."""

    limit: float


class ClusterWait(ClusterRef):
    limit: float


class Marked(ClusterRef):
    mark: Mark


# --- records: the store as seen by workflows (Lane.CONTROL) ---
BEGIN_JOB = "records.begin_job"  # BeginJob -> JobState
PLAN = "records.plan"  # PlanRequest -> PlanAnswer
REPORT_JOB = "records.report_job"  # ReportJob -> None
FINISH_JOB = "records.finish_job"  # FinishJob -> None
MAKE_AUTHORITIES = "records.make_authorities"  # ClusterRef -> None; keys and tokens into the secret box
RESERVE_MACHINES = "records.reserve_machines"  # ClusterRef -> None; VM ids, addresses, names, MACs
RELEASE_MACHINE = "records.release_machine"  # MachineRef -> None
FORGET_CLUSTER = "records.forget_cluster"  # ClusterRef -> None

# --- proxmox (Lane.SITE unless said otherwise) ---
ENSURE_POOL = "proxmox.ensure_pool"  # ClusterRef -> None
ENSURE_USER = "proxmox.ensure_user"  # ClusterRef -> None
ENSURE_TOKEN = "proxmox.ensure_token"  # ClusterRef -> None; value into the secret box  # noqa: S105
GRANT_RIGHTS = "proxmox.grant_rights"  # ClusterRef -> None; pool and storage ACLs with fixed roles
PLACE_MACHINE = "proxmox.place_machine"  # MachineRef -> Handle (done, or waiting_for: why no node fits)
CLONE_MACHINE = "proxmox.clone_machine"  # MachineRef -> Handle; Lane.CLONE
CONFIGURE_MACHINE = "proxmox.configure_machine"  # MachineRef -> Handle
RESIZE_DISK = "proxmox.resize_disk"  # MachineRef -> Handle
UPLOAD_SEED = "proxmox.upload_seed"  # MachineRef -> Handle; renders the boot ISO and uploads it
ATTACH_SEED = "proxmox.attach_seed"  # MachineRef -> Handle
START_MACHINE = "proxmox.start_machine"  # MachineRef -> Handle
DETACH_SEED = "proxmox.detach_seed"  # MachineRef -> Handle
DELETE_SEED = "proxmox.delete_seed"  # MachineRef -> Handle
STOP_MACHINE = "proxmox.stop_machine"  # MachineRef -> Handle
DESTROY_MACHINE = "proxmox.destroy_machine"  # MachineRef -> Handle; done only when proved absent
WAIT_TASK = "proxmox.wait_task"  # TaskRef -> TaskOutcome; Lane.WAIT
REVOKE_TOKEN = "proxmox.revoke_token"  # ClusterRef -> None  # noqa: S105
DELETE_USER = "proxmox.delete_user"  # ClusterRef -> None
REVOKE_RIGHTS = "proxmox.revoke_rights"  # ClusterRef -> None
DELETE_POOL = "proxmox.delete_pool"  # ClusterRef -> Handle
WATCH_SITE = "proxmox.watch_site"  # SiteInput -> None; Lane.WAIT; the observing body of SiteMonitor
SELF_TEST_STEP = "proxmox.self_test"  # SiteRef -> None (report in the store)

# --- kubernetes and helm ---
AWAIT_API = "kubernetes.await_api"  # ClusterWait -> None; Lane.WAIT; the first server answers on its node address
AWAIT_JOINED = "kubernetes.await_joined"  # JoinWait -> None; Lane.WAIT
AWAIT_READY = "kubernetes.await_ready"  # JoinWait -> None; Lane.WAIT; Ready and initialised
SET_TAINTS = "kubernetes.set_taints"  # ClusterRef -> None; Lane.SITE
AWAIT_AVAILABLE = "kubernetes.await_available"  # ClusterWait -> None; Lane.WAIT; through the virtual IP
LOOK_AT_ETCD = "kubernetes.look_at_etcd"  # ClusterRef -> Handle (waiting_for: what etcd lacks); Lane.WAIT
CLOUD_CONTROLLER_SECRET = "kubernetes.cloud_controller_secret"  # ClusterRef -> None; Lane.SITE  # noqa: S105
OPEN_JOINING = "kubernetes.open_joining"  # ClusterRef -> None; Lane.SITE; kubeadm's join token is valid
CLOSE_JOINING = "kubernetes.close_joining"  # ClusterRef -> None; Lane.SITE
INSTALL_POD_NETWORK = "helm.install_pod_network"  # ClusterRef -> None; Lane.SITE
INSTALL_CLOUD_CONTROLLER = "helm.install_cloud_controller"  # ClusterRef -> None; Lane.SITE

LANES: dict[str, Lane] = {
    CLONE_MACHINE: Lane.CLONE,
    WAIT_TASK: Lane.WAIT,
    WATCH_SITE: Lane.WAIT,
    AWAIT_API: Lane.WAIT,
    LOOK_AT_ETCD: Lane.WAIT,
    AWAIT_JOINED: Lane.WAIT,
    AWAIT_READY: Lane.WAIT,
    AWAIT_AVAILABLE: Lane.WAIT,
}
"""Lanes other than the default: `records.*` runs on CONTROL, everything else on SITE."""


def lane(activity: str) -> Lane:
    """The lane of an activity type."""
    return LANES.get(activity, Lane.CONTROL if activity.startswith("records.") else Lane.SITE)


FINAL_ERRORS = (
    "InvalidSpec",
    "NotOurs",
    "RightMissing",
    "TokenRefused",
    "ChartMissing",
    "ReleaseRefused",
    "TemplateMissing",
    "EpochChanged",
    "JoinFailed",
    "TimedOut",
)
"""Error types (ApplicationError.type) that no repetition mends: the job parks at once and asks a person."""
