"""A whole Trilithon with its laboratory, as processes of their own, driven only as a user would."""

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = [sys.executable, "-m", "cli"]
FIRST_PORT = 24000
WAY = httpx.Client(
    verify=False,  # noqa: S501 - the laboratory's own certificate
    trust_env=False,
    timeout=30,
    limits=httpx.Limits(max_keepalive_connections=0),
)
"""Calls to a laboratory and a platform of the tests. One client for all: each new one would read every authority of the
machine, which costs more than the call. No connection outlives its call, since those who answer are killed at will."""
QUICK_LIMITS = {"boot": 60.0, "ready": 60.0, "available": 60.0, "persist": 30.0, "retry_max": 2.0}
"""The test profile of time-outs: a job asks a person after a minute at most."""


class Trilithon:
    """`trilithon up --lab` in a folder of its own, on ports and addresses that nobody else has.

    Args:
        folder: everything it keeps, and the command line's own configuration.
        environment: more variables for its processes, for example crash points.
    """

    lab_arguments: tuple[str, ...] = ("--lab",)
    start_limit = 90.0
    """Seconds until `up` must have said what to try next."""

    def __init__(self, folder: Path, environment: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.data = folder / "data"
        self._claim, self.space = claim_space()
        first = FIRST_PORT + self.space * 4
        self.port, self.temporal_port, self.ui_port = first, first + 1, first + 2
        self.url = f"http://127.0.0.1:{self.port}"
        self.environment = {
            **os.environ,
            "TRILITHON_LIMITS": json.dumps(QUICK_LIMITS),
            "TRILITHON_CONFIG": str(folder / "config"),
            "TRILITHON_URL": self.url,
            **(environment or {}),
        }
        self.process: subprocess.Popen[bytes] | None = None
        self.lab: dict[str, Any] = {}

    # --- the platform's life ---

    def start(self) -> None:
        """Starts everything and returns when it says what to try next."""
        self.folder.mkdir(parents=True, exist_ok=True)
        arguments = [
            "up",
            *self.lab_arguments,
            *("--data", str(self.data)),
            *("--port", str(self.port)),
            *("--temporal-port", str(self.temporal_port)),
            *("--temporal-ui-port", str(self.ui_port)),
            *("--lab-space", str(self.space)),
        ]
        out = self.folder / "up.out"
        with out.open("wb") as stdout, (self.folder / "up.err").open("ab") as stderr:
            self.process = subprocess.Popen(
                [*PROGRAM, *arguments],
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        self.until(
            lambda: "Ctrl-C stops" in out.read_text() or self.process.poll() is not None,
            self.start_limit,
            "up to be ready",
        )
        if self.process.poll() is not None:
            raise AssertionError(f"up ended with {self.process.returncode}:\n{(self.folder / 'up.err').read_text()}")
        self.lab = json.loads((self.data / "lab" / "lab.json").read_text())

    def kill(self) -> None:
        """SIGKILL to our whole process group; the laboratory is another session and lives on."""
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        ours = (self.temporal_port, self.port)
        self.until(lambda: not any(self.listening(port) for port in ours), 20, "our ports to be free")

    def listening(self, port: int) -> bool:
        """True while a process of the platform listens on the port."""
        return _listening(port)

    def stop(self) -> None:
        """Ctrl-C."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(60)

    def end(self) -> None:
        """Everything ends, the laboratory too."""
        self.stop()
        subprocess.run(
            [sys.executable, "-m", "lab.session", "stop", "--data", str(self.data / "lab")],
            cwd=ROOT,
            check=True,
            capture_output=True,
        )
        self._claim.close()

    def workers(self) -> list[int]:
        """Ids of the worker processes that `up` has started."""
        assert self.process is not None
        return [pid for pid in _children(self.process.pid) if _is_worker(pid)]

    # --- as a user ---

    def run(
        self, *arguments: str, stdin: str = "", check: bool = True, limit: float = 300
    ) -> subprocess.CompletedProcess[str]:
        """One command line; `limit` in seconds."""
        done = subprocess.run(
            [*PROGRAM, *arguments],
            cwd=ROOT,
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )
        if check and done.returncode != 0:
            raise AssertionError(
                f"trilithon {' '.join(arguments)} ended with {done.returncode}\n{done.stderr}{done.stdout}"
            )
        return done

    def login(self, user: str = "admin@pve") -> None:
        name = user.split("@")[0]
        self.run("login", self.url, "--user", user, "--password-stdin", stdin=f"lab-{name}\n")

    def manifest(self, name: str, **changes: str) -> Path:
        """An example with this laboratory's addresses; `changes` replaces texts in it."""
        text = self.moved((ROOT / "examples" / name).read_text())
        for old, new in changes.items():
            text = text.replace(old, new)
        path = self.folder / name
        path.write_text(text)
        return path

    def moved(self, text: str) -> str:
        """A manifest's text with the addresses of this laboratory in place of the default one's."""
        return text.replace("127.80.", f"127.{self.space + 10}.")

    def cluster(self, name: str, namespace: str = "clusters") -> dict[str, Any]:
        return dict(json.loads(self.run("get", f"cluster/{name}", "-n", namespace, "-o", "json").stdout))

    def way_in(self) -> dict[str, str]:
        """Variables with which a user's own programs reach the clusters' network."""
        return {}

    def kubectl(self, kubeconfig: Path, *arguments: str, given: str = "") -> str:
        """The real kubectl against a cluster of the laboratory; `given` is its standard input."""
        program = Path(sys.executable).with_name("kubectl")
        done = subprocess.run(
            [str(program), "--kubeconfig", str(kubeconfig), *arguments],
            env=self.environment | self.way_in(),
            input=given,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    # --- the laboratory ---

    def state(self) -> dict[str, Any]:
        """The simulated Proxmox VE's whole state, once no task runs."""
        found: list[dict[str, Any]] = []

        def settled() -> bool:
            answer = WAY.get(f"{self.lab['control']}/lab/state", params={"settled": "1"}, timeout=10)
            if answer.status_code == 200:
                found.append(answer.json())
            return bool(found)

        self.until(settled, 30, "the laboratory to settle")
        return found[-1]

    def journal(self) -> list[dict[str, Any]]:
        return list(WAY.get(f"{self.lab['control']}/lab/journal", timeout=10).json())

    def faults(self, *rules: dict[str, Any]) -> None:
        WAY.delete(f"{self.lab['control']}/lab/faults", timeout=10).raise_for_status()
        if rules:
            WAY.post(f"{self.lab['control']}/lab/faults", json=list(rules), timeout=10).raise_for_status()

    @staticmethod
    def until(true: Callable[[], bool], limit: float, what: str) -> None:
        """Looks again and again until it is true."""
        deadline = time.monotonic() + limit
        while not true():
            if time.monotonic() > deadline:
                raise AssertionError(f"waited {limit} s for {what}")
            time.sleep(0.05)


@contextlib.contextmanager
def trilithon(folder: Path, environment: dict[str, str] | None = None) -> Iterator[Trilithon]:
    """A running Trilithon that is ended whatever happens."""
    platform = Trilithon(folder, environment)
    try:
        platform.start()
        yield platform
    finally:
        platform.end()


def claim_space() -> tuple[socket.socket, int]:
    """A number N that no other platform of any test run has, and the socket that holds the claim while it is open.

    The laboratory takes the addresses 127.0.N.x and 127.(N+10).x.x, the platform ports that N tells, outside the range
    from which the kernel gives ports away.
    """
    for space in random.sample(range(100, 160), 60):
        claim = socket.socket(socket.AF_UNIX)
        with socket.socket() as probe, contextlib.suppress(OSError):
            claim.bind(f"\0trilithon-test-space-{space}")
            probe.bind((f"127.0.{space}.1", 8006))
            return claim, space
        claim.close()
    raise AssertionError("no free addresses for a laboratory")


def _listening(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _is_worker(pid: int) -> bool:
    """By the name of a copy of `up`, or by the command where it begins by one."""
    with contextlib.suppress(OSError):
        process = Path(f"/proc/{pid}")
        return (process / "comm").read_text() == "worker\n" or "\0workers.main\0" in (process / "cmdline").read_text()
    return False
