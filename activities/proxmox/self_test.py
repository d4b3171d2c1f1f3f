"""The self-test of a site: one small VM is cloned, given a boot ISO, started and deleted, and everything is told.

The report goes to the job's log, line by line, so that an owner can send it to us. The VM never gets an address and
joins nothing. It is made at the upper end of the site's range of VM ids, with a marker of its own; whatever happens it
is deleted again, at the next attempt if this process dies.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from temporalio import activity

from activities import journal
from activities.proxmox.acting import final
from activities.proxmox.presence import Resources, taken
from activities.proxmox.seeding import seed_size
from activities.proxmox.tasks import TaskPoll, Tasks
from activities.proxmox.vm_config import drives, free_cdrom_slot, is_cdrom, marker_of, storage_of
from bootstrap import BootData
from bootstrap.iso import iso
from clients.proxmox import ProxmoxClient, ProxmoxError, classify_task
from domain.contracts import activities as names
from domain.contracts.activities import SiteRef
from domain.sites import Site
from store import NotFound

_TRIES = 50
"""How many VM ids from the upper end of the range are tried."""
_LOOKS = 60
"""How often a VM that is being made is looked at before its removal is given up."""


@dataclass(frozen=True)
class Trial:
    """The VM of one self-test, and all that is needed to find and remove it."""

    job_id: str
    vmid: int
    node: str
    template: int

    @property
    def marker(self) -> str:
        return f"trilithon selftest={self.job_id}"

    @property
    def name(self) -> str:
        return f"trilithon-selftest-{self.vmid}"

    @property
    def iso_name(self) -> str:
        return f"{self.name}.iso"


class SelfTesting(Tasks):
    """proxmox.self_test."""

    @activity.defn(name=names.SELF_TEST_STEP)
    async def self_test(self, ref: SiteRef) -> None:
        """Tries what every cluster needs on one small VM, and reports each step to the job's log.

        Effect: none that stays; a VM and an ISO file in between.
        Key: the job, whose id is in the VM's description; the record of the VM is in the secret box.
        Done-when: the VM and the file are gone again.
        Final: the first step that fails, in Proxmox VE's own words, after everything was removed.
        """
        try:
            site, client = await self.sites.by_id(ref.site_id)
            left = await self._kept_trial(ref)
            if left is not None:
                await journal.log(f"An earlier attempt left VM {left.vmid}; it is removed first.")
                await self._remove(site, client, left)
            trial = await self._choose(ref, site, client)
        except (ProxmoxError, NotFound) as error:
            raise final(f"The self-test could not begin: {error}", "SelfTestFailed") from error
        await self._keep_trial(ref, trial)
        failure: ProxmoxError | None = None
        try:
            await self._try_out(site, client, trial)
        except ProxmoxError as error:
            failure = error
            await journal.log(f"FAILED: {error}", "error")
        try:
            await self._remove(site, client, trial)
        except ProxmoxError as error:
            text = f"VM {trial.vmid} of the self-test could not be removed: {error}"
            raise final(text, "SelfTestFailed") from error
        await self._store.secrets.delete(f"site/{ref.site_id}", _name(ref))
        if failure is not None:
            raise final(f"The self-test failed: {failure}", "SelfTestFailed") from failure
        await journal.log("Self-test passed; nothing of it is left.")

    # --- the steps ---

    async def _try_out(self, site: Site, client: ProxmoxClient, trial: Trial) -> None:
        steps = _Steps(self.poll(site.id))
        vm = f"nodes/{trial.node}/qemu/{trial.vmid}"
        template = f"nodes/{trial.node}/qemu/{trial.template}"
        config = await client.get(f"{template}/config")
        stores = {storage_of(drive) for drive in drives(config).values() if not is_cdrom(drive)}
        storage = next((name for name in site.storages if name in stores), next(iter(stores)))
        clone = {
            "newid": trial.vmid,
            "name": trial.name,
            "description": trial.marker,
            "pool": site.workload_pool,
            "full": True,
            "storage": storage,
        }
        await steps.take(
            f"clone template {trial.template} as VM {trial.vmid} on {storage}",
            lambda: client.post(f"{template}/clone", **clone),
        )
        small = {"memory": 512, "cores": 1, "tags": "trilithon;selftest", "onboot": 0}
        await steps.take("configure it", lambda: client.post(f"{vm}/config", **small))
        image = iso(BootData(user_data="#cloud-config\n", network_config="version: 2\n", meta_data="{}\n"))
        await steps.take(
            f"upload {trial.iso_name} to {site.iso_storage}",
            lambda: client.upload(trial.node, site.iso_storage, trial.iso_name, image),
        )
        size = await seed_size(client, site.iso_storage, trial.node, trial.iso_name)
        if size != len(image):
            raise ProxmoxError(f"the file on {site.iso_storage} has {size} bytes, {len(image)} were sent")
        slot = free_cdrom_slot(await client.get(f"{vm}/config"))
        if slot is None:
            raise ProxmoxError("the VM has no free slot for a CD-ROM")
        drive = {slot: f"{site.iso_storage}:iso/{trial.iso_name},media=cdrom"}
        await steps.take("attach it", lambda: client.post(f"{vm}/config", **drive))
        await steps.take("start the VM", lambda: client.post(f"{vm}/status/start"))
        status = await client.get(f"{vm}/status/current")
        if status.get("status") != "running":
            raise ProxmoxError(f"the VM is {status.get('status')} after its start")
        await journal.log("ok: it runs")

    async def _remove(self, site: Site, client: ProxmoxClient, trial: Trial) -> None:
        """Removes VM and file, each only where it is there and is the trial's."""
        steps = _Steps(self.poll(site.id))
        standing = await self._standing(client, trial)
        if standing is not None:
            vm, running = standing
            if running:
                await steps.take("stop the VM", lambda: client.post(f"{vm}/status/stop"))
            options = {"purge": True, "destroy-unreferenced-disks": True}
            await steps.take("delete the VM", lambda: client.delete(vm, **options))
        if await seed_size(client, site.iso_storage, trial.node, trial.iso_name) is not None:
            volume = f"{site.iso_storage}:iso/{trial.iso_name}"
            path = f"nodes/{trial.node}/storage/{site.iso_storage}/content/{volume}"
            await steps.take("delete the file", lambda: client.delete(path))

    async def _standing(self, client: ProxmoxClient, trial: Trial) -> tuple[str, bool] | None:
        """Path of the trial's VM and whether it runs; None where there is none. Waits while it is being made."""
        for _ in range(_LOOKS):
            row = (await Resources.read(client)).vm(trial.vmid)
            if row is None:
                if not await taken(client, trial.vmid):
                    return None
            else:
                vm = f"nodes/{row['node']}/qemu/{trial.vmid}"
                config = await client.get(f"{vm}/config")
                if not config.get("lock"):
                    running = row.get("status") == "running"
                    return (vm, running) if marker_of(config) == trial.marker else None
            await asyncio.sleep(self._look_every)
        return None

    # --- before and after ---

    async def _choose(self, ref: SiteRef, site: Site, client: ProxmoxClient) -> Trial:
        """A template that is there, its node, and a free id at the upper end of the range."""
        resources = await Resources.read(client)
        for template in await self._store.templates.list(site.id):
            for vmid in template.nodes.values():
                row = resources.vm(vmid)
                if row is None or not int(row.get("template") or 0) or resources.offline(str(row["node"])):
                    continue
                used = {machine.vmid for machine in await self._store.machines.of_site(site.id)}
                for number in range(site.vmid_last, max(site.vmid_first, site.vmid_last - _TRIES) - 1, -1):
                    if number not in used and not await taken(client, number):
                        return Trial(ref.job_id, number, str(row["node"]), vmid)
                raise final(f"No VM id is free at the upper end of {site.vmid_first}-{site.vmid_last}.", "NotOurs")
        raise final("No registered template is there and on a node that is online.", "TemplateMissing")

    async def _keep_trial(self, ref: SiteRef, trial: Trial) -> None:
        content = {"vmid": trial.vmid, "node": trial.node, "template": trial.template}
        await self._store.secrets.put(f"site/{ref.site_id}", _name(ref), json.dumps(content).encode())

    async def _kept_trial(self, ref: SiteRef) -> Trial | None:
        try:
            content = json.loads(await self._store.secrets.get(f"site/{ref.site_id}", _name(ref)))
        except NotFound:
            return None
        return Trial(ref.job_id, content["vmid"], content["node"], content["template"])


@dataclass(frozen=True)
class _Steps:
    """Calls with their tasks; each is a line of the report."""

    poll: TaskPoll

    async def take(self, what: str, call: Callable[[], Awaitable[Any]]) -> None:
        """Raises ProxmoxError where the call or its task fails."""
        began = time.monotonic()
        upid = await call()
        if isinstance(upid, str) and upid.startswith("UPID:"):
            outcome = await self.poll.ended(upid)
            problem = None if outcome.ok or outcome.vanished else classify_task(outcome.exit_status, path=what)
            if problem is not None:
                raise problem
        await journal.log(f"ok: {what} ({time.monotonic() - began:.1f} s)")


def _name(ref: SiteRef) -> str:
    return f"selftest-{ref.job_id}"
