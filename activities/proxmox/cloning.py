"""The VM comes into being: a clone that carries our marker from its first moment."""

from typing import Any

from temporalio import activity

from activities import journal
from activities.proxmox.acting import AWAY_PAUSE, DONE, MachineScene, after_task, effect, final, waiting
from activities.proxmox.placing import Placing
from activities.proxmox.presence import Resources, Sight, State, look
from activities.proxmox.vm_config import drives, is_cdrom, storage_of, system_disk
from clients.proxmox import NotThere
from domain.contracts import activities as names
from domain.contracts.activities import Handle, MachineRef
from domain.machines import Phase

_BURNS = 20
"""How many foreign VM ids one call walks past before it asks for another look."""


class Cloning(Placing):
    """proxmox.clone_machine."""

    @activity.defn(name=names.CLONE_MACHINE)
    @effect
    async def clone_machine(self, ref: MachineRef) -> Handle:
        """Makes the machine's VM from its template.

        Effect: a VM under the reserved id, in the cluster's pool, with our marker in its description.
        Key: the machine's reserved VM id; an id that somebody else took is given up for the next one.
        Done-when: the VM of that id carries our marker and no clone lock.
        Final: the template is gone; the machine had been started before and its VM has vanished.
        """
        scene = await self._take(ref)
        for _ in range(_BURNS):
            sight = await look(scene.client, scene.machine)
            match sight.state:
                case State.OURS:
                    await self._reach(scene, Phase.CLONED)
                    return DONE
                case State.MAKING:
                    return Handle(done=False, upid=sight.upid, waiting_for=sight.why, pause=2.0)
                case State.AWAY if sight.id_free and not scene.machine.phase.reached(Phase.CLONED):
                    # Its node went away before anything of it existed: another allowed node may take it.
                    placed = await self._place(scene, sight.resources)
                    if not placed.done:
                        return placed
                    scene = scene.of(await self._store.machines.get(scene.machine.id))
                case State.AWAY:
                    return waiting(sight.why, AWAY_PAUSE)
                case State.FOREIGN:
                    scene = await self._next_id(scene)
                case State.ABSENT:
                    return await self._clone(scene, sight)
        return waiting(f"VM id {scene.machine.vmid} is taken by somebody else", 0.1)

    async def _next_id(self, scene: MachineScene) -> MachineScene:
        """Somebody else's VM has our id: it stays untouched, and the machine takes the next id."""
        await self._still_held(scene)
        old = scene.machine.vmid
        machine = await self._store.machines.burn_vmid(scene.machine.id)
        await journal.log(f"VM id {old} belongs to somebody else's VM; {machine.name} takes {machine.vmid}.", "warning")
        return scene.of(machine)

    async def _clone(self, scene: MachineScene, sight: Sight) -> Handle:
        machine = scene.machine
        if machine.phase.reached(Phase.STARTED):
            raise final(
                f"VM {machine.vmid} of {machine.name} is gone although the machine had been started. It is not made "
                "again under the same identity; abort this job and delete the cluster, or replace the machine.",
                "NotOurs",
            )
        if machine.template_vmid is None or machine.node is None:
            raise final(f"{machine.name} has no node yet.", "TemplateMissing")
        template = sight.resources.vm(machine.template_vmid)
        if template is None or not int(template.get("template") or 0):
            raise final(
                f"Template {machine.template_vmid} is not there, or our account cannot see it (VM.Audit on its pool "
                f"{scene.site.template_pool}). Register a template again, then retry.",
                "TemplateMissing",
            )
        source = str(template["node"])
        for node in (source, machine.node):
            if sight.resources.offline(node):
                return waiting(f"node {node} is offline", AWAY_PAUSE)
        path = f"nodes/{source}/qemu/{machine.template_vmid}"
        params = await self._kind_of_clone(scene, sight.resources, path, source)
        await self._still_held(scene)
        try:
            upid = await scene.client.post(
                f"{path}/clone",
                newid=machine.vmid,
                name=machine.name,
                description=machine.marker,
                pool=scene.pool,
                target=machine.node if machine.node != source else None,
                **params,
            )
        except NotThere as moved:
            return waiting(moved.text)
        return after_task(upid)

    async def _kind_of_clone(self, scene: MachineScene, resources: Resources, path: str, source: str) -> dict[str, Any]:
        """Linked where the template's disks already are on the wanted storage and it can; else full, to that storage.

        A linked clone takes seconds and no space; `storage` may be given with a full one only.
        """
        wanted = scene.cluster.spec.storage
        config = await scene.client.get(f"{path}/config")
        disks = [drive for drive in drives(config).values() if not is_cdrom(drive)]
        if system_disk(config) is None:
            raise final(f"Template {scene.machine.template_vmid} has no disk to boot from.", "TemplateMissing")
        row = resources.storage(wanted, source)
        shared = bool(row is not None and int(row.get("shared") or 0))
        in_place = all(storage_of(drive) == wanted for drive in disks)
        if in_place and (shared or scene.machine.node == source):
            feature = await scene.client.get(f"{path}/feature", feature="clone")
            if isinstance(feature, dict) and int(feature.get("hasFeature") or 0):
                return {"full": False}
        return {"full": True, "storage": wanted}
