"""A whole Trilithon on real nodes, driven only as a user would; and the ways to hurt what lies around it."""

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import httpx
import yaml

from cli import laboratory
from lab.real.lock import DEFAULT, MachineLock
from tests.e2e.running import ROOT, WAY, Trilithon
from tests.lab.real.machine_state import MARK, MachineState

LOCK_WAIT = 3600.0
"""Seconds that a test run waits for another laboratory's end."""
LIMITS = {"boot": 300.0, "ready": 300.0, "available": 300.0, "persist": 120.0, "retry_max": 2.0}
"""The usual time-outs: a real node takes half a minute where nothing else runs, and minutes where much does."""
PAUSE = 0.5
"""Seconds between two looks at a system that tells nobody."""
Found = TypeVar("Found")


class RealTrilithon(Trilithon):
    """`trilithon up --lab real`; waits for the machine's one laboratory before it starts.

    Args:
        folder: everything it keeps.
        environment: more variables for its processes.
    """

    lab_arguments = ("--lab", "real")

    def __init__(self, folder: Path, environment: dict[str, str] | None = None) -> None:
        super().__init__(folder, {"TRILITHON_LIMITS": json.dumps(LIMITS), **(environment or {}), MARK: "1"})

    # --- the platform's life ---

    def start(self) -> None:
        """Starts laboratory and platform; `up` itself finds the laboratory running, so that it need not wait."""
        self.folder.mkdir(parents=True, exist_ok=True)
        line = [sys.executable, "-m", "lab.session", "start", "--data", str(self.data / "lab"), "--kind", "real"]
        with (self.folder / "session.err").open("ab") as stderr:
            done = subprocess.run(
                [*line, "--space", str(self.space), "--wait", str(LOCK_WAIT)],
                cwd=ROOT,
                env=self.environment,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                check=False,
            )
        assert done.returncode == 0, (self.folder / "session.err").read_text()[-3000:]
        super().start()

    def again(self, **limits: float) -> None:
        """Ends the platform's processes and starts them with other time-outs; the laboratory goes on."""
        self.stop()
        self.environment["TRILITHON_LIMITS"] = json.dumps({**LIMITS, **limits})
        super().start()

    def listening(self, port: int) -> bool:
        return laboratory.listens_inside(self.lab, port)

    # --- as a user ---

    def moved(self, text: str) -> str:
        return text.replace("172.30.70.", f"172.30.{self.space}.")

    def way_in(self) -> dict[str, str]:
        return {"HTTPS_PROXY": self.lab["proxy"]}

    def kubeconfig(self, name: str) -> Path:
        """A cluster's kubeconfig by the command line."""
        path = self.folder / f"{name}.kubeconfig"
        self.run("kubeconfig", name, "-f", str(path))
        return path

    def objects(self, kubeconfig: Path, *what: str) -> list[dict[str, Any]]:
        """What `kubectl get` lists."""
        return list(json.loads(self.kubectl(kubeconfig, "get", *what, "-o", "json"))["items"])

    def api(self, path: str) -> Any:
        """What the pages get: one read of the HTTP API, in the session of the command line."""
        answer = self._asked("GET", path)
        answer.raise_for_status()
        return answer.json()

    def goes_on(self, job: dict[str, Any]) -> bool:
        """Tells a job that asks a person to try again, as its page does; False where it asks no more."""
        return self._asked("POST", f"/jobs/{job['id']}/retry").is_success

    def _asked(self, method: str, path: str) -> httpx.Response:
        session = yaml.safe_load((self.folder / "config" / "sessions.yaml").read_text())["default"]
        cookies = "; ".join(f"{name}={value}" for name, value in session["cookies"].items())
        headers = {"Cookie": cookies, "X-CSRF-Token": session["csrf"]}
        return WAY.request(method, f"{self.url}/api/v1{path}", headers=headers)

    def cluster(self, name: str, namespace: str = "clusters") -> dict[str, Any]:
        return dict(self.api(f"/clusters/{namespace}/{name}"))

    def available(self, name: str, limit: int = 300) -> float:
        """Waits until a cluster is Available; the seconds it took."""
        began = time.monotonic()
        done = self.run(
            "wait", f"cluster/{name}", "--for=condition=Available", f"--timeout={limit}s", check=False, limit=limit + 30
        )
        assert done.returncode == 0, f"{done.stderr}{done.stdout}\n{self.told(name)}"
        return time.monotonic() - began

    def delete(self, name: str) -> float:
        """Deletes a cluster and waits until it is gone; the seconds it took."""
        began = time.monotonic()
        self.run("delete", f"cluster/{name}", "--yes", "--wait", limit=900)
        return time.monotonic() - began

    def condition(self, name: str, kind: str) -> dict[str, Any]:
        """One condition of a cluster as the API shows it, empty where it has none."""
        return next((row for row in self.cluster(name)["conditions"] if row["type"] == kind), {})

    def job(self, name: str) -> dict[str, Any]:
        """A cluster's newest job, as its page shows it."""
        found = self.cluster(name)["job"]
        assert found, f"{name} has no job yet"
        return dict(self.api(f"/jobs/{found['id']}"))

    def machines(self, name: str) -> list[dict[str, Any]]:
        """A cluster's machines as the API lists them."""
        return list(self.api(f"/clusters/clusters/{name}/machines")["items"])

    def told(self, name: str) -> str:
        """What is known of a cluster that does not come, for a failed test."""
        state, job = self.cluster(name), self.job(name)
        rows = [f"{row['type']}={row['status']} {row['reason']}: {row['message']}" for row in state["conditions"]]
        return "\n".join([f"job {job['phase']}: {job['error']}", *rows, (self.folder / "up.err").read_text()[-1000:]])

    # --- what lies around it ---

    def nodes_call(self, method: str, path: str, body: object = None) -> Any:
        """One call of the real nodes' control API."""
        answer = WAY.request(method, self.lab["nodes"] + path, json=body, timeout=150)
        answer.raise_for_status()
        return answer.json()

    def inside(self, vmid: int, *command: str) -> str:
        """Runs a command in a machine, as root; its output."""
        answer = self.nodes_call("POST", f"/machines/{vmid}/agent/exec", {"command": list(command)})
        assert answer["exitcode"] == 0, answer
        return str(answer["out"])

    def running(self) -> dict[int, dict[str, Any]]:
        """The real machines by their VM id."""
        return {row["vmid"]: row for row in self.nodes_call("GET", "/state")["machines"]}

    def change_vm(self, vmid: int, **change: Any) -> None:
        """Changes a VM behind everyone's back: `status="stopped"` pulls its plug, "running" gives it power."""
        answer = WAY.put(f"{self.lab['control']}/lab/vms/{vmid}", json=change, timeout=120)
        answer.raise_for_status()

    def proxmox(self, method: str, path: str) -> Any:
        """One call of Proxmox VE's API from outside, as an administrator."""
        token = self.lab["people"]["platform"]
        headers = {"Authorization": f"PVEAPIToken={token['id']}={token['secret']}"}
        answer = WAY.request(method, f"{self.lab['outside_endpoints'][0]}/api2/json{path}", headers=headers, timeout=60)
        answer.raise_for_status()
        return answer.json()["data"]

    def restore_people(self) -> None:
        """The people of the datacenter and their rights as they were at its start."""
        WAY.post(f"{self.lab['control']}/lab/people/restore", timeout=10).raise_for_status()

    def calls_since(self, mark: int) -> list[dict[str, Any]]:
        """What was changed in Proxmox VE after entry `mark` of its journal, by anybody."""
        return [row for row in self.journal() if row["seq"] > mark and row.get("method") != "GET"]

    def mark(self) -> int:
        """The number of the journal's last entry."""
        return max((int(row["seq"]) for row in self.journal()), default=0)

    @staticmethod
    def look(what: str, seconds: float, question: Callable[[], Found]) -> Found:
        """Asks again and again until the answer is true; a program that fails meanwhile is no answer yet."""
        deadline, last = time.monotonic() + seconds, "nothing"
        while time.monotonic() < deadline:
            try:
                answer = question()
            except (AssertionError, httpx.HTTPError) as error:
                last = str(error)
            else:
                if answer:
                    return answer
                last = repr(answer)
            time.sleep(PAUSE)
        raise AssertionError(f"waited {seconds:.0f} s for {what}; last: {last[-2000:]}")


@contextlib.contextmanager
def ended_with_us(data: Path) -> Iterator[None]:
    """Platform and laboratory of a data folder end when this process dies, however it dies.

    They are sessions of their own and would go on: a run that was cut off at its time limit must not keep the machine's
    one laboratory. A keeper waits for the end of its standard input, which the kernel closes with us.
    """
    work = "import subprocess, sys; sys.stdin.read() or subprocess.run(sys.argv[1:])"
    reset = [sys.executable, "-m", "cli", "reset", "--yes", "--data", str(data)]
    keeper = subprocess.Popen(
        [sys.executable, "-c", work, *reset],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        keeper.communicate(b"we have ended it ourselves")


def machine_state() -> MachineState:
    """The machine as it is while no laboratory of real nodes runs on it."""
    lock = MachineLock(DEFAULT)
    lock.take("tests/real, which look at the machine", LOCK_WAIT, lambda line: sys.stderr.write(f"{line}\n"))
    try:
        return MachineState()
    finally:
        lock.drop()
