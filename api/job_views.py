"""Jobs and steps as they are shown: names instead of ids, and links into the Temporal UI and Proxmox VE."""

from collections.abc import Iterable, Mapping
from urllib.parse import quote

from api.models.jobs import ClusterName, Job, JobLinks, JobSummary, Step, Waiting
from api.models.shapes import Allowed
from api.progress import of_job
from api.services import Services
from domain.jobs import Decision, JobPhase, StepState
from domain.jobs import Job as StoredJob
from domain.jobs import Step as StoredStep
from domain.sites import Site
from store import NotFound


async def site_names(services: Services) -> dict[str, Site]:
    """The sites by id, for lists."""
    return {site.id: site for site in await services.store.sites.list()}


async def summaries(services: Services, jobs: Iterable[StoredJob]) -> list[JobSummary]:
    """Jobs for a list. Names come from the workflow id, so a deleted cluster's jobs keep theirs."""
    sites = await site_names(services)
    return [summary(services, job, sites) for job in jobs]


def summary(services: Services, job: StoredJob, sites: Mapping[str, Site]) -> JobSummary:
    site = sites.get(job.site_id or "")
    return JobSummary(
        id=job.id,
        kind=job.kind,
        phase=job.phase,
        cluster=cluster_name(job),
        site=site.name if site else None,
        generation=job.generation,
        waiting=Waiting(waiting_for=job.waiting_for, since=job.waiting_since) if job.waiting_for else None,
        error=job.error,
        requested_by=job.requested_by,
        started_at=job.started_at,
        ended_at=job.ended_at,
        links=JobLinks(engine=services.engine.link(job) or None),
    )


def cluster_name(job: StoredJob) -> ClusterName | None:
    """Namespace and name out of `cluster/<namespace>.<name>/<id>` (domain.contracts.ids)."""
    pool = pool_name(job)
    if pool is None:
        return None
    namespace, _, name = pool.partition(".")
    return ClusterName(namespace=namespace, name=name)


def pool_name(job: StoredJob) -> str | None:
    """`<namespace>.<name>` of the job's cluster; None for jobs of sites."""
    parts = job.workflow_id.split("/")
    return parts[1] if len(parts) >= 3 and parts[0] == "cluster" else None


async def whole(services: Services, job: StoredJob, may_decide: Allowed, *, last: int | None = None) -> Job:
    """One job with its steps. `last` is the number of its newest log line where the caller knows it already."""
    steps = await services.store.jobs.steps(job.id)
    sites = await site_names(services)
    site = sites.get(job.site_id or "")
    machines: dict[str, str] = {}
    progress = None
    if job.cluster_id is not None:
        try:
            found = await services.store.machines.of_cluster(job.cluster_id, history=True)
            cluster = await services.store.clusters.get(job.cluster_id, history=True)
            progress = of_job(job, cluster, found, steps)
        except NotFound:
            found = []
        machines = {machine.id: machine.name for machine in found}
    parked = job.phase is JobPhase.AWAITING_DECISION
    return Job(
        **summary(services, job, sites).model_dump(),
        steps=[step_view(step, site, machines) for step in steps],
        steps_done=sum(step.state is StepState.DONE for step in steps),
        progress=progress,
        decisions=list(Decision) if parked else [],
        may_decide=may_decide if parked else Allowed(allowed=False, reason="The job waits for nobody's decision."),
        last_log=await last_log(services, job.id) if last is None else last,
    )


def step_view(step: StoredStep, site: Site | None, machines: Mapping[str, str]) -> Step:
    return Step(
        id=step.id,
        kind=step.kind,
        summary=step.summary,
        machine=machines.get(step.machine_id or ""),
        state=step.state,
        attempt=step.attempt,
        error=step.error,
        upid=step.upid,
        started_at=step.started_at,
        ended_at=step.ended_at,
        links=JobLinks(proxmox=task_link(site, step.upid)),
    )


def task_link(site: Site | None, upid: str) -> str | None:
    """The task list of the node that runs a task (`UPID:<node>:...`), in Proxmox VE's own pages.

    Proxmox VE has no address for one task; the list of its node's tasks is the nearest place.
    """
    parts = upid.split(":")
    if site is None or len(parts) < 3 or parts[0] != "UPID":
        return None
    return f"{site.endpoints[0].rstrip('/')}/#v1:0:={quote('node/' + parts[1], safe='')}:4:=tasks"


async def last_log(services: Services, job_id: str) -> int:
    """The number of the newest log line. Lines count from 1 without gaps, so a search by halves finds it."""
    low, high = 0, 1
    log = services.store.jobs.log_after
    while await log(job_id, high - 1, 1):
        low, high = high, high * 2
    while low + 1 < high:
        middle = (low + high) // 2
        if await log(job_id, middle - 1, 1):
            low = middle
        else:
            high = middle
    return low
