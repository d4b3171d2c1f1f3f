"""Jobs: what is being done, how far it is, and what a person may say to one that waits for a word."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Response

from api.access import AtJob, NeedsJob, NeedsSession, Right, SignedIn, own_site
from api.job_views import pool_name, summaries, whole
from api.models.jobs import Decided, Job, JobSummary, Log, LogLine
from api.models.shapes import Allowed, Page
from api.people import Person
from api.problems import ApiError, Away, Conflicting
from api.rights import CHANGE, SEE, SETUP, allowed, cluster_pool_path, pool_of
from api.services import Services
from api.streams import BURST, HEARTBEAT, STREAM, changed, event, heartbeat, hello, last_seen, stream
from domain.errors import ErrorCode
from domain.jobs import Decision, JobKind, JobPhase
from domain.jobs import LogLine as StoredLine
from domain.sites import Site
from jobs import EngineAway, NoJob, NotParked, NoWorker

router = APIRouter(prefix="/jobs", tags=["jobs"])
LastEventId = Annotated[str | None, Header(alias="Last-Event-ID")]
LINES_AT_ONCE = 500


@router.get("")
async def list_jobs(
    phase: Annotated[list[JobPhase] | None, Query()] = None,
    offset: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    caller: SignedIn = Depends(NeedsSession(Right.SIGNED_IN)),
) -> Page[JobSummary]:
    """The jobs that the person may see, newest first."""
    services, person = caller.services, caller.person
    scope: dict[str, object] = {}
    if not person.local:
        site = await own_site(person, services)
        scope = await _visible_jobs(services, person, site)
    page = services.store.jobs.page
    jobs, total = await page(**scope, phases=phase, offset=offset, limit=limit)  # type: ignore[arg-type]
    unfiltered = total if phase is None else (await page(**scope, limit=1))[1]  # type: ignore[arg-type]
    return Page(
        items=await summaries(services, jobs),
        total=total,
        unfiltered_total=unfiltered,
        offset=offset,
        limit=limit,
        as_of=services.clock(),
    )


@router.get("/{job_id}")
async def read_job(caller: AtJob = Depends(NeedsJob(Right.SEE_JOB))) -> Job:
    """One job with its steps, what it waits for, and links into the Temporal UI and Proxmox VE."""
    return await whole(caller.services, caller.job, _may_decide(caller))


@router.get("/{job_id}/log")
async def read_log(
    after: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 500,
    caller: AtJob = Depends(NeedsJob(Right.SEE_JOB)),
) -> Log:
    """The log lines after a sequence number."""
    # The job was read before the lines: if it had ended by then, no line can follow those that are read now.
    lines = await caller.services.store.jobs.log_after(caller.job.id, after, limit)
    return Log(
        items=[_line(line) for line in lines],
        next_after=lines[-1].seq if lines else after,
        ended=caller.job.ended_at is not None and len(lines) < limit,
    )


@router.get("/{job_id}/events", responses={200: STREAM}, response_class=Response)
async def follow_job(
    last_event_id: LastEventId = None,
    after: Annotated[int, Query(ge=0, description="Like Last-Event-ID, for the first connection.")] = 0,
    caller: AtJob = Depends(NeedsJob(Right.SEE_JOB)),
) -> Response:
    """The job live: events `log` (a LogLine; its id resumes), `job` (a Job, when it changed) and `end`."""
    return stream(_follow(caller, last_seen(last_event_id, after) or 0))


@router.post("/{job_id}/retry", status_code=202)
async def retry_job(caller: AtJob = Depends(NeedsJob(Right.DECIDE_JOB))) -> Decided:
    """Lets a parked job go on at the step where it stands; finished steps are not done again."""
    return await _decide(caller, Decision.RETRY)


@router.post("/{job_id}/abort", status_code=202)
async def abort_job(caller: AtJob = Depends(NeedsJob(Right.DECIDE_JOB))) -> Decided:
    """Ends a parked job where it stands. What was made stays until the cluster is changed or deleted."""
    return await _decide(caller, Decision.ABORT)


async def _visible_jobs(services: Services, person: Person, site: Site) -> dict[str, object]:
    """The arguments that limit a page of jobs to those that the person may see."""
    held = await services.rights.listed(person, site)
    seen = await services.sight.clusters(person, site)
    if seen.everything and set(SETUP) <= held.at("/"):
        return {"site_id": site.id}
    ids = set(seen.by_id)
    gone, _ = await services.store.jobs.page(site_id=site.id, kinds=[JobKind.DELETE], phases=[JobPhase.DONE], limit=200)
    for job in gone:
        # The pool is gone with its ACL, so what stands above it decides.
        name = pool_name(job)
        if job.cluster_id and name and SEE in held.at(cluster_pool_path(site, name)):
            ids.add(job.cluster_id)
    return {"cluster_ids": ids}


def _may_decide(caller: AtJob) -> Allowed:
    if caller.cluster is None or caller.site is None:
        return Allowed(allowed=True)
    return allowed(caller.held, CHANGE, pool_of(caller.site, caller.cluster))


async def _decide(caller: AtJob, decision: Decision) -> Decided:
    services, job = caller.services, caller.job
    result = "refused"
    try:
        await services.engine.decide(job, decision)
        result = "done"
    except (NotParked, NoJob) as error:
        raise Conflicting(
            ErrorCode.NOT_AWAITING, f"Job {job.id} waits for nobody's decision.", "Read the job again.", raw=str(error)
        ) from error
    except (EngineAway, NoWorker) as error:
        raise Away(
            ErrorCode.ENGINE_AWAY,
            "The decision could not be delivered; the job stays parked.",
            "Try again in a moment.",
            raw=str(error),
        ) from error
    finally:
        await services.store.audit.record(
            caller.person.known_as,
            caller.site.token_id if caller.site else "",
            f"job.{decision.value}",
            f"job/{job.id}",
            result,
            {"workflow": job.workflow_id},
            caller.source,
        )
    return Decided(job=job.id, decision=decision)


def _line(line: StoredLine) -> LogLine:
    return LogLine(seq=line.seq, at=line.at, step_id=line.step_id, level=line.level, text=line.text)


async def _follow(caller: AtJob, seq: int) -> AsyncIterator[bytes]:
    """Log lines and job changes until the job has ended and everything of it was sent."""
    services, job_id = caller.services, caller.job.id
    yield hello()
    shown = ""
    needs = NeedsJob(Right.SEE_JOB)
    while not services.stopping.is_set():
        mark = await services.store.feed.last()
        try:
            now = await needs(caller.request, job_id)
        except ApiError:
            # Signed out, or the right is gone: the page asks again and learns why.
            return
        # Read before the lines, so that its end is shown only after its last line.
        job = await whole(services, now.job, _may_decide(now), last=seq)
        while lines := await services.store.jobs.log_after(job_id, seq, LINES_AT_ONCE):
            for line in lines:
                yield event("log", _line(line), line.seq)
            seq = lines[-1].seq
        job = job.model_copy(update={"last_log": seq})
        text = job.model_dump_json(exclude={"last_log"})
        if text != shown:
            shown = text
            yield event("job", job)
        if job.ended_at is not None:
            yield event("end", job)
            return
        if await _changes(services, job_id, mark):
            # Changes come in bursts; one look at what they made of the job is enough.
            await asyncio.sleep(BURST)
        else:
            yield heartbeat()


async def _changes(services: Services, job_id: str, mark: int) -> bool:
    """Waits until the job has changed after `mark`; False after a silent while."""
    clock = services.clock
    until = clock().timestamp() + HEARTBEAT
    while (left := until - clock().timestamp()) > 0:
        if not await changed(services, mark, left):
            return False
        changes = await services.store.changes_after(mark, limit=LINES_AT_ONCE)
        if any(change.id == job_id for change in changes):
            return True
        if changes:
            mark = changes[-1].seq
    return False
