"""The one loop that every cluster job runs: plan, start what is due, wait for anything, plan again.

The plan comes from `records.plan`, so only its small answers enter the history and a changed planner never breaks the
replay of an open job. The loop knows four ways out: finished, superseded (the cluster now wants another job), aborted
(a person said so) and refused (a deletion that nobody recorded). Whatever the way, every child and step has ended and
every handler has finished before the outcome is written.

Safe points are all places where no effect is in flight. Standing down cancels waits and pauses at once, lets the
effect in flight finish (activities/journal.py shields it), and lets children do the same through `stand-down`.
"""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError, FailureError, WorkflowAlreadyStartedError

from domain.clusters import Outcome
from domain.contracts import activities as names
from domain.contracts import ids
from domain.contracts import jobs as contract
from domain.contracts.activities import (
    BeginJob,
    ClusterRef,
    ClusterWait,
    FinishJob,
    JobState,
    PlanAnswer,
    PlanRequest,
    ReportJob,
    StepOrder,
)
from domain.contracts.jobs import JobInput, MachineInput, MachineProgress
from domain.jobs import Decision, JobKind, JobPhase
from domain.plan import StepKind
from workflows import attributes, effects
from workflows.board import Board, Child, Way, key_of, some
from workflows.effects import Caller, StoodDown

IDLE_FIRST, IDLE_MAX = 5.0, 300.0
"""Seconds until the next look when nothing is in flight and the plan waits for something outside."""


