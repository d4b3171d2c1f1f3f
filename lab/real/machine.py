"""One machine: power, guest agent, and what of it is left when the power goes."""

import asyncio
import base64
import contextlib
import os
import shlex
import signal
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lab.real import cgroups, network, packages, seed
from lab.real.disk import Disk
from lab.real.faults import Faults

SHUTDOWN_SECONDS = 60.0
"""How long a guest may take to power itself off before the plug is pulled."""
EXEC_SECONDS = 110.0
_REBOOT = 133
"""nspawn's exit status with --keep-unit when the guest asked for a reboot."""


@dataclass(frozen=True)
class Hardware:
    """A VM's configuration as the simulated Proxmox VE tells it at power-on."""

    vmid: int
    name: str
    node: str
    uuid: str
    serial: str
    memory_mib: int
    cores: int
    macs: tuple[str, ...]
    bridge: str
    vlan: int | None
    version: str
    iso: bytes | None
    disk_id: str

    @classmethod
    def from_json(cls, vmid: int, data: dict[str, Any]) -> "Hardware":
        """Raises ValueError or KeyError when the body cannot be used."""
        template = data.get("template") or {}
        if template.get("distribution") != "kubeadm":
            raise ValueError(f"real nodes are kubeadm templates only, not {template.get('distribution')!r}")
        iso = data.get("iso")
        return cls(
            vmid,
            str(data["name"]),
            str(data["node"]),
            str(data.get("uuid") or uuid.uuid4()),
            str(data.get("serial") or vmid),
            int(data["memory_mib"]),
            int(data["cores"]),
            tuple(str(mac).lower() for mac in data["macs"]),
            str(data.get("bridge") or "vmbr0"),
            int(data["vlan"]) if data.get("vlan") else None,
            str(template["version"]),
            base64.b64decode(iso, validate=True) if iso is not None else None,
            str(data["disk_id"]),
        )

    def to_json(self) -> dict[str, Any]:
        """Without the ISO: it holds secrets."""
        return {**self.__dict__, "macs": list(self.macs), "iso": self.iso is not None}


