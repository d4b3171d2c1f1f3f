"""The boot ISO: rendered, uploaded, attached; and after the node is Ready detached and deleted, for it holds secrets.

What we uploaded is recorded in the secret box (`cluster/<id>`, `seed-<machine id>`): before the upload, so that we
never take somebody's file for ours, and after it with the task, so that the file's presence alone is never taken for
a finished upload.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from temporalio import activity

from activities.proxmox.acting import (
    AWAY_PAUSE,
    DONE,
    Acting,
    MachineScene,
    after_task,
    effect,
    final,
    not_ours,
    waiting,
)
from activities.proxmox.presence import State, look
from activities.proxmox.sizing import ours
from activities.proxmox.tasks import task_ended
from activities.proxmox.vm_config import free_cdrom_slot, slots_with
from bootstrap import BootData, BootInput, UnsupportedDistribution, boot_data
from bootstrap.authorities import Authorities
from bootstrap.iso import iso
from bootstrap.tokens import Tokens
from clients.proxmox import NotThere, ProxmoxClient
from domain.contracts import activities as names
from domain.contracts.activities import Handle, MachineRef
from domain.machines import Phase
from store import NotFound


@dataclass(frozen=True)
class Seed:
    """What is recorded of a machine's boot ISO: where it went, what was in it, and how far its upload came."""

    node: str
    digest: str
    size: int = 0
    upid: str = ""


