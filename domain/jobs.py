"""Jobs: what is being done to a cluster, as the job page shows it from the store alone.

The Temporal server decides order, retries and waiting; these records are written by the activities, so that the job
page answers while every worker is down and long after Temporal's retention has passed.
"""

from datetime import datetime
from enum import StrEnum

from domain.clusters import Cluster
from domain.frozen import Payload


class JobKind(StrEnum):
    """The workflow types that share a cluster's one workflow id."""

    CREATE = "CreateCluster"
    DELETE = "DeleteCluster"
    SELF_TEST = "SelfTest"


class JobPhase(StrEnum):
    RUNNING = "running"
    WAITING = "waiting"
    AWAITING_DECISION = "awaiting-decision"
    DONE = "done"
    ABORTED = "aborted"
    SUPERSEDED = "superseded"
    FAILED = "failed"
    """The run ended without an outcome (terminated from outside); the dispatcher starts another."""


class Decision(StrEnum):
    """What a person may say to a parked job; also the names of the workflow updates."""

    RETRY = "retry"
    ABORT = "abort"


class StepState(StrEnum):
    RUNNING = "running"
    DONE = "done"
    RETRYING = "retrying"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Job(Payload):
    """One job. Its id is the run id of its workflow, so the link into the Temporal UI needs no lookup."""

    id: str
    workflow_id: str
    kind: JobKind
    cluster_id: str | None = None
    site_id: str | None = None
    generation: int = 0
    phase: JobPhase = JobPhase.RUNNING
    waiting_for: str = ""
    waiting_since: datetime | None = None
    error: str = ""
    """Why it is parked: what happened, to what, and what can be done."""
    requested_by: str = ""
    started_at: datetime | None = None
    ended_at: datetime | None = None


class Step(Payload):
    """One step of a job: one activity, with all its attempts.

    `id` is stable over attempts (`<workflow id suffix>/<activity id>`); `upid` is the Proxmox VE task it waits for.
    """

    id: str
    job_id: str
    kind: str
    summary: str
    machine_id: str | None = None
    state: StepState = StepState.RUNNING
    attempt: int = 1
    error: str = ""
    upid: str = ""
    started_at: datetime | None = None
    ended_at: datetime | None = None


class LogLine(Payload):
    """One line of a job's log; `seq` counts from 1 within the job, without gaps, so a reader can resume."""

    job_id: str
    seq: int
    at: datetime
    step_id: str = ""
    level: str = "info"
    text: str


def wanted_job(cluster: Cluster) -> JobKind | None:
    """The job that a cluster needs now, or None when its accepted change is settled.

    An aborted generation stays as it is until the next change (a person said so); a deletion always goes on.
    """
    if cluster.settled_generation >= cluster.generation:
        return None
    if cluster.outcome == "aborted" and cluster.outcome_generation == cluster.generation:
        return None
    return JobKind.DELETE if cluster.deleting else JobKind.CREATE
