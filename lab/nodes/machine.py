"""One virtual machine: power, boot, guest agent, and the commands that run on it."""

import asyncio
import base64
import binascii
import re
import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lab.nodes import cloud_init, programs, seed, units
from lab.nodes.disk import Disk
from lab.nodes.installer import InstallScript, ScriptFailed
from lab.nodes.kubeadm.boot_script import BootScript, RoleScript, containerd_refusal
from lab.nodes.kubeadm.kubelet_program import KubeletProgram
from lab.nodes.node_program import NodeProgram
from lab.nodes.settings import Fault
from lab.nodes.supervisor import Supervisor

if TYPE_CHECKING:
    from lab.nodes.world import World


_SCRIPTS: tuple[type[InstallScript] | type[BootScript] | type[RoleScript], ...] = (
    InstallScript,
    BootScript,
    RoleScript,
)


@dataclass(frozen=True)
class Hardware:
    """What the hypervisor gives to a VM."""

    vmid: int
    name: str
    node: str
    uuid: str
    serial: str = ""
    memory_mib: int = 2048
    cores: int = 1
    macs: tuple[str, ...] = ()
    bridge: str = ""
    vlan: int | None = None
    distribution: str = ""
    version: str = ""
    has_programs: bool = False
    disk_id: str = ""
    containerd: str = programs.CONTAINERD
    """Version of containerd in a kubeadm template."""
    iso: str | None = field(default=None, repr=False)

    @classmethod
    def from_json(cls, vmid: int, data: dict[str, Any]) -> "Hardware":
        """Reads the body of a power-on; raises KeyError or ValueError when it is incomplete."""
        template = data.get("template") or {}
        return cls(
            vmid,
            data["name"],
            data["node"],
            data["uuid"],
            data.get("serial") or "",
            int(data["memory_mib"]),
            int(data["cores"]),
            tuple(data.get("macs") or ()),
            data.get("bridge") or "",
            data.get("vlan"),
            template.get("distribution") or "",
            template.get("version") or "",
            bool(template.get("has_programs")),
            data["disk_id"],
            template.get("containerd") or programs.CONTAINERD,
            data.get("iso"),
        )


