"""All machines of one laboratory."""

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from lab.real import inotify
from lab.real.disk import Disk
from lab.real.faults import Faults
from lab.real.layout import Layout
from lab.real.machine import Hardware, Machine
from lab.real.network import Network
from lab.real.stock import Stock
from lab.real.strangers import Strangers


class World:
    """Machines by their VM id. `proc` shows the whole machine's processes (inotify instances are counted there)."""

    def __init__(self, layout: Layout, stock: Stock, disks: Path, proc: Path) -> None:
        self.layout = layout
        self.network = Network(layout)
        self.machines: dict[int, Machine] = {}
        self.faults = Faults()
        self.strangers = Strangers(self.network)
        self._stock, self._disks, self._proc = stock, disks, proc
        self._locks: dict[int, asyncio.Lock] = {}

    def lock(self, vmid: int) -> asyncio.Lock:
        """One change of a machine at a time."""
        return self._locks.setdefault(vmid, asyncio.Lock())

    async def power_on(self, hardware: Hardware) -> str:
        """Boots a machine; its boot's id.

        Raises:
            ValueError: it runs, its version is not here, or the machine below has no inotify instances left.
        """
        machine = self.machines.get(hardware.vmid)
        if machine is not None and machine.on:
            raise ValueError("the machine has power already")
        if hardware.version not in self._stock.kube:
            raise ValueError(f"no template of kubeadm {hardware.version} here; known: {', '.join(self._stock.kube)}")
        await asyncio.to_thread(self._enough)
        if machine is not None and machine.disk.folder.name != hardware.disk_id:
            await machine.destroy()
            machine = None
        if machine is None:
            disk = await asyncio.to_thread(Disk, self._disks / hardware.disk_id, self._stock, hardware.version)
            machine = Machine(hardware, disk, self._plug, self.network.unplug, self.faults)
            self.machines[hardware.vmid] = machine
        return await machine.power_on(hardware)

    def _enough(self) -> None:
        """What runs has perhaps not taken its share yet; every machine is reckoned with a worker's at least."""
        limit, used = inotify.limit(), inotify.used(self._proc)
        ours = inotify.used()
        running = sum(1 for machine in self.machines.values() if machine.on)
        expected = used - ours + max(ours, running * inotify.WORKER) + inotify.WORKER
        if expected > limit:
            raise ValueError(
                f"the machine below has no room for another node: {used} of root's {limit} inotify instances are "
                f"taken, {running} nodes run, another takes {inotify.WORKER} (a server {inotify.SERVER})"
            )

    def _plug(self, hardware: Hardware) -> str:
        return self.network.plug(hardware.vmid, list(hardware.macs), hardware.bridge, hardware.vlan)

    async def destroy(self, vmid: int) -> None:
        """Removes a machine and its disk; nothing when it was never powered on."""
        machine = self.machines.pop(vmid, None)
        if machine is not None:
            await machine.destroy()

    def move(self, vmid: int, node: str) -> None:
        """The machine now stands on another node of the site; nothing else changes."""
        machine = self.machines[vmid]
        machine.hardware = replace(machine.hardware, node=node)

    async def reset(self) -> None:
        """Cuts every machine's power and removes every disk."""
        await asyncio.gather(*(self.destroy(vmid) for vmid in list(self.machines)))
        self.faults.rules.clear()
        await self.strangers.clear()

    async def close(self) -> None:
        """Leaves nothing behind."""
        await self.reset()
        await asyncio.to_thread(shutil.rmtree, self._disks, True)

    def state(self) -> dict[str, Any]:
        """Everything that people and tests want to see."""
        return {
            "kind": "real",
            "machines": [one.to_json() for _, one in sorted(self.machines.items())],
            "bridges": self.network.describe(),
            "versions": sorted(self._stock.kube),
            "inotify": {"limit": inotify.limit(), "machine": inotify.used(self._proc), "ours": inotify.used()},
        }