class Seeding(Acting):
    """proxmox.upload_seed, attach_seed, detach_seed and delete_seed."""

    @activity.defn(name=names.UPLOAD_SEED)
    @effect
    async def upload_seed(self, ref: MachineRef) -> Handle:
        """Renders the machine's boot ISO and uploads it to the site's ISO storage, through the VM's own node.

        Effect: one file, named after the VM id, sent with its checksum.
        Key: the machine, and the digest of its boot data.
        Done-when: the recorded upload has ended well and the file has exactly its size; or the machine was started.
        Final: a file of that name is there that is not ours; the distribution is not built yet; the VM is gone.
        """
        scene = await self._take(ref)
        if scene.machine.phase.reached(Phase.STARTED):
            return DONE
        sight = await ours(scene)
        if isinstance(sight, Handle):
            return sight
        data = await self._render(scene)
        digest = _digest(data)
        seed = await self._seed(scene)
        size = await seed_size(scene.client, scene.site.iso_storage, sight.node, scene.machine.iso_name)
        if seed is None and size is not None:
            raise not_ours(
                f"A file {scene.machine.iso_name} lies on storage {scene.site.iso_storage} already and is not of this "
                "machine. Remove it in Proxmox VE, then retry."
            )
        if seed is not None and seed.digest == digest and seed.node == sight.node and seed.upid:
            ended = await task_ended(scene.client, seed.upid)
            if ended is None:
                return Handle(done=False, upid=seed.upid)
            if ended.ok and size == seed.size:
                return DONE
        image = iso(data)
        await self._record(scene, Seed(sight.node, digest))
        await self._still_held(scene)
        upid = await scene.client.upload(sight.node, scene.site.iso_storage, scene.machine.iso_name, image)
        await self._record(scene, Seed(sight.node, digest, len(image), upid))
        return after_task(upid)

    @activity.defn(name=names.ATTACH_SEED)
    @effect
    async def attach_seed(self, ref: MachineRef) -> Handle:
        """Puts the boot ISO into a CD-ROM drive of the VM.

        Effect: one CD-ROM slot of the VM's configuration.
        Key: the VM and the ISO's volume id.
        Done-when: a slot holds the ISO, or the machine was started already.
        Final: no slot is free; the VM is gone.
        """
        scene = await self._take(ref)
        if scene.machine.phase.reached(Phase.STARTED):
            return DONE
        sight = await ours(scene)
        if isinstance(sight, Handle):
            return sight
        if slots_with(sight.config, volume(scene)):
            await self._reach(scene, Phase.SEEDED)
            return DONE
        slot = free_cdrom_slot(sight.config)
        if slot is None:
            raise final(f"VM {scene.machine.vmid} has no free slot for its boot ISO.", "TemplateMissing")
        running = await self._before_task(scene, sight)
        if running is not None:
            return running
        path = f"nodes/{sight.node}/qemu/{scene.machine.vmid}/config"
        drive = {slot: f"{volume(scene)},media=cdrom"}
        return after_task(await scene.client.post(path, digest=sight.config.get("digest"), **drive))

    @activity.defn(name=names.DETACH_SEED)
    @effect
    async def detach_seed(self, ref: MachineRef) -> Handle:
        """Takes the boot ISO out of the VM's drive; the drive stays, empty.

        Effect: the CD-ROM slots that hold the ISO.
        Key: the VM and the ISO's volume id.
        Done-when: no slot holds it, or there is no VM of ours.
        Final: none of its own.
        """
        scene = await self._take(ref)
        sight = await look(scene.client, scene.machine)
        if sight.state is State.AWAY:
            return waiting(sight.why, AWAY_PAUSE)
        slots = slots_with(sight.config, volume(scene)) if sight.state is State.OURS else []
        if not slots:
            return DONE
        running = await self._before_task(scene, sight)
        if running is not None:
            return running
        path = f"nodes/{sight.node}/qemu/{scene.machine.vmid}/config"
        empty = dict.fromkeys(slots, "none,media=cdrom")
        return after_task(await scene.client.post(path, digest=sight.config.get("digest"), **empty))

    @activity.defn(name=names.DELETE_SEED)
    @effect
    async def delete_seed(self, ref: MachineRef) -> Handle:
        """Deletes the boot ISO from the site's ISO storage; the last step of a machine that has joined.

        Effect: the file that we recorded as uploaded; no other. A joined machine's phase becomes Ready.
        Key: the machine's record of its upload.
        Done-when: nothing was ever uploaded, or the file is not there.
        Final: none of its own.
        """
        scene = await self._take(ref)
        seed = await self._seed(scene)
        if seed is None:
            return await self._seedless(scene)
        storage = scene.site.iso_storage
        node, why = await self._node_for_storage(scene, seed.node)
        if why:
            return waiting(why, AWAY_PAUSE)
        if await seed_size(scene.client, storage, node, scene.machine.iso_name) is None:
            await self._store.secrets.delete(f"cluster/{scene.cluster.id}", _name(scene))
            return await self._seedless(scene)
        if scene.attempt:
            await self._still_held(scene)
        try:
            upid = await scene.client.delete(f"nodes/{node}/storage/{storage}/content/{volume(scene)}")
        except NotThere:
            upid = None
        return after_task(upid)

    async def _seedless(self, scene: MachineScene) -> Handle:
        """Nothing of the boot ISO is left: a machine whose node has joined and is Ready is complete."""
        if scene.machine.phase is Phase.JOINED:
            await self._reach(scene, Phase.READY)
        return DONE

    async def _node_for_storage(self, scene: MachineScene, node: str) -> tuple[str, str]:
        """The node to ask for the ISO storage: the one it went to, or any that shares the storage; or why to wait."""
        sight = await look(scene.client, scene.machine)
        if not sight.resources.offline(node):
            return node, ""
        for other, online in sorted(sight.resources.nodes.items()):
            row = sight.resources.storage(scene.site.iso_storage, other)
            if online and row is not None and int(row.get("shared") or 0):
                return other, ""
        return node, f"node {node} is offline; the boot ISO of {scene.machine.name} is on it"

    async def _render(self, scene: MachineScene) -> BootData:
        """The boot data, with authorities and tokens out of the secret box; they leave this process in the ISO only."""
        scope = f"cluster/{scene.cluster.id}"
        machine = scene.machine
        template = await self._store.templates.find(scene.site.id, scene.cluster.spec.distribution, machine.version)
        boot = BootInput(
            spec=scene.cluster.spec,
            machine=machine,
            first_server=machine.initialiser,
            authorities=Authorities.from_json(await self._store.secrets.get(scope, "authorities")),
            tokens=Tokens.from_json(await self._store.secrets.get(scope, "tokens")),
            artifact_url=scene.site.artifact_url,
            has_programs=template.has_programs if template is not None else True,
        )
        try:
            return boot_data(boot)
        except UnsupportedDistribution as unsupported:
            raise final(str(unsupported), "InvalidSpec") from unsupported

    async def _seed(self, scene: MachineScene) -> Seed | None:
        try:
            text = await self._store.secrets.get(f"cluster/{scene.cluster.id}", _name(scene))
        except NotFound:
            return None
        content: Mapping[str, Any] = json.loads(text)
        return Seed(content["node"], content["digest"], content["size"], content["upid"])

    async def _record(self, scene: MachineScene, seed: Seed) -> None:
        content = {"node": seed.node, "digest": seed.digest, "size": seed.size, "upid": seed.upid}
        await self._store.secrets.put(f"cluster/{scene.cluster.id}", _name(scene), json.dumps(content).encode())


def volume(scene: MachineScene) -> str:
    """The ISO's volume id."""
    return f"{scene.site.iso_storage}:iso/{scene.machine.iso_name}"


async def seed_size(client: ProxmoxClient, storage: str, node: str, filename: str) -> int | None:
    """Size in bytes of a file on the ISO storage as a node sees it; None when it is not there."""
    rows = await client.get(f"nodes/{node}/storage/{storage}/content", content="iso")
    wanted = f"{storage}:iso/{filename}"
    return next((int(row.get("size") or 0) for row in rows if row.get("volid") == wanted), None)


def _name(scene: MachineScene) -> str:
    return f"seed-{scene.machine.id}"


def _digest(data: BootData) -> str:
    """Of the texts, not of the image: an image holds the time it was packed."""
    return hashlib.sha256("\0".join((data.user_data, data.network_config, data.meta_data)).encode()).hexdigest()
