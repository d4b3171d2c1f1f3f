"""Jobs: what is being done, how far it is, and what a person may say to one that waits for a word."""

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Response

from api.access import AtJob, NeedsJob, NeedsSession, Right, SignedIn
from api.models.jobs import Decided, Job, JobSummary, Log
from api.models.shapes import Page
from api.problems import not_built
from domain.jobs import JobPhase

router = APIRouter(prefix="/jobs", tags=["jobs"])
STREAM = {200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "Events"}}
LastEventId = Annotated[str | None, Header(alias="Last-Event-ID")]


@router.get("")
async def list_jobs(
    phase: Annotated[list[JobPhase] | None, Query()] = None,
    offset: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    caller: SignedIn = Depends(NeedsSession(Right.SIGNED_IN)),
) -> Page[JobSummary]:
    """The jobs that the person may see, newest first."""
    raise not_built("This")


@router.get("/{job_id}")
async def read_job(caller: AtJob = Depends(NeedsJob(Right.SEE_JOB))) -> Job:
    """One job with its steps, what it waits for, and links into the Temporal UI and Proxmox VE."""
    raise not_built("This")


@router.get("/{job_id}/log")
async def read_log(
    after: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 500,
    caller: AtJob = Depends(NeedsJob(Right.SEE_JOB)),
) -> Log:
    """The log lines after a sequence number."""
    raise not_built("This")


@router.get("/{job_id}/events", responses=STREAM, response_class=Response)
async def follow_job(
    last_event_id: LastEventId = None,
    after: Annotated[int, Query(ge=0, description="Like Last-Event-ID, for the first connection.")] = 0,
    caller: AtJob = Depends(NeedsJob(Right.SEE_JOB)),
) -> Response:
    """The job live: events `log` (a LogLine; its id resumes), `job` (a Job, when it changed) and `end`."""
    raise not_built("This")


@router.post("/{job_id}/retry", status_code=202)
async def retry_job(caller: AtJob = Depends(NeedsJob(Right.DECIDE_JOB))) -> Decided:
    """Lets a parked job go on at the step where it stands; finished steps are not done again."""
    raise not_built("This")


@router.post("/{job_id}/abort", status_code=202)
async def abort_job(caller: AtJob = Depends(NeedsJob(Right.DECIDE_JOB))) -> Decided:
    """Ends a parked job where it stands. What was made stays until the cluster is changed or deleted."""
    raise not_built("This")
