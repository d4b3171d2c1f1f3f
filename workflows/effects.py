"""How a workflow calls an activity: one place for time limits, retries, queues and the words people read.

No other module of `workflows/` calls `workflow.execute_activity`. Every call waits for a cancelled activity to end
(facts/temporal.md 4.3: otherwise the next step runs before the last one has stopped), runs in the lane of its type
and carries a summary that names its object.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    ChildWorkflowError,
    FailureError,
    is_cancelled_exception,
)
from temporalio.exceptions import TimeoutError as TimedOut

from domain.contracts import activities as names
from domain.contracts import ids
from domain.contracts.activities import Handle, Lane, TaskOutcome, TaskRef
from domain.contracts.jobs import TimeLimits
from domain.frozen import Payload

Result = TypeVar("Result")
Waiting = Callable[[str], None]
"""Called with what an effect waits for; with an empty text when it moves again."""

MAX_PAUSE = 60.0
"""Longest pause in seconds between two looks at something that is waited for: or days of waiting fill the history."""
LONG = {names.INSTALL_CLOUD_CONTROLLER: 300.0, names.INSTALL_POD_NETWORK: 300.0, names.UPLOAD_SEED: 120.0}
"""Effects whose one attempt may take longer than `limits.effect`, in seconds: Helm's hooks, a thin line."""
TASK_TRIES = 3
"""How often a task that ended with an error is followed by another look before a person is asked."""
BUSY_WORDS = ("can't lock", "got timeout", "is locked", "no quorum")
"""Exit texts of Proxmox VE tasks that mean 'another holds it now': waited for, no failure (quality.md F8)."""

WORDS = {
    names.PLACE_MACHINE: "choose a node",
    names.CLONE_MACHINE: "clone the template",
    names.CONFIGURE_MACHINE: "set size and network",
    names.RESIZE_DISK: "grow the disk",
    names.UPLOAD_SEED: "upload the boot ISO",
    names.ATTACH_SEED: "attach the boot ISO",
    names.START_MACHINE: "power on",
    names.AWAIT_JOINED: "wait for its node to join",
    names.AWAIT_READY: "wait for its node to be Ready",
    names.DETACH_SEED: "detach the boot ISO",
    names.DELETE_SEED: "delete the boot ISO",
    names.STOP_MACHINE: "power off",
    names.DESTROY_MACHINE: "destroy the VM",
    names.RELEASE_MACHINE: "free VM id and address",
    names.MAKE_AUTHORITIES: "make the certificate authorities",
    names.RESERVE_MACHINES: "reserve VM ids and addresses",
    names.ENSURE_POOL: "make the pool",
    names.ENSURE_USER: "make the cluster's user",
    names.ENSURE_TOKEN: "make the cluster's token",
    names.GRANT_RIGHTS: "grant the cluster's rights",
    names.AWAIT_API: "wait for the first server's API",
    names.CLOUD_CONTROLLER_SECRET: "give the cloud controller its token",
    names.INSTALL_POD_NETWORK: "install the pod network",
    names.INSTALL_CLOUD_CONTROLLER: "install the cloud controller",
    names.OPEN_JOINING: "let machines join by its token",
    names.CLOSE_JOINING: "take the join token away",
    names.LOOK_AT_ETCD: "look whether etcd is whole",
    names.SET_TAINTS: "set taints",
    names.AWAIT_AVAILABLE: "wait until it is Available",
    names.REVOKE_TOKEN: "revoke the cluster's token",
    names.DELETE_USER: "delete the cluster's user",
    names.REVOKE_RIGHTS: "take back the cluster's rights",
    names.DELETE_POOL: "delete the pool",
    names.FORGET_CLUSTER: "forget keys and reservations",
    names.BEGIN_JOB: "open the job's record",
    names.PLAN: "plan the next steps",
    names.REPORT_JOB: "report the phase",
    names.FINISH_JOB: "write the outcome",
    names.WATCH_SITE: "watch machines and clusters",
    names.SELF_TEST_STEP: "clone, boot and delete a small VM",
}
"""What each activity does, as the Temporal UI and the job page show it after the object's name."""


def summary(who: str, activity: str) -> str:
    """The line that stands for a call: `prod-cp-2: clone the template`."""
    return f"{who}: {WORDS[activity]}"


@dataclass(frozen=True)
class Caller:
    """What all calls of one workflow share: the job, the object's name for summaries, and the time limits."""

    job_id: str
    site_id: str
    who: str
    limits: TimeLimits
    cluster_id: str = ""
    machine_id: str = ""


def attempts_for(limits: TimeLimits) -> int:
    """How many attempts fill `limits.persist` seconds of growing pauses.

    A count and not a time budget: a site whose worker is away for an hour must not find its jobs parked, since an
    attempt that nobody could begin is no failure.
    """
    attempts, pause, spent = 1, limits.retry_first, 0.0
    while spent < limits.persist and attempts < 1000:
        spent += pause
        pause = min(pause * 2, limits.retry_max)
        attempts += 1
    return attempts


def queue(lane: Lane, site_id: str) -> str:
    """The task queue of a lane."""
    match lane:
        case Lane.CONTROL:
            return ids.CONTROL_QUEUE
        case Lane.SITE:
            return ids.site_queue(site_id)
        case Lane.CLONE:
            return ids.site_clone_queue(site_id)
        case Lane.WAIT:
            return ids.site_wait_queue(site_id)