class Machine:
    """A VM that was powered on at least once."""

    def __init__(self, world: "World", hardware: Hardware, disk: Disk) -> None:
        self.world = world
        self.hardware = hardware
        self.disk = disk
        self.on = False
        self.boot_id = ""
        self.agent = False
        self.addresses: list[str] = []
        self.program: NodeProgram | None = None
        self.cloud_init_state = "not started"
        self._tasks: set[asyncio.Task[None]] = set()
        self._running: dict[str, asyncio.Task[None]] = {}
        """Units that were started, with what keeps them."""

    # power

    def power_on(self, hardware: Hardware, resume: bool = False) -> str:
        """Starts to boot; returns the id of this boot. `resume` goes on where a killed lab process stopped."""
        self.hardware = hardware
        self.on = True
        self.boot_id = str(uuid.uuid4())
        self.agent = False
        self.cloud_init_state = "running"
        self._spawn(self._boot(resume))
        self.world.save(self)
        return self.boot_id

    async def power_off(self) -> None:
        """Cuts the power: every process of the machine ends at once."""
        self.on = False
        self.agent = False
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()
        self._running.clear()
        if self.program is not None:
            await self.program.stop()
            self.program = None
        self.addresses = []
        self.world.save(self)

    def _spawn(self, work: Any) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.world.note_error(f"{self.hardware.name}: {error!r}")

    @property
    def fault(self) -> Fault:
        return self.world.faults.of(self.hardware.name, self.hardware.vmid)

    @property
    def address(self) -> str:
        """The first address of the machine, "" when it has none."""
        return self.addresses[0].split("/")[0] if self.addresses else ""

    # boot

    async def _boot(self, resume: bool) -> None:
        if not resume:
            await asyncio.sleep(self.world.timing.boot + self.fault.boot_seconds)
        self.agent = not self.fault.never_agent
        # What is enabled during this boot starts at the next one, unless somebody starts it now.
        at_boot = sorted(self.disk.enabled)
        disk, hardware = self.disk, self.hardware
        errors: list[str] = []
        recoverable: dict[str, list[str]] = {}
        source, ended = "", "done"
        if disk.exists(cloud_init.DISABLED):
            ended = "disabled"
            self.addresses = [] if self.fault.no_network else list(disk.network)
        elif resume and disk.network:
            self.addresses = list(disk.network)
        elif hardware.iso is None:
            # Without its data source cloud-init falls back to none: fresh host keys, DHCP that nobody answers.
            disk.log(cloud_init.LOG, "DataSourceNone: no data source found; fallback network")
            disk.instance_id, disk.network = "iid-datasource-none", []
            source = "None"
            recoverable["WARNING"] = ["Used fallback datasource"]
        else:
            found = self._find_seed()
            if found is None:
                errors.append("no usable data source on the attached ISO")
            else:
                source = "NoCloud"
                run = cloud_init.CloudInit(disk, list(hardware.macs))
                fresh = disk.instance_id != found.instance_id
                if fresh:
                    disk.network = run.network(found.network)
                self.addresses = [] if self.fault.no_network else list(disk.network)
                if fresh:
                    disk.instance_id = found.instance_id
                    disk.hostname = found.hostname or hardware.name
                    await run.user_data(found, self.run_command)
                errors, recoverable = run.errors, run.recoverable
        self.cloud_init_state = ended
        disk.cloud_init = cloud_init.status(ended, errors, recoverable, source)
        self.world.save(self)
        for name in at_boot:
            await self.start_unit(name)

    def _find_seed(self) -> seed.Seed | None:
        try:
            found = seed.read(base64.b64decode(self.hardware.iso or "", validate=True))
        except (seed.SeedError, binascii.Error) as error:
            self.disk.log(cloud_init.OUTPUT, f"cloud-init: {error}")
            return None
        text = found.user_data
        for old, new in self.fault.edits:
            text = re.sub(old, new, text)
        return replace(found, user_data=text)

    # commands and units

    async def run_command(self, words: list[str]) -> int:
        """Runs a command of runcmd; returns its exit status. Programs that the lab does not know do nothing."""
        if words[0] in ("sh", "/bin/sh", "bash", "/bin/bash") and len(words) == 2 and words[1].startswith("/"):
            words = words[1:]
        if words[0] in ("systemctl", "/bin/systemctl", "/usr/bin/systemctl"):
            return await self._systemctl(words[1:])
        if words[0].startswith("/"):
            file = self.disk.read(words[0])
            if file is None:
                self.disk.log(cloud_init.OUTPUT, f"{words[0]}: not found")
                return 127
            return await self._script(words[0], cloud_init.OUTPUT)
        return 0 if words[0] in ("true", "touch", "mkdir", "chmod", "sysctl", "modprobe", ":") else 127

    async def _systemctl(self, words: list[str]) -> int:
        options = [word for word in words if word.startswith("-")]
        plain = [word for word in words if not word.startswith("-")]
        if not plain:
            return 1
        action, names = plain[0], [name if "." in name else f"{name}.service" for name in plain[1:]]
        if action == "daemon-reload":
            return 0
        for name in names:
            unit = units.find(self.disk, name)
            if unit is None:
                self.disk.log(cloud_init.OUTPUT, f"Failed to {action} unit: Unit file {name} does not exist.")
                return 5
            if action == "enable" and unit.wanted:
                self.disk.enabled.add(name)
            if action in ("start", "restart") or "--now" in options:
                status = await self.start_unit(name)
                if status != 0:
                    return status
        return 0 if action in ("enable", "start", "restart") else 1

    async def start_unit(self, name: str) -> int:
        """Starts a unit in the background; 5 when it does not exist."""
        unit = units.find(self.disk, name)
        if unit is None:
            return 5
        for problem in unit.problems:
            self.disk.log(unit.name, problem)
        if not unit.command:
            return 1
        if unit.name not in self._running and unit.may_start(self.disk):
            self._running[unit.name] = self._spawn(self._keep(unit))
        return 0

    async def stop_unit(self, name: str) -> None:
        """Ends a unit and waits until it has; one that does not run stays as it is."""
        if (task := self._running.pop(name, None)) is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def runs(self, name: str) -> bool:
        """True while a unit runs, or waits to be started again."""
        return name in self._running

    async def _keep(self, unit: units.Unit) -> None:
        mine = asyncio.current_task()
        try:
            while True:
                status = await self._execute(unit)
                self.disk.log(
                    unit.name,
                    f"systemd[1]: {unit.name}: Main process exited, status={status}/"
                    f"{'SUCCESS' if status == 0 else 'FAILURE'}",
                )
                self.world.save(self)
                if not units.restarts(unit, status):
                    return
                await asyncio.sleep(min(unit.restart_seconds, self.world.timing.unit_restart))
        finally:
            if self._running.get(unit.name) is mine:
                del self._running[unit.name]

    async def _execute(self, unit: units.Unit) -> int:
        path, *arguments = unit.command
        file = self.disk.read(path)
        if file is None or not file.executable:
            self.disk.log(
                unit.name,
                f"{unit.name}: Failed at step EXEC spawning {path}: "
                f"{'No such file or directory' if file is None else 'Permission denied'}",
            )
            return 203
        name, version = programs.version_of(file.data)
        if not name:
            return await self._script(path, unit.name)
        if name == "containerd":
            return await self._containerd(unit.name)
        program: NodeProgram
        if name == "kubelet":
            program = KubeletProgram(self, version, unit.name)
        else:
            program = Supervisor(self, name, version, arguments, unit.name)
        self.program = program
        try:
            return await program.run()
        finally:
            await program.stop()

    async def _containerd(self, unit: str) -> int:
        if refusal := containerd_refusal(self):
            self.disk.log(unit, refusal)
            return 1
        await asyncio.Event().wait()
        return 0

    async def _script(self, path: str, where: str) -> int:
        file = self.disk.read(path)
        text = file.text if file else ""
        script = next((found for kind in _SCRIPTS if (found := kind(text)).known), None)

        def say(line: str) -> None:
            self.disk.log(where, line)
            self.disk.log(cloud_init.OUTPUT, line)

        if script is None:
            say(f"{path}: the lab does not know this script: nothing done")
            return 126
        try:
            await script.run(self, say)
        except ScriptFailed as failure:
            say(str(failure))
            return 1
        return 0

    # state

    def to_json(self, full: bool = False) -> dict[str, Any]:
        """What the control API shows; with `full` also what a restart needs."""
        hw = self.hardware
        data: dict[str, Any] = {
            "vmid": hw.vmid,
            "name": hw.name,
            "node": hw.node,
            "uuid": hw.uuid,
            "on": self.on,
            "agent": self.agent,
            "addresses": self.addresses,
            "disk_id": hw.disk_id,
            "cloud_init": self.disk.cloud_init.get("status", self.cloud_init_state),
            "units": sorted(self._running),
            "program": self.program.describe() if self.program else None,
        }
        if full:
            data["hardware"] = {**hw.__dict__, "macs": list(hw.macs)}
            data["disk"] = self.disk.to_json()
        return data
