"""Power, and the end of a VM: on, off, gone and proved gone."""

from temporalio import activity

from activities.proxmox.acting import AWAY_PAUSE, DONE, Acting, MachineScene, after_task, effect, waiting
from activities.proxmox.presence import Sight, State, look
from activities.proxmox.sizing import ours
from clients.neighbours import answering_port
from clients.proxmox import Failed, NotThere
from domain.clusters import Mark
from domain.contracts import activities as names
from domain.contracts.activities import Handle, MachineRef
from domain.machines import Phase


class Power(Acting):
    """proxmox.start_machine, stop_machine and destroy_machine."""

    @activity.defn(name=names.START_MACHINE)
    @effect
    async def start_machine(self, ref: MachineRef) -> Handle:
        """Powers the machine on.

        Effect: the VM runs. Nothing while its address, or the virtual IP before its first server, is somebody else's.
        Key: the machine's VM.
        Done-when: the VM runs.
        Final: the VM is gone.
        """
        scene = await self._take(ref)
        sight = await ours(scene)
        if isinstance(sight, Handle):
            return sight
        if sight.running:
            await self._reach(scene, Phase.STARTED)
            return DONE
        neighbour = await _neighbour(scene)
        if neighbour:
            return waiting(neighbour, AWAY_PAUSE)
        running = await self._before_task(scene, sight)
        if running is not None:
            return running
        try:
            upid = await scene.client.post(f"nodes/{sight.node}/qemu/{scene.machine.vmid}/status/start")
        except Failed as error:
            if "already running" in error.text:
                return Handle(done=False, pause=0.05)
            raise
        return after_task(upid)

    @activity.defn(name=names.STOP_MACHINE)
    @effect
    async def stop_machine(self, ref: MachineRef) -> Handle:
        """Powers the machine off, at once: what is deleted need not shut down.

        Effect: the VM does not run; the machine's phase becomes Deleting.
        Key: the machine's VM.
        Done-when: the VM is stopped, or there is none of ours under the machine's id.
        Final: none of its own.
        """
        scene = await self._leave(ref)
        sight = await look(scene.client, scene.machine)
        match sight.state:
            case State.AWAY:
                return waiting(sight.why, AWAY_PAUSE)
            case State.MAKING:
                return Handle(done=False, upid=sight.upid, waiting_for=sight.why, pause=2.0)
            case State.OURS if sight.running:
                return await self._stop(scene, sight)
            case _:
                return DONE

    @activity.defn(name=names.DESTROY_MACHINE)
    @effect
    async def destroy_machine(self, ref: MachineRef) -> Handle:
        """Destroys the machine's VM with its disks, and proves that it is gone.

        Effect: no VM of ours under the machine's id, anywhere in the datacenter.
        Key: the machine's VM id together with our marker; a VM without it is never touched.
        Done-when: the id is free, or somebody else's; never while the node that the VM was last on cannot be seen.
        Final: none of its own.
        """
        scene = await self._leave(ref)
        sight = await look(scene.client, scene.machine)
        match sight.state:
            case State.ABSENT | State.FOREIGN:
                return DONE
            case State.AWAY:
                return waiting(sight.why, AWAY_PAUSE)
            case State.MAKING:
                return Handle(done=False, upid=sight.upid, waiting_for=sight.why, pause=2.0)
            case State.OURS if sight.running:
                return await self._stop(scene, sight)
        running = await self._before_task(scene, sight)
        if running is not None:
            return running
        path = f"nodes/{sight.node}/qemu/{scene.machine.vmid}"
        try:
            upid = await scene.client.delete(path, purge=True, **{"destroy-unreferenced-disks": True})
        except NotThere:
            upid = None
        return after_task(upid)

    async def _stop(self, scene: MachineScene, sight: Sight) -> Handle:
        running = await self._before_task(scene, sight)
        if running is not None:
            return running
        path = f"nodes/{sight.node}/qemu/{scene.machine.vmid}/status/stop"
        try:
            return after_task(await scene.client.post(path))
        except NotThere:
            return Handle(done=False, pause=0.05)

    async def _leave(self, ref: MachineRef) -> MachineScene:
        """Takes the machine and writes that it is on its way out, so that nothing is placed or planned with it."""
        scene = await self._take(ref)
        await self._reach(scene, Phase.DELETING)
        return scene


async def _neighbour(scene: MachineScene) -> str:
    """Who has an address that this machine is to bring up; empty when nobody shows.

    Two hosts with one address are the hardest fault to see afterwards: each seems to work now and then.
    """
    machine, cluster = scene.machine, scene.cluster
    if machine.phase.reached(Phase.STARTED):
        return ""  # what answers there is perhaps itself, a moment ago
    asked = {machine.address: f"the address of {machine.name}"}
    if machine.initialiser and Mark.API_ANSWERS not in cluster.marks:
        asked[cluster.spec.endpoint] = f"the virtual IP of {cluster.name}"
    for address, what in asked.items():
        port = await answering_port(address)
        if port is not None:
            return (
                f"{address} is to be {what}, and another device takes connections there (port {port}). Nothing was "
                "powered on. Take the address from that device; or delete this cluster and give it other addresses."
            )
    return ""
