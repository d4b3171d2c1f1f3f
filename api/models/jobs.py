"""Jobs, their steps and their log, as the store knows them."""

from datetime import datetime

from pydantic import Field

from api.models.shapes import Allowed, Answer
from domain.jobs import Decision, JobKind, JobPhase, StepState


class JobLinks(Answer):
    """Where else this can be watched. `engine`: the run in the Temporal UI; `proxmox`: the task in Proxmox VE."""

    engine: str | None = None
    proxmox: str | None = None


class Waiting(Answer):
    """What a job waits for, since when, and what ends the wait."""

    waiting_for: str
    since: datetime | None = None


class ClusterName(Answer):
    namespace: str
    name: str


class JobSummary(Answer):
    """A job in a list."""

    id: str
    kind: JobKind
    phase: JobPhase
    cluster: ClusterName | None
    site: str | None
    generation: int
    waiting: Waiting | None = None
    error: str = ""
    requested_by: str = ""
    started_at: datetime | None
    ended_at: datetime | None
    links: JobLinks = JobLinks()


class Step(Answer):
    """One step with all its attempts; `upid` is the Proxmox VE task it waits for."""

    id: str
    kind: str
    summary: str
    machine: str | None = None
    state: StepState
    attempt: int
    error: str = ""
    upid: str = ""
    started_at: datetime | None
    ended_at: datetime | None
    links: JobLinks = JobLinks()


class StepNow(Answer):
    """A step that runs now."""

    summary: str
    since: datetime | None


class Progress(Answer):
    """How far the job is that works on a cluster: the steps of its plan (those of a preview), and what runs now."""

    done: int
    total: int
    now: list[StepNow] = Field(description="The latest begun first.")
    waiting_for: str = Field(description="What the plan waits for. Between two looks at it no step runs.")


class Job(JobSummary):
    """One job. `decisions` are what may be said to it now; `may_decide` tells whether this person may."""

    steps: list[Step]
    steps_done: int
    progress: Progress | None = Field(default=None, description="Null where it has ended or works on no cluster.")
    decisions: list[Decision] = Field(default_factory=list)
    may_decide: Allowed
    last_log: int = Field(default=0, description="Sequence number of the newest log line; 0 when there is none.")


class LogLine(Answer):
    seq: int
    at: datetime
    step_id: str = ""
    level: str = "info"
    text: str


class Log(Answer):
    """Log lines after `after`; ask again with `next_after`. `ended`: no line will follow."""

    items: list[LogLine]
    next_after: int
    ended: bool


class Decided(Answer):
    job: str
    decision: Decision
