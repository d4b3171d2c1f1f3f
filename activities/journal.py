"""The wrapper round every activity: heartbeat, step row, log, a shield for effects, and a place to crash in tests.

* It beats every few seconds with the last details (`heartbeat`), so that a retry resumes within the heartbeat's time
  limit of a death, and so that a cancelled activity learns of it.
* It keeps the step's row in the store: attempt, state, the Proxmox VE task it waits for, and the last error (masked).
  Looks, tasks and repetitions of one effect are one step.
* It gives activities `log` and `heartbeat`. Neither ever takes a secret.
* An effect that is cancelled because its job stands down is finished first; waits are cancelled at once.
"""

import asyncio
import logging
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from domain.contracts import activities as names
from domain.contracts.activities import FINAL_ERRORS, Handle, Lane, TaskOutcome
from domain.diagnosis import mask
from domain.jobs import Step, StepState
from store import Store, StoreError

BEAT = 3.0
"""Seconds between two heartbeats (time limit 10 s: domain.contracts.jobs.TimeLimits.heartbeat)."""
UNSEEN = (names.BEGIN_JOB, names.PLAN, names.REPORT_JOB, names.FINISH_JOB, names.WATCH_SITE)
"""Bookkeeping of the loop itself: no steps that a person follows."""
TASK_SUFFIX = ":task"
"""Ends the activity id of the wait for an effect's task (workflows/effects.py); the step is the effect's."""

_log = logging.getLogger(__name__)


@dataclass
class Entry:
    """What the running activity's journal knows."""

    store: Store
    job_id: str
    step_id: str
    details: tuple[Any, ...] = field(default=())


_entry: ContextVar[Entry | None] = ContextVar("journal_entry", default=None)


async def log(text: str, level: str = "info") -> None:
    """Add a line to the log of the running activity's job. Outside a job the line goes to the process log only.

    Never a secret: what looks like one is masked, but that is the second line of defence, not the first.
    """
    entry = _entry.get()
    if entry is None or not entry.job_id:
        _log.info("%s", mask(text))
        return
    try:
        await entry.store.jobs.append_log(entry.job_id, mask(text), step_id=entry.step_id, level=level)
    except StoreError as error:
        _log.warning("A log line of job %s was not kept: %s", entry.job_id, error)


def heartbeat(*details: Any) -> None:
    """Set what the activity's next attempt finds in `activity.info().heartbeat_details` (a UPID, a boot id)."""
    entry = _entry.get()
    if entry is not None:
        entry.details = details
    if activity.in_activity():
        activity.heartbeat(*details)


def step_id(workflow_id: str, activity_id: str) -> str:
    """The id of a step within its job: the part of the workflow id below the job's own, and the activity id."""
    _, _, machine = workflow_id.partition("/machine/")
    key = activity_id.removesuffix(TASK_SUFFIX)
    return f"machine/{machine}/{key}" if machine else key


class Journal(Interceptor):
    """The interceptor that a worker is given.

    Args:
        store: the store.
        clock: the time.
        point: called with `<activity>:return` when an activity has done its work and its result is not yet known to
            Temporal; the crash-point tests end the process there (workers/crash_points.py).
        beat: seconds between heartbeats.
    """

    def __init__(
        self,
        store: Store,
        clock: Callable[[], datetime],
        point: Callable[[str], None] = lambda name: None,
        beat: float = BEAT,
    ) -> None:
        self.store = store
        self.clock = clock
        self.point = point
        self.beat = beat

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """Called by the SDK once per activity execution."""
        return _Kept(next, self)


class _Kept(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, journal: Journal) -> None:
        super().__init__(next)
        self._journal = journal

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        info = activity.info()
        arg = input.args[0] if input.args else None
        entry = Entry(
            store=self._journal.store,
            job_id=getattr(arg, "job_id", ""),
            step_id=step_id(info.workflow_id or "", info.activity_id),
            details=tuple(info.heartbeat_details),
        )
        token = _entry.set(entry)
        beating = asyncio.create_task(_beat(entry, min(self._journal.beat, _limit(info) / 3)))
        page = _Page(self._journal, entry, info, arg)
        try:
            await page.begun()
            result = await self._run(input, names.lane(info.activity_type))
        except asyncio.CancelledError:
            if not _dying():
                await page.ended(StepState.CANCELLED)
            raise
        except Exception as error:
            await page.failed(error)
            raise
        else:
            await page.returned(result)
            self._journal.point(f"{info.activity_type}:return")
            return result
        finally:
            beating.cancel()
            _entry.reset(token)

    async def _run(self, input: ExecuteActivityInput, lane: Lane) -> Any:
        if lane is Lane.WAIT:
            return await self.next.execute_activity(input)
        # An effect in flight is finished, so that standing down never leaves a call whose answer nobody saw.
        body = asyncio.create_task(self.next.execute_activity(input))
        try:
            return await asyncio.shield(body)
        except asyncio.CancelledError:
            if body.done() or _dying():
                body.cancel()
                raise
            return await body