class Machine:
    """A VM that was powered on at least once."""

    def __init__(
        self,
        hardware: Hardware,
        disk: Disk,
        plug: Callable[[Hardware], str],
        unplug: Callable[[int], None],
        faults: Faults,
    ) -> None:
        self.hardware = hardware
        self.disk = disk
        self.boot_id = ""
        self.seed_trouble = ""
        self.console = disk.folder / "console.log"
        self._plug, self._unplug, self._faults = plug, unplug, faults
        self._process: asyncio.subprocess.Process | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._cut = False

    @property
    def group(self) -> str:
        """Name of its cgroup."""
        return f"m{self.hardware.vmid}"

    @property
    def on(self) -> bool:
        """True while it has power."""
        return self._keeper is not None and not self._keeper.done()

    @property
    def agent(self) -> bool:
        """True while the guest agent's unit runs in the machine."""
        pid = self.init()
        if pid is None or self._faults.never_agent(self.hardware.name):
            return False
        return Path(f"/proc/{pid}/root/run/qemu-ga").is_dir()

    def init(self) -> int | None:
        """Number of the machine's first process, None while there is none."""
        return _first_process(self._process.pid) if self._process is not None and self.on else None

    # power

    async def power_on(self, hardware: Hardware) -> str:
        """Boots; returns the boot's id.

        Raises:
            ValueError: it has power already, or a fault rule finds nothing to change in it.
        """
        if self.on:
            raise ValueError("the machine has power already")
        self.hardware = hardware
        self.boot_id = str(uuid.uuid4())
        self._cut = False
        self._prepare()
        space = await asyncio.to_thread(self._plug, hardware)
        await asyncio.to_thread(cgroups.make, self.group, hardware.memory_mib)
        self._keeper = asyncio.get_running_loop().create_task(self._keep(space))
        return self.boot_id

    def _prepare(self) -> None:
        self.seed_trouble = seed.place(self.disk.root, self.hardware.iso)
        self._faults.hurt(self.hardware.name, self.disk.root)
        dmi = self.disk.root / "var/lib/lab/dmi"
        dmi.mkdir(parents=True, exist_ok=True)
        for name, value in (
            ("product_uuid", self.hardware.uuid.lower()),
            ("product_serial", self.hardware.serial),
            ("product_name", "Standard PC (Q35 + ICH9, 2009)"),
            ("sys_vendor", "QEMU"),
        ):
            (dmi / name).write_text(value + "\n")

    async def _keep(self, space: str) -> None:
        try:
            while True:
                await asyncio.to_thread(cgroups.empty, self.group)
                self._process = await self._spawn(space)
                status = await self._process.wait()
                if status != _REBOOT or self._cut:
                    return
                self.boot_id = str(uuid.uuid4())
        finally:
            await asyncio.to_thread(self._unplug, self.hardware.vmid)
            await asyncio.to_thread(cgroups.remove, self.group)

    async def _spawn(self, space: str) -> asyncio.subprocess.Process:
        root, ident = self.disk.root, self.hardware.uuid
        nspawn = [
            "nsenter",
            f"--net=/run/netns/{space}",
            "systemd-nspawn",
            "--quiet",
            "--keep-unit",
            "--register=no",
            "--resolv-conf=off",
            "--timezone=off",
            "--link-journal=no",
            "--console=read-only",
            "--capability=all",
            "-D",
            str(root),
            "-M",
            f"vm{self.hardware.vmid}",
            f"--uuid={ident}",
            *(f"--bind={path}" for path in ("/dev/fuse", "/dev/net/tun", "/dev/kmsg")),
            *(f"--bind={source}:{target}" for source, target in self.disk.binds.items()),
            "-b",
        ]
        join = "".join(f"echo $$ > {shlex.quote(str(file))}; " for file in cgroups.tasks(self.group))
        with self.console.open("ab") as log:
            return await asyncio.create_subprocess_exec(
                "/bin/sh",
                "-c",
                f"{join}exec {shlex.join(nspawn)}",
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**packages.environment(), "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "network", "SYSTEMD_SECCOMP": "0"},
            )

    async def power_off(self, how: str = "stop") -> None:
        """`stop` pulls the plug; `shutdown` asks the guest and pulls it after SHUTDOWN_SECONDS."""
        if not self.on or self._keeper is None:
            return
        if how == "shutdown" and (init := self.init()) is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(init, signal.SIGRTMIN + 4)
            await asyncio.wait([self._keeper], timeout=SHUTDOWN_SECONDS)
        self._cut = True
        while not self._keeper.done():
            # The guest's first process: with it the kernel ends everything else in the machine.
            if (init := self.init()) is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(init, signal.SIGKILL)
            elif self._process is not None and self._process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    self._process.kill()
            await asyncio.wait([self._keeper], timeout=0.2)
        self._keeper.result()

    async def reboot(self, **changed: Any) -> str:
        """Shutdown and power-on, perhaps with other hardware (an ISO that was detached)."""
        await self.power_off("shutdown")
        return await self.power_on(replace(self.hardware, **changed))

    async def destroy(self) -> None:
        """Cuts the power and removes the disk."""
        await self.power_off()
        await asyncio.to_thread(self.disk.destroy)

    # guest agent

    async def interfaces(self) -> list[dict[str, Any]]:
        """`network-get-interfaces`; empty when the machine went away meanwhile."""
        pid = self.init()
        return await network.addresses(pid) if pid is not None else []

    async def execute(self, command: list[str], seconds: float = EXEC_SECONDS) -> dict[str, Any]:
        """`guest-exec`: runs in the machine, as root, and waits for its end."""
        pid = self.init()
        words = [
            "nsenter",
            "-t",
            str(pid),
            "-m",
            "-u",
            "-i",
            "-n",
            "-p",
            "-r",
            "-w",
            "/usr/bin/env",
            "-i",
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME=/root",
            "LANG=C.UTF-8",
            *command,
        ]
        running = await asyncio.create_subprocess_exec(
            *words, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        try:
            out, err = await asyncio.wait_for(running.communicate(), seconds)
        except TimeoutError:
            running.kill()
            await running.wait()
            return {"exitcode": 124, "out": "", "err": f"no end within {seconds:.0f} s\n"}
        text = {"out": out.decode(errors="replace"), "err": err.decode(errors="replace")}
        return {"exitcode": running.returncode, **text}

    # looking

    def logs(self) -> dict[str, list[str]]:
        """Console and the boot's own logs, for people and failed tests."""
        names = {
            "console": self.console,
            **{
                f"/{name}": self.disk.root / name
                for name in ("var/log/cloud-init-output.log", "var/log/cloud-init.log", "var/log/kubeadm.log")
            },
        }
        found = {name: path for name, path in names.items() if path.exists()}
        return {name: path.read_text(errors="replace").splitlines()[-400:] for name, path in found.items()}

    def to_json(self) -> dict[str, Any]:
        """What the control API shows."""
        return {
            **self.hardware.to_json(),
            "on": self.on,
            "agent": self.agent,
            "boot_id": self.boot_id,
            "seed": self.seed_trouble or "used",
            "pid": self.init(),
        }


def _first_process(nspawn: int) -> int | None:
    """The descendant of nspawn that is number 1 in a namespace of its own."""
    depth = len(_numbers(nspawn))
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            numbers = _numbers(int(entry.name))
            if len(numbers) == depth + 1 and numbers[-1] == 1 and _parent(int(entry.name)) == nspawn:
                return int(entry.name)
    return None


def _status(pid: int, key: str) -> list[int]:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(key):
                return [int(word) for word in line.split()[1:]]
    return []


def _numbers(pid: int) -> list[int]:
    return _status(pid, "NSpid:")


def _parent(pid: int) -> int:
    return (_status(pid, "PPid:") or [0])[0]
