"""Named moments at which a worker process ends or stops itself, for the crash-point tests. Off in production.

The environment variable TRILITHON_CRASH_POINTS holds a JSON document, or the path of a file that holds one:

    {"die": ["proxmox.clone_machine:return", "proxmox POST clone:before#2"],
     "stop": ["proxmox.start_machine:return"],
     "fired": "<file>", "seen": "<file>"}

Points are `<activity>:return` (the work is done, Temporal does not know) and `<call>:before` / `<call>:lost` (a
changing call of a client: not sent yet; answered, but nobody has seen it). `<activity> > <call>:before` is the same,
in that activity only; `seen` tells it so. `#n` means the n-th time within a process.
Each point fires once over all processes: what has fired is appended to `fired` with the process id, and read before
another fires. `die` ends the process at once (`os._exit(70)`), `stop` is SIGSTOP, which the test ends with SIGCONT.
With `seen` every point that is passed is appended there: so a run without faults tells which points exist.
"""

import fcntl
import json
import os
import signal
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from temporalio import activity

VARIABLE = "TRILITHON_CRASH_POINTS"
EXIT_CODE = 70


class CrashPoints:
    """Watches points; also a `clients.crossings.Crossing`."""

    def __init__(
        self,
        die: frozenset[str] = frozenset(),
        stop: frozenset[str] = frozenset(),
        fired: Path | None = None,
        seen: Path | None = None,
    ) -> None:
        self._die = die
        self._stop = stop
        self._fired = fired
        self._seen = seen
        self._count: Counter[str] = Counter()
        self._spent: set[str] = set()

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "CrashPoints":
        """What TRILITHON_CRASH_POINTS says; nothing where it is not set. Raises ValueError when it is not readable."""
        value = environment.get(VARIABLE, "").strip()
        if not value:
            return cls()
        text = value if value.startswith("{") else Path(value).read_text(encoding="utf-8")
        plan = json.loads(text)
        return cls(
            frozenset(plan.get("die", ())),
            frozenset(plan.get("stop", ())),
            Path(plan["fired"]) if plan.get("fired") else None,
            Path(plan["seen"]) if plan.get("seen") else None,
        )

    @property
    def watching(self) -> bool:
        """True when any point can fire or is written down."""
        return bool(self._die or self._stop or self._seen)

    def before(self, name: str) -> None:
        """A client is about to send a changing call."""
        self.at(f"{name}:before", _caller())

    def after(self, name: str) -> None:
        """Its answer has come and nobody has seen it."""
        self.at(f"{name}:lost", _caller())

    def at(self, point: str, caller: str = "") -> None:
        """Pass a point: write it down, end or stop the process where it is named and has not fired yet."""
        if not self.watching:
            return
        full = f"{caller} > {point}" if caller else point
        self._count.update({point, full})
        if self._seen is not None:
            _append(self._seen, f"{full}#{self._count[full]}")
        for name in dict.fromkeys(name for form in (point, full) for name in (form, f"{form}#{self._count[form]}")):
            if name not in self._die | self._stop or not self._fires(name):
                continue
            if name in self._die:
                os._exit(EXIT_CODE)
            else:
                os.kill(os.getpid(), signal.SIGSTOP)

    def _fires(self, name: str) -> bool:
        """True once over all processes; it is written down by then."""
        if name in self._spent:
            return False
        self._spent.add(name)
        if self._fired is None:
            return True
        with self._fired.open("a+", encoding="utf-8") as file:
            # Another worker that runs beside this one may pass the same point in the same moment.
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            if name in {line.split("\t")[0] for line in file}:
                return False
            file.write(f"{name}\t{os.getpid()}\n")
        return True


def _caller() -> str:
    """The activity that runs here, empty outside one."""
    return activity.info().activity_type if activity.in_activity() else ""


def _append(path: Path, line: str) -> None:
    # One write of one short line in append mode: several processes do not mix their lines.
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)
