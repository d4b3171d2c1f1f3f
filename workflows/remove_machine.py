"""RemoveMachine: power off, destroy, free what was reserved. An offline node is waited for, never guessed about."""

from temporalio import workflow

from domain.contracts import activities as names
from domain.contracts import jobs as contract
from domain.contracts.jobs import MachineInput
from workflows.effects import StoodDown
from workflows.machine import MachineWorkflow


@workflow.defn(name=contract.REMOVE_MACHINE)
class RemoveMachine(MachineWorkflow):
    """Removes one machine. Returns `gone` or `stood-down`."""

    @workflow.run
    async def run(self, machine: MachineInput) -> str:
        """Go through the steps in order; reservations are freed only after the VM was proved absent."""
        self.begin(machine)
        try:
            await self.effect(names.STOP_MACHINE)
            await self.effect(names.DESTROY_MACHINE)
            await self.effect(names.DELETE_SEED)
            await self.plain(names.RELEASE_MACHINE)
            outcome = "gone"
        except StoodDown:
            outcome = "stood-down"
        await self.settle()
        return outcome