def _limit(info: activity.Info) -> float:
    return info.heartbeat_timeout.total_seconds() if info.heartbeat_timeout else 3 * BEAT


def _dying() -> bool:
    """True when this attempt must stop at once: the process ends, or a second attempt has begun."""
    details = activity.cancellation_details()
    return details is not None and (details.worker_shutdown or details.timed_out or details.paused)


async def _beat(entry: Entry, every: float) -> None:
    while True:
        activity.heartbeat(*entry.details)
        await asyncio.sleep(every)


class _Page:
    """The row of one step in the store. The store being away does not fail the activity itself."""

    def __init__(self, journal: Journal, entry: Entry, info: activity.Info, arg: Any) -> None:
        self._journal = journal
        self._entry = entry
        self._info = info
        self._upid = getattr(arg, "upid", "")
        self._summary = getattr(arg, "summary", "") or info.activity_type
        self._machine_id = getattr(arg, "machine_id", "") or None
        self._seen = bool(entry.job_id) and info.activity_type not in UNSEEN
        self._kind = entry.step_id.rsplit("machine/", 1)[-1] if self._is_task else info.activity_type
        self._started = journal.clock()

    @property
    def _is_task(self) -> bool:
        return self._info.activity_type == names.WAIT_TASK

    async def begun(self) -> None:
        """The attempt begins."""
        await self._write(StepState.RUNNING)

    async def returned(self, result: Any) -> None:
        """The attempt has a result; an effect that is not done yet, or its task, leaves the step running."""
        if isinstance(result, Handle) and not result.done:
            await self._write(StepState.RUNNING, error=result.waiting_for, upid=result.upid)
        elif isinstance(result, TaskOutcome):
            await self._write(StepState.RUNNING, error="" if result.ok else mask(result.exit_status))
            if not result.ok:
                await log(
                    f"{self._summary}: task {self._upid} ended with {result.exit_status or 'no status'}", "warning"
                )
        else:
            await self.ended(StepState.DONE)
            if self._seen:
                await log(f"{self._summary}: done")

    async def failed(self, error: Exception) -> None:
        """The attempt failed; the row says whether Temporal will try again."""
        text = mask(error.message if isinstance(error, ApplicationError) else str(error) or type(error).__name__)
        if self._final(error):
            await self.ended(StepState.FAILED, text)
        else:
            await self._write(StepState.RETRYING, error=text)
        if self._seen:
            await log(f"{self._summary}: {text} (attempt {self._info.attempt})", "error")

    async def ended(self, state: StepState, error: str = "") -> None:
        """The step is over."""
        await self._write(state, error=error, ended=self._journal.clock())

    def _final(self, error: Exception) -> bool:
        if isinstance(error, ApplicationError) and (error.non_retryable or error.type in FINAL_ERRORS):
            return True
        policy = self._info.retry_policy
        return policy is not None and 0 < policy.maximum_attempts <= self._info.attempt

    async def _write(self, state: StepState, *, error: str = "", upid: str = "", ended: datetime | None = None) -> None:
        if not self._seen:
            return
        step = Step(
            id=self._entry.step_id,
            job_id=self._entry.job_id,
            kind=self._kind,
            summary=self._summary,
            machine_id=self._machine_id,
            state=state,
            attempt=self._info.attempt,
            error=error,
            upid=upid or self._upid,
            started_at=self._started,
            ended_at=ended,
        )
        try:
            await self._journal.store.jobs.upsert_step(step)
        except StoreError as failure:
            _log.warning("Step %s of job %s was not kept: %s", step.id, step.job_id, failure)
