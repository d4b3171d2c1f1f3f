"""CreateMachine: from reserved names to a node that is Ready, as a child of the cluster's job.

Steps: place, clone, size and network, disk, boot ISO; then its turn; power on, join, Ready; away with the ISO.
Nothing is undone on `stand-down`: a later job finds every effect done, or removes the machine.
"""

from temporalio import workflow

from domain.contracts import activities as names
from domain.contracts import jobs as contract
from domain.contracts.jobs import MachineInput
from workflows.effects import StoodDown
from workflows.machine import MachineWorkflow

AHEAD = (
    names.PLACE_MACHINE,
    names.CLONE_MACHINE,
    names.CONFIGURE_MACHINE,
    names.RESIZE_DISK,
    names.UPLOAD_SEED,
    names.ATTACH_SEED,
)
"""What runs ahead of the machine's turn: everything up to power-on (design.md section 5)."""


@workflow.defn(name=contract.CREATE_MACHINE)
class CreateMachine(MachineWorkflow):
    """Makes one machine. Returns `ready` or `stood-down`."""

    @workflow.run
    async def run(self, machine: MachineInput) -> str:
        """Go through the steps in order; each asks a person instead of failing."""
        self.begin(machine)
        try:
            for activity in AHEAD:
                await self.effect(activity)
            await self.tell("seeded")
            await self.turn()
            await self.effect(names.START_MACHINE)
            await self.tell("started")
            await self.wait(names.AWAIT_JOINED, machine.limits.boot)
            await self.tell("joined")
            await self.wait(names.AWAIT_READY, machine.limits.ready)
            await self.effect(names.DETACH_SEED)
            await self.effect(names.DELETE_SEED)
            await self.tell("ready")
            outcome = "ready"
        except StoodDown:
            outcome = "stood-down"
        await self.settle()
        return outcome
