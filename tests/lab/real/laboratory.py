"""The laboratory of real nodes as tests drive it: over its control API, as the simulated Proxmox VE does."""

import base64
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.lab.real.boot_data import iso
from tests.lab.real.machine_state import MARK

ROOT = Path(__file__).resolve().parents[3]
SPACE = 213
VERSION = "v1.36.3"


class Refused(Exception):
    """The control API refused; `status` and the text are its own."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status


def machine_body(net: str, vmid: int, name: str, user_data: str | None) -> dict[str, Any]:
    """What the simulated Proxmox VE would send to power a machine on, whose address ends with its VM id.

    Args:
        net: the first three parts of its address.
        vmid: its VM id.
        name: its name.
        user_data: what its ISO holds; None is a machine without one.
    """
    mac = f"bc:24:11:00:00:{vmid:02x}"
    disc = None if user_data is None else iso(user_data, name, mac, f"{net}.{vmid}", f"{net}.1")
    return {
        "name": name, "node": "pve1", "uuid": str(uuid.uuid5(uuid.NAMESPACE_DNS, name)), "serial": str(vmid),
        "memory_mib": 4096, "cores": 2, "macs": [mac], "bridge": "vmbr0", "vlan": None,
        "template": {"distribution": "kubeadm", "version": VERSION, "has_programs": True},
        "iso": base64.b64encode(disc).decode() if disc is not None else None, "disk_id": f"disk-{vmid}",
    }  # fmt: skip


class Laboratory:
    """One running lab.real."""

    def __init__(self, data: Path, *more: str) -> None:
        self.log = data / "lab.log"
        data.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "lab.real", "--space", str(SPACE), "--data", str(data), "--wait", "600", *more],
                cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, start_new_session=True,
                env={**os.environ, MARK: "1"},
            )  # fmt: skip
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"lab.real ended: {self.log.read_text()[-2000:]}"
        self.ready: dict[str, Any] = json.loads(line)
        self.net: str = self.ready["network"]["base"]
        self.proxy: str = self.ready["proxy"]

    def call(self, method: str, path: str, body: object = None) -> Any:
        """One call of the control API. Raises Refused."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.ready["control"] + path, data, method=method)  # noqa: S310 - loopback
        try:
            with urllib.request.urlopen(request, timeout=150) as answer:  # noqa: S310 - loopback
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise Refused(error.code, error.read().decode()) from None

    def power_on(self, vmid: int, name: str, user_data: str | None, **changed: Any) -> dict[str, Any]:
        """Boots a machine with an ISO of this user-data (None: no ISO); the body that was sent."""
        body = {**machine_body(self.net, vmid, name, user_data), **changed}
        self.call("POST", f"/machines/{vmid}/power-on", body)
        return body

    def run(self, vmid: int, *command: str) -> str:
        """Runs a command in a machine; its output. Fails the test when it fails."""
        answer = self.call("POST", f"/machines/{vmid}/agent/exec", {"command": list(command)})
        assert answer["exitcode"] == 0, answer
        return str(answer["out"])

    def wait(self, what: str, done: Callable[[], bool], seconds: float = 120) -> float:
        """Waits until `done` says so; the seconds it took."""
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            if done():
                return time.monotonic() - began
            time.sleep(0.3)  # nothing tells us: this is a system of its own
        raise AssertionError(f"{what}: not within {seconds:.0f} s\n{json.dumps(self.call('GET', '/state'), indent=1)}")

    def agent(self, vmid: int) -> bool:
        """True when the guest agent answers."""
        try:
            self.call("POST", f"/machines/{vmid}/agent/ping")
        except Refused:
            return False
        return True

    def booted(self, vmid: int) -> bool:
        """True when cloud-init has ended."""
        if not self.agent(vmid):
            return False
        answer = self.call("POST", f"/machines/{vmid}/agent/exec", {"command": ["cloud-init", "status"]})
        return any(word in answer["out"] for word in ("done", "disabled", "error"))

    def stop(self) -> int:
        """Asks it to end; its exit status."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(120)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return status

    def kill(self) -> None:
        """Kills its main process and waits until the kernel has ended everything else."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        # Every process inside holds our pipe's other end; when it closes, the last one is gone.
        self.process.stdout.read()
        self.process.stdout.close()
