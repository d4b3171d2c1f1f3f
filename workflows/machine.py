"""What the workflows of one machine share: effects in order, parking, standing down, and reports to the parent job."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from temporalio import workflow
from temporalio.exceptions import FailureError

from domain.contracts import jobs as contract
from domain.contracts.activities import JoinWait, MachineRef
from domain.contracts.jobs import MachineInput, MachineProgress
from workflows import effects
from workflows.effects import Caller, StoodDown

Begin = Callable[[], Coroutine[Any, Any, None]]
"""Makes the coroutine of one attempt at a step."""


class MachineWorkflow:
    """Base of CreateMachine and RemoveMachine. Every await here ends on the signal `stand-down`.

    Standing down undoes nothing: the effect in flight finishes, waits are cancelled, and the workflow returns
    `stood-down`. A step that failed for good reports `stuck` and waits for a person's `retry`.
    """

    def __init__(self) -> None:
        self._standing_down = False
        self._permitted = False
        self._decided = False
        self._current: asyncio.Task[None] | None = None
        self._waiting_for = ""
        self._reports: list[asyncio.Task[None]] = []
        """Reports on their way; they are finished before the workflow closes."""
        self._input: MachineInput
        self._caller: Caller

    @workflow.signal(name=contract.POWER_ON)
    def power_on(self) -> None:
        """It is this machine's turn to be powered on."""
        self._permitted = True

    @workflow.signal(name=contract.DECIDED)
    def decided(self, decision: str) -> None:
        """A person decided about the stuck step; `abort` comes as `stand-down`, so only `retry` matters here."""
        self._decided = True

    @workflow.signal(name=contract.STAND_DOWN)
    def stand_down(self) -> None:
        """The parent job was superseded or aborted."""
        self._standing_down = True
        if self._current is not None:
            self._current.cancel()

    def begin(self, machine: MachineInput) -> None:
        """Take the input; called first by `run`."""
        self._input = machine
        self._permitted = self._permitted or machine.permitted
        self._caller = Caller(
            job_id=machine.job_id,
            site_id=machine.site_id,
            who=machine.name,
            limits=machine.limits,
            cluster_id=machine.cluster_id,
            machine_id=machine.machine_id,
        )

    async def effect(self, activity: str) -> None:
        """Bring one effect about, asking a person as often as it fails for good."""
        ref = MachineRef(**self._names(activity))
        await self._persist(
            activity, lambda: effects.run_effect(self._caller, activity, ref, self._note_waiting, stop=self._stop)
        )

    async def wait(self, activity: str, limit: float) -> None:
        """Wait for the node, at most `limit` seconds from power-on."""
        ref = JoinWait(**self._names(activity), limit=limit)
        await self._persist(activity, lambda: effects.run_wait(self._caller, activity, ref, limit=limit))

    async def plain(self, activity: str) -> None:
        """Run an activity that only touches the store."""
        ref = MachineRef(**self._names(activity))
        key = effects.activity_id(self._caller, activity)
        await self._persist(activity, lambda: effects.call(self._caller, activity, ref, type(None), activity_id=key))

    async def turn(self) -> None:
        """Wait until this machine may be powered on."""
        await workflow.wait_condition(lambda: self._permitted or self._standing_down)
        if self._standing_down:
            raise StoodDown

    async def tell(self, state: str, step: str = "", error: str = "") -> None:
        """Report to the parent job. A parent that has gone needs no report."""
        parent = workflow.info().parent
        if parent is None:
            return
        progress = MachineProgress(machine_id=self._input.machine_id, state=state, step=step, error=error)
        handle = workflow.get_external_workflow_handle(parent.workflow_id, run_id=parent.run_id)
        try:
            await handle.signal(contract.MACHINE_PROGRESS, progress)
        except FailureError:
            workflow.logger.info("The parent job no longer takes reports")

    def _names(self, activity: str) -> dict[str, Any]:
        return {
            "job_id": self._input.job_id,
            "cluster_id": self._input.cluster_id,
            "site_id": self._input.site_id,
            "machine_id": self._input.machine_id,
            "name": self._input.name,
            "summary": effects.summary(self._input.name, activity),
        }

    def _stop(self) -> bool:
        return self._standing_down or (bool(self._waiting_for) and workflow.info().is_continue_as_new_suggested())

    def _note_waiting(self, text: str) -> None:
        if text != self._waiting_for:
            self._waiting_for = text
            self._reports.append(asyncio.create_task(self.tell("waiting", error=text)))

    async def settle(self) -> None:
        """Let every report and handler finish; called last by `run`."""
        for report in self._reports:
            await report
        await workflow.wait_condition(workflow.all_handlers_finished)

    async def _persist(self, activity: str, begin: Begin) -> None:
        while True:
            if self._standing_down:
                raise StoodDown
            self._current = asyncio.create_task(begin())
            try:
                await self._current
                return
            except StoodDown:
                if not self._standing_down:
                    # A wait so long that its history is nearly full: the same machine goes on in a fresh run.
                    await self.settle()
                    workflow.continue_as_new(self._input.model_copy(update={"permitted": self._permitted}))
                raise
            except (asyncio.CancelledError, FailureError) as error:
                if self._standing_down:
                    raise StoodDown from error
                if effects.was_cancelled(error):
                    raise
                await self._ask(activity, effects.explain(error))
            finally:
                self._current = None

    async def _ask(self, activity: str, why: str) -> None:
        self._decided = False
        self._waiting_for = ""
        await self.tell("stuck", activity, why)
        await workflow.wait_condition(lambda: self._decided or self._standing_down)
        if self._standing_down:
            raise StoodDown
        self._decided = False
        await self.tell("moving", activity)
