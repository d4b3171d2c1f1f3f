"""Everything that is simulated in one process: machines, clusters, and what of them is kept on disk."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

from lab.nodes import programs
from lab.nodes.cluster import SimCluster
from lab.nodes.disk import Disk
from lab.nodes.machine import Hardware, Machine
from lab.nodes.settings import Faults, Timing

_SAVE_AFTER = 0.5


class World:
    """The machines by VM id, the clusters by id. With a data folder both outlive the process."""

    def __init__(self, data: Path | None = None, timing: Timing | None = None) -> None:
        self.timing = timing or Timing()
        self.faults = Faults()
        self.machines: dict[int, Machine] = {}
        self.clusters: dict[str, SimCluster] = {}
        self.errors: list[str] = []
        self._data = data
        self._unsaved: set[int] = set()
        self._saver: asyncio.TimerHandle | None = None
        if data is not None:
            (data / "machines").mkdir(parents=True, exist_ok=True)
            (data / "clusters").mkdir(parents=True, exist_ok=True)

    # power

    def power_on(self, hardware: Hardware) -> str:
        """Boots a machine; a disk that is new comes from its template. Raises ValueError when it already runs."""
        machine = self.machines.get(hardware.vmid)
        if machine is not None and machine.on:
            raise ValueError(f"machine {hardware.vmid} already runs")
        if machine is None or machine.disk.id != hardware.disk_id:
            disk = Disk(hardware.disk_id)
            if hardware.has_programs:
                programs.install_in(disk, hardware.distribution, hardware.version, hardware.containerd)
            machine = Machine(self, hardware, disk)
            self.machines[hardware.vmid] = machine
        return machine.power_on(hardware)

    async def power_off(self, vmid: int) -> None:
        if (machine := self.machines.get(vmid)) is not None and machine.on:
            await machine.power_off()

    async def destroy(self, vmid: int) -> None:
        """The disk is gone. A cluster whose last server's disk goes is gone with it."""
        machine = self.machines.get(vmid)
        if machine is None:
            return
        await self.power_off(vmid)
        del self.machines[vmid]
        if self._data is not None:
            (self._data / "machines" / f"{vmid}.json").unlink(missing_ok=True)
        cluster = self.clusters.get(machine.disk.datastore)
        if cluster is not None and not any(
            other.disk.datastore == cluster.id and other.disk.id in cluster.members for other in self.machines.values()
        ):
            await self._forget(cluster)

    async def leave_etcd(self, machine: Machine) -> None:
        """What a machine's own etcd held goes with its disk's data: its member, or the whole of a cluster of one."""
        cluster, disk_id = self.clusters.get(machine.disk.datastore), machine.disk.id
        if cluster is None:
            return
        cluster.learner_fails(disk_id)
        if set(cluster.members) == {disk_id}:
            await self._forget(cluster)
        elif disk_id in cluster.members:
            cluster.member_leaves(cluster.members[disk_id])

    async def _forget(self, cluster: SimCluster) -> None:
        await cluster.close()
        cluster.api.store.destroy()
        del self.clusters[cluster.id]
        if self._data is not None:
            (self._data / "clusters" / f"{cluster.id}.json").unlink(missing_ok=True)

    def by_cluster_info(self, uid: str) -> SimCluster | None:
        """The kubeadm cluster whose cluster-info has this uid: what a joining machine has read tells no more."""
        for cluster in self.clusters.values():
            info = cluster.api.find("configmaps", "kube-public", "cluster-info")
            if info is not None and info["metadata"]["uid"] == uid:
                return cluster
        return None

    # keeping

    def journal_of(self, cluster_id: str) -> Path | None:
        return self._data / "clusters" / f"{cluster_id}.log" if self._data is not None else None

    def save(self, machine: Machine) -> None:
        """Writes a machine's state soon."""
        if self._data is None:
            return
        self._unsaved.add(machine.hardware.vmid)
        if self._saver is None:
            self._saver = asyncio.get_running_loop().call_later(_SAVE_AFTER, self.flush)

    def save_cluster(self, cluster: SimCluster) -> None:
        if self._data is not None:
            _write(self._data / "clusters" / f"{cluster.id}.json", cluster.to_json())

    def flush(self) -> None:
        """Writes everything that waits to be written."""
        self._saver = None
        waiting, self._unsaved = self._unsaved, set()
        for vmid in waiting:
            if self._data is not None and (machine := self.machines.get(vmid)) is not None:
                _write(self._data / "machines" / f"{vmid}.json", machine.to_json(full=True))

    def load(self) -> None:
        """Finds the machines of an earlier process again; those that ran go on running."""
        if self._data is None:
            return
        for path in sorted((self._data / "clusters").glob("*.json")):
            facts = json.loads(path.read_text())
            self.clusters[facts["id"]] = SimCluster(self, facts, self.journal_of(facts["id"]))
        for path in sorted((self._data / "machines").glob("*.json")):
            data = json.loads(path.read_text())
            hardware = Hardware(**{**data["hardware"], "macs": tuple(data["hardware"]["macs"])})
            machine = Machine(self, hardware, Disk.from_json(data["disk"]))
            self.machines[hardware.vmid] = machine
            if data["on"]:
                machine.power_on(hardware, resume=True)

    async def close(self) -> None:
        """Ends the process' work; what ran is kept as running."""
        self.flush()
        self._data, data = None, self._data
        for machine in self.machines.values():
            await machine.power_off()
        for cluster in self.clusters.values():
            await cluster.close()
        self._data = data

    async def reset(self) -> None:
        """Forgets everything."""
        for vmid in list(self.machines):
            await self.destroy(vmid)
        for cluster in self.clusters.values():
            await cluster.close()
        self.clusters.clear()
        self.faults.rules.clear()
        self.errors.clear()
        if self._data is not None:
            for name in ("machines", "clusters"):
                shutil.rmtree(self._data / name, ignore_errors=True)
                (self._data / name).mkdir()

    def note_error(self, text: str) -> None:
        """Keeps an error of the simulation itself: tests look that there is none."""
        if text not in self.errors:
            self.errors.append(text)
            del self.errors[:-50]

    def state(self) -> dict[str, Any]:
        clusters = [
            {
                "id": item.id,
                "distribution": item.distribution,
                "version": item.api.version,
                "members": sorted(item.members.values()),
                "running": sorted(s.node_name for s in item.running.values()),
                "trouble": item.trouble,
            }
            for item in self.clusters.values()
        ]
        return {
            "machines": [item.to_json() for _, item in sorted(self.machines.items())],
            "clusters": clusters,
            "errors": list(self.errors),
        }


def _write(path: Path, content: Any) -> None:
    fresh = path.with_suffix(".tmp")
    fresh.write_text(json.dumps(content))
    fresh.replace(path)
