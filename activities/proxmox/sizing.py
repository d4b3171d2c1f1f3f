"""The VM becomes the machine: name, size, network, identity, disk."""

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.proxmox.acting import AWAY_PAUSE, DONE, Acting, MachineScene, after_task, effect, final, waiting
from activities.proxmox.presence import Sight, State, look
from activities.proxmox.vm_config import changes, drives, size_of, system_disk
from domain.contracts import activities as names
from domain.contracts.activities import Handle, MachineRef
from domain.machines import Machine, Phase

_GIB = 2**30


class Sizing(Acting):
    """proxmox.configure_machine and proxmox.resize_disk."""

    @activity.defn(name=names.CONFIGURE_MACHINE)
    @effect
    async def configure_machine(self, ref: MachineRef) -> Handle:
        """Gives the VM its name, tags, cores, memory, network card, SMBIOS identity, start at boot and guest agent.

        Effect: one write of the VM's configuration, with only what differs.
        Key: the machine's VM; its digest, so that somebody's write in between is not lost.
        Done-when: the configuration reads back as wanted, or the machine has been started already.
        Final: Proxmox VE refuses a value; the VM is gone.
        """
        scene = await self._take(ref)
        if scene.machine.phase.reached(Phase.STARTED):
            return DONE
        sight = await ours(scene)
        if isinstance(sight, Handle):
            return sight
        fresh = not scene.machine.phase.reached(Phase.CONFIGURED)
        changed = changes(sight.config, scene.machine, scene.cluster, fresh=fresh)
        if not changed:
            return DONE
        if sight.running:
            # It runs before we ever started it: somebody else did. Half its settings would only become pending.
            raise not_started_by_us(scene.machine)
        running = await self._before_task(scene, sight)
        if running is not None:
            return running
        digest = sight.config.get("digest")
        path = f"nodes/{sight.node}/qemu/{scene.machine.vmid}/config"
        return after_task(await scene.client.post(path, digest=digest, **changed))

    @activity.defn(name=names.RESIZE_DISK)
    @effect
    async def resize_disk(self, ref: MachineRef) -> Handle:
        """Grows the system disk to the machine's size; a template's larger disk stays as it is.

        Effect: the disk's size, given as an absolute number, so that twice is once.
        Key: the machine's VM and its system disk.
        Done-when: the disk is at least as large as wanted.
        Final: the VM is gone or has no disk.
        """
        scene = await self._take(ref)
        if scene.machine.phase.reached(Phase.STARTED):
            return DONE
        sight = await ours(scene)
        if isinstance(sight, Handle):
            return sight
        disk = system_disk(sight.config)
        if disk is None:
            raise final(f"VM {scene.machine.vmid} has no disk to boot from.", "TemplateMissing")
        if size_of(drives(sight.config)[disk]) >= scene.machine.disk_gib * _GIB:
            await self._reach(scene, Phase.CONFIGURED)
            return DONE
        running = await self._before_task(scene, sight)
        if running is not None:
            return running
        path = f"nodes/{sight.node}/qemu/{scene.machine.vmid}/resize"
        return after_task(await scene.client.put(path, disk=disk, size=f"{scene.machine.disk_gib}G"))


async def ours(scene: MachineScene) -> Sight | Handle:
    """The machine's VM, seen to be ours; or what to wait for. Raises a final error when it is not there."""
    sight = await look(scene.client, scene.machine)
    match sight.state:
        case State.OURS:
            return sight
        case State.MAKING:
            return Handle(done=False, upid=sight.upid, waiting_for=sight.why, pause=2.0)
        case State.AWAY:
            return waiting(sight.why, AWAY_PAUSE)
        case _:
            raise final(
                f"VM {scene.machine.vmid} of {scene.machine.name} is gone: somebody deleted it. Abort this job; "
                "the next one makes it again where it had not been started yet.",
                "NotOurs",
            )


def not_started_by_us(machine: Machine) -> ApplicationError:
    """The error for a VM that runs although it has no boot ISO yet."""
    return final(
        f"VM {machine.vmid} of {machine.name} runs although it was not prepared yet: somebody started it. Stop it in "
        "Proxmox VE, then retry.",
        "NotOurs",
    )