async def call(
    caller: Caller,
    activity: str,
    arg: Payload,
    result: type[Result],
    *,
    limit: float | None = None,
    activity_id: str | None = None,
    words: str | None = None,
) -> Result:
    """Run one activity and give its result.

    `limit` in seconds bounds one attempt (default `limits.effect`). Activities of the store are repeated until they
    succeed, since without the store no outcome can be written either; others as long as `limits.persist` says.
    Raises ActivityError when it failed for good.
    """
    lane = names.lane(activity)
    limits = caller.limits
    bookkeeping = lane is Lane.CONTROL
    outcome: Result = await workflow.execute_activity(
        activity,
        arg,
        task_queue=queue(lane, caller.site_id),
        result_type=result,
        start_to_close_timeout=timedelta(seconds=max(limit or limits.effect, LONG.get(activity, 0.0))),
        heartbeat_timeout=timedelta(seconds=limits.heartbeat),
        retry_policy=RetryPolicy(
            initial_interval=timedelta(seconds=limits.retry_first),
            backoff_coefficient=2.0,
            maximum_interval=timedelta(seconds=limits.retry_max),
            maximum_attempts=0 if bookkeeping else attempts_for(limits),
            non_retryable_error_types=list(names.FINAL_ERRORS),
        ),
        cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        activity_id=activity_id,
        summary=words or summary(caller.who, activity),
    )
    return outcome


async def run_wait(caller: Caller, activity: str, arg: Payload, *, limit: float) -> None:
    """Run one wait. The activity itself ends it after `limit` seconds (error `TimedOut`); ours is the backstop."""
    backstop = limit + caller.limits.effect
    await call(caller, activity, arg, type(None), limit=backstop, activity_id=activity_id(caller, activity))


def activity_id(caller: Caller, activity: str, part: str = "") -> str:
    """The activity's id within its workflow: the same for every look at one effect, so the job page shows one step."""
    object_id = f"/{caller.machine_id}" if caller.machine_id else ""
    return f"{activity}{object_id}{part}"


async def run_effect(
    caller: Caller, activity: str, arg: Payload, waiting: Waiting, *, stop: Callable[[], bool]
) -> None:
    """Bring one effect about: look and act, wait for the task, look again, until its end state was seen.

    `stop()` is asked between two calls (a safe point: no effect in flight) and ends the round with `StoodDown`.
    Raises ActivityError, or ApplicationError of type `TaskFailed` when Proxmox VE's task keeps failing.
    """
    pause_factor, failures, busy = 1.0, 0, 0
    step = activity_id(caller, activity)
    while True:
        if stop():
            raise StoodDown
        handle = await call(caller, activity, arg, Handle | None, activity_id=step)  # type: ignore[arg-type]
        if handle is None or handle.done:
            waiting("")
            return
        if stop():
            raise StoodDown
        waiting(handle.waiting_for)
        if not handle.upid:
            await pause(caller, activity, min(handle.pause * pause_factor, MAX_PAUSE), handle.waiting_for)
            pause_factor = min(pause_factor * 1.5, MAX_PAUSE)
            continue
        ended = await wait_task(caller, activity, handle.upid)
        if ended.ok:
            continue
        if ended.vanished or any(word in ended.exit_status for word in BUSY_WORDS):
            busy += 1
            if busy < attempts_for(caller.limits):
                waiting("" if ended.vanished else f"{caller.who}: {ended.exit_status}")
                seconds = min(caller.limits.retry_first * 2 ** min(busy, 6), MAX_PAUSE)
                await pause(caller, activity, seconds, ended.exit_status)
                continue
        failures += 1
        if failures >= TASK_TRIES or busy >= attempts_for(caller.limits):
            raise ApplicationError(
                f"The Proxmox VE task {handle.upid} ended with: {ended.exit_status or 'no status'}",
                type="TaskFailed",
                non_retryable=True,
            )
        await pause(caller, activity, caller.limits.retry_first * 2**failures, ended.exit_status)


async def wait_task(caller: Caller, activity: str, upid: str) -> TaskOutcome:
    """Wait for one Proxmox VE task of an effect; ends after `limits.task` seconds with an ActivityError."""
    words = f"{summary(caller.who, activity)}: its task"
    ref = TaskRef(
        job_id=caller.job_id,
        cluster_id=caller.cluster_id,
        site_id=caller.site_id,
        machine_id=caller.machine_id,
        upid=upid,
        summary=summary(caller.who, activity),
    )
    return await call(
        caller,
        names.WAIT_TASK,
        ref,
        TaskOutcome,
        limit=caller.limits.task,
        activity_id=activity_id(caller, activity, ":task"),
        words=words,
    )


async def pause(caller: Caller, activity: str, seconds: float, why: str) -> None:
    """Wait between two looks; the timer's summary says what for."""
    reason = why or "look again"
    await workflow.sleep(timedelta(seconds=seconds), summary=f"{summary(caller.who, activity)}: {reason}"[:100])


class StoodDown(Exception):
    """The workflow was told to stand down and has reached a safe point. Never leaves `workflows/`."""


def explain(error: BaseException) -> str:
    """What a person reads about a failed step: what happened, in the words of the activity that saw it."""
    if isinstance(error, ChildWorkflowError) and error.cause is not None:
        return explain(error.cause)
    if isinstance(error, ActivityError):
        cause = error.cause
        if isinstance(cause, ApplicationError):
            return cause.message
        if isinstance(cause, TimedOut):
            return f"{error.activity_type} gave no sign of life or did not end in time; its worker may have stopped."
        return cause.message if isinstance(cause, FailureError) else str(cause or error)
    if isinstance(error, FailureError):
        return error.message
    return str(error) or type(error).__name__


def was_cancelled(error: BaseException) -> bool:
    """True for a cancellation in any of the shapes it takes after crossing an activity or a child."""
    return isinstance(error, asyncio.CancelledError) or is_cancelled_exception(error)