class ClusterJob:
    """Base of the workflows under a cluster's one workflow id.

    Subclasses set `kind`, the effects of each cluster-wide step in order, and the steps that are waits. Machine steps
    are children for all of them.
    """

    kind: JobKind
    step_effects: Mapping[str, tuple[str, ...]] = {}
    step_waits: Mapping[str, str] = {}

    def __init__(self) -> None:
        self._board = Board()
        self._dirty = True
        self._way: Way | None = None
        self._closing = False
        self._state = JobState()
        self._reported = (JobPhase.RUNNING, "", "")
        self._plan_waits_for = ""
        self._input: JobInput
        self._caller: Caller

    # --- what the outside may say ---

    @workflow.signal(name=contract.CHANGED)
    def changed(self) -> None:
        """The cluster's row changed; look at the next safe point."""
        self._dirty = True

    @workflow.signal(name=contract.MACHINE_PROGRESS)
    def machine_progress(self, progress: MachineProgress) -> None:
        """A machine's own workflow tells how far it is."""
        key = self._key_of_child(progress.machine_id)
        if key is None:
            return
        match progress.state:
            case "stuck":
                self._board.stuck[key] = progress.error
                self._board.waiting.pop(key, None)
            case "moving":
                self._board.stuck.pop(key, None)
            case "waiting":
                self._wait_for(key, progress.error)
            case "ready":
                self._wait_for(key, "")  # the child ends right after; that is what is planned on
            case _:
                self._dirty = True

    @workflow.update(name=contract.RETRY)
    def retry(self) -> str:
        """Try every stuck step again, in this same run."""
        stuck = list(self._board.stuck)
        for key in stuck:
            self._board.stuck.pop(key)
            machine = self._board.orders[key].machine_id
            if key in self._board.tasks:
                self._send(machine, contract.DECIDED, Decision.RETRY.value)
        self._dirty = True
        return f"trying again: {', '.join(stuck)}"

    @retry.validator
    def check_retry(self) -> None:
        """Refused unless the job is parked."""
        self._refuse_unless_parked(Decision.RETRY)

    @workflow.update(name=contract.ABORT)
    def abort(self) -> str:
        """End the job where it stands. Nothing is undone; the cluster stays as it is until its next change."""
        why = "; ".join(self._board.stuck.values())
        self._leave(Way(Outcome.ABORTED, f"Aborted while it was parked: {why}"))
        return "aborting"

    @abort.validator
    def check_abort(self) -> None:
        """Refused unless the job is parked."""
        self._refuse_unless_parked(Decision.ABORT)

    # --- the loop ---

    async def drive(self, job: JobInput) -> str:
        """Run the job to its outcome and return it. Called by the subclass's `run`."""
        self._input = job
        info = workflow.info()
        self._caller = Caller(
            job_id=info.run_id,
            site_id=job.site_id,
            who=job.cluster_name,
            limits=job.limits,
            cluster_id=job.cluster_id,
        )
        begin = BeginJob(
            job_id=info.run_id,
            workflow_id=info.workflow_id,
            kind=self.kind,
            cluster_id=job.cluster_id,
            site_id=job.site_id,
        )
        self._state = await effects.call(self._caller, names.BEGIN_JOB, begin, JobState)
        refusal = self.refusal(self._state)
        if refusal:
            await self._finish(Way(Outcome.SUPERSEDED, refusal))
            raise ApplicationError(refusal, type="NotWanted", non_retryable=True)
        try:
            await self._work()
        except asyncio.CancelledError:
            # Cancelled through Temporal itself: the same as a person's abort, so that no effect is cut short.
            self._leave(Way(Outcome.ABORTED, "Cancelled through the Temporal server"))
        way = self._way or Way(Outcome.DONE)
        while self._board.tasks:
            await workflow.wait_condition(lambda: not self._board.tasks)
        await self._finish(way)
        return way.outcome

    def refusal(self, state: JobState) -> str:
        """Why this job must not begin at all; empty when it may."""
        return ""

    def superseded(self, state: JobState) -> str:
        """Why this kind of job is no longer what the cluster wants; empty while it is."""
        if state.epoch != self._state.epoch:
            return "The store was restored from a backup (its epoch changed); a fresh job goes on from what it says"
        return ""

    async def begin_step(self, order: StepOrder) -> None:
        """Carry out one cluster-wide step; raises FailureError when a person must act."""
        if order.kind in self.step_waits:
            activity = self.step_waits[order.kind]
            limit = self._input.limits.available if activity == names.AWAIT_AVAILABLE else self._input.limits.boot
            wait = ClusterWait(**self._names(activity), limit=limit)
            await effects.run_wait(self._caller, activity, wait, limit=limit)
            return
        for activity in self.step_effects[order.kind]:
            ref = ClusterRef(**self._names(activity))
            await effects.run_effect(self._caller, activity, ref, self.waiting(order), stop=self._stop)

    def _names(self, activity: str) -> dict[str, Any]:
        return {
            "job_id": self._caller.job_id,
            "cluster_id": self._input.cluster_id,
            "site_id": self._input.site_id,
            "summary": effects.summary(self._caller.who, activity),
        }

    async def _work(self) -> None:
        idle = IDLE_FIRST
        while self._way is None:
            if self._dirty:
                self._dirty = False
                answer = await self._plan()
                if self._way is not None:
                    return
                if gone := self.superseded(answer.state):
                    self._leave(Way(Outcome.SUPERSEDED, gone))
                    return
                if answer.state.exists:  # what is forgotten has no generation; the last one known is settled
                    self._state = answer.state
                self._plan_waits_for = answer.waiting_for
                if answer.finished and not self._board.tasks and not self._board.stuck:
                    return
                for order in answer.steps:
                    self._start(order)
            await self._report()
            if self._dirty or self._way is not None:
                continue
            if self._board.tasks or self._board.stuck:
                idle = IDLE_FIRST
                # Held against what was reported: what came while that report was on its way is told too.
                await workflow.wait_condition(
                    lambda: self._dirty or self._way is not None or self._report_wanted() != self._reported
                )
            else:
                try:
                    await workflow.wait_condition(
                        lambda: self._dirty or self._way is not None,
                        timeout=timedelta(seconds=idle),
                        timeout_summary=f"{self._caller.who}: {self._plan_waits_for or 'look again'}"[:100],
                    )
                except TimeoutError:
                    self._dirty = True
                idle = min(idle * 2, IDLE_MAX)

    async def _plan(self) -> PlanAnswer:
        request = PlanRequest(
            job_id=self._caller.job_id,
            cluster_id=self._input.cluster_id,
            site_id=self._input.site_id,
            kind=self.kind,
            epoch=self._state.epoch,
            busy=self._board.busy(),
        )
        return await effects.call(self._caller, names.PLAN, request, PlanAnswer)

    def _start(self, order: StepOrder) -> None:
        key = key_of(order.kind, order.machine_id)
        if order.kind == StepKind.POWER_ON:
            self._permit(order)
            return
        if key in self._board.tasks:
            return
        self._board.orders[key] = order
        self._board.tasks[key] = asyncio.create_task(self._run_step(key, order))

    def _permit(self, order: StepOrder) -> None:
        child = self._board.children.get(order.machine_id)
        if child is None:
            # Its workflow ended without making it Ready; the planner gives `create-machine` again, then its turn.
            return
        child.permitted = True
        self._send(order.machine_id, contract.POWER_ON)

    async def _run_step(self, key: str, order: StepOrder) -> None:
        failed = ""
        try:
            if order.kind in (StepKind.CREATE_MACHINE, StepKind.REMOVE_MACHINE):
                await self._run_child(order)
            else:
                await self.begin_step(order)
        except StoodDown:
            pass
        except (asyncio.CancelledError, FailureError) as error:
            if self._way is None:
                failed = effects.explain(error) or "It was cancelled from outside"
        finally:
            self._board.tasks.pop(key, None)
            self._board.waiting.pop(key, None)
            self._board.stuck.pop(key, None)
            if failed:
                self._board.stuck[key] = failed
            else:
                self._dirty = True

    async def _run_child(self, order: StepOrder) -> None:
        type_ = contract.CREATE_MACHINE if order.kind == StepKind.CREATE_MACHINE else contract.REMOVE_MACHINE
        child = self._board.children[order.machine_id] = Child(permitted=order.permitted)
        machine = MachineInput(
            job_id=self._caller.job_id,
            cluster_id=self._input.cluster_id,
            site_id=self._input.site_id,
            machine_id=order.machine_id,
            name=order.name,
            limits=self._input.limits,
            permitted=order.permitted,
        )
        try:
            child.handle = await self._start_child(type_, machine, order)
            if self._way is not None:
                await self._signal(child, contract.STAND_DOWN)
            elif child.permitted and not order.permitted:
                await self._signal(child, contract.POWER_ON)
            await child.handle
        finally:
            self._board.children.pop(order.machine_id, None)

    async def _start_child(
        self, type_: str, machine: MachineInput, order: StepOrder
    ) -> "workflow.ChildWorkflowHandle[object, str]":
        """Start a machine's workflow. One of a terminated earlier job may still be closing under the same id."""
        while True:
            try:
                return await workflow.start_child_workflow(
                    type_,
                    machine,
                    id=ids.machine_workflow(workflow.info().workflow_id, machine.name),
                    result_type=str,
                    task_queue=ids.CONTROL_QUEUE,
                    retry_policy=RetryPolicy(maximum_attempts=1),
                    search_attributes=attributes.for_child(self._input.cluster_name, self._input.site_name, type_),
                    static_summary=order.summary or machine.name,
                    static_details=f"Machine `{machine.name}` of cluster `{self._input.cluster_name}`",
                )
            except WorkflowAlreadyStartedError:
                if self._way is not None:
                    raise StoodDown from None
                await workflow.sleep(
                    timedelta(seconds=1), summary=f"{machine.name}: the earlier workflow of this machine to close"
                )

    # --- standing down, parking, reporting ---

    def _leave(self, way: Way) -> None:
        """Decide how the job ends and let everything in flight come to its safe point."""
        if self._way is not None:
            return
        self._way = way
        for key, task in list(self._board.tasks.items()):
            machine = self._board.orders[key].machine_id
            if machine and machine in self._board.children:
                self._send(machine, contract.STAND_DOWN)
            else:
                task.cancel()

    def _stop(self) -> bool:
        return self._way is not None

    def _send(self, machine_id: str, signal: str, *args: str) -> None:
        child = self._board.children.get(machine_id)
        if child is not None and child.handle is not None:
            self._sending = asyncio.create_task(self._signal(child, signal, *args))

    async def _signal(self, child: Child, signal: str, *args: str) -> None:
        assert child.handle is not None  # noqa: S101 - callers have looked
        try:
            await child.handle.signal(signal, args=list(args))
        except FailureError:
            workflow.logger.info("The machine's workflow has just ended; the signal %s has no reader", signal)

    def _key_of_child(self, machine_id: str) -> str | None:
        for kind in (StepKind.CREATE_MACHINE, StepKind.REMOVE_MACHINE):
            if key_of(kind, machine_id) in self._board.tasks:
                return key_of(kind, machine_id)
        return None

    def _wait_for(self, key: str, text: str) -> None:
        if text:
            who = self._board.orders[key].name
            self._board.waiting[key] = text if text.startswith(who) else f"{who}: {text}"
        else:
            self._board.waiting.pop(key, None)

    def waiting(self, order: StepOrder) -> effects.Waiting:
        """Where the effect of a cluster-wide step tells what it waits for."""
        return lambda text: self._wait_for(key_of(order.kind, order.machine_id), text)

    def _parked(self) -> bool:
        return bool(self._board.stuck) and self._way is None and not self._closing

    def _refuse_unless_parked(self, decision: Decision) -> None:
        if self._parked():
            return
        state = "is ending" if self._way is not None or self._closing else "is at work and waits for nobody"
        raise ApplicationError(f"{decision} refused: this job is not parked, it {state}", type="NotParked")

    def _report_wanted(self) -> tuple[JobPhase, str, str]:
        if self._board.stuck:
            return JobPhase.AWAITING_DECISION, "a person to decide: retry or abort", some(self._board.stuck)
        if self._board.waiting:
            return JobPhase.WAITING, some(self._board.waiting), ""
        if not self._board.tasks and self._plan_waits_for:
            return JobPhase.WAITING, self._plan_waits_for, ""
        return JobPhase.RUNNING, "", ""

    async def _report(self) -> None:
        wanted = self._report_wanted()
        if wanted == self._reported:
            return
        if wanted[0] != self._reported[0]:
            workflow.upsert_search_attributes([attributes.JOB_PHASE.value_set(wanted[0].value)])
        self._reported = wanted
        phase, waiting_for, error = wanted
        workflow.set_current_details(f"**{phase}** {waiting_for}\n\n{error}".strip())
        report = ReportJob(
            job_id=self._caller.job_id,
            cluster_id=self._input.cluster_id,
            phase=phase,
            waiting_for=waiting_for,
            error=error,
        )
        await effects.call(self._caller, names.REPORT_JOB, report, type(None))

    async def _finish(self, way: Way) -> None:
        self._closing = True
        finish = FinishJob(
            job_id=self._caller.job_id,
            cluster_id=self._input.cluster_id,
            generation=self._state.generation,
            outcome=way.outcome,
            error=way.error,
        )
        await effects.call(self._caller, names.FINISH_JOB, finish, type(None))
        workflow.upsert_search_attributes([attributes.JOB_PHASE.value_set(way.outcome.value)])
        await workflow.wait_condition(workflow.all_handlers_finished)
