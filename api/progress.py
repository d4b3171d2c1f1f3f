"""How far a job on a cluster is: its plan measured by what exists now, and the steps that run at this moment."""

from collections.abc import Sequence
from datetime import datetime

from api.models.jobs import JobSummary, Progress, StepNow
from api.services import Services
from domain.clusters import Cluster
from domain.jobs import Job, JobKind, Step, StepState, wanted_job
from domain.machines import Machine, Phase
from domain.plan import plan
from domain.walk import distance

NOW_AT_MOST = 3
"""How many of the steps that run at the same time are told."""


async def of_cluster(services: Services, cluster: Cluster, job: JobSummary | None) -> Progress | None:
    """The progress of the job that works on the cluster; None where none does."""
    if job is None or not _at_work(cluster, job.kind, job.ended_at):
        return None
    machines = await services.store.machines.of_cluster(cluster.id, history=True)
    return _measured(job.kind, cluster, machines, await services.store.jobs.steps(job.id))


def of_job(job: Job, cluster: Cluster, machines: Sequence[Machine], steps: Sequence[Step]) -> Progress | None:
    """The progress of a job whose rows were read already; `machines` with those that are gone."""
    return _measured(job.kind, cluster, machines, steps) if _at_work(cluster, job.kind, job.ended_at) else None


def _at_work(cluster: Cluster, kind: JobKind, ended_at: datetime | None) -> bool:
    """False where the job has ended or another one is to begin in its place: its plan leads nowhere then."""
    return ended_at is None and kind is wanted_job(cluster)


def _measured(kind: JobKind, cluster: Cluster, machines: Sequence[Machine], steps: Sequence[Step]) -> Progress | None:
    try:
        done, total = distance(kind, cluster, machines)
    except RuntimeError:
        # A plan without an end is the job's trouble to tell; the page shows everything else.
        return None
    running = [one for one in steps if one.state in (StepState.RUNNING, StepState.RETRYING)]
    living = [machine for machine in machines if machine.phase is not Phase.GONE]
    return Progress(
        done=done,
        total=total,
        now=[StepNow(summary=one.summary, since=one.started_at) for one in reversed(running[-NOW_AT_MOST:])],
        waiting_for=plan(kind, cluster, living).waiting_for,
    )
