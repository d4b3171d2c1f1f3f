"""Keeps the platform's processes running, in one process group, until told to stop."""

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cli.failures import USAGE, Failure
from cli.forked import Forked, can_fork, follow_parent, fork
from cli.output import say

_PAUSE_FIRST, _PAUSE_MAX = 0.2, 10.0
PAUSE_VARIABLE = "TRILITHON_RESTART_PAUSE"
"""Environment variable: the longest pause in seconds before a process that dies again and again is started again."""
_STEADY = 3.0
"""Seconds after which a process counts as steady and its next restart is quick again."""
STOP_LIMIT = 30.0


@dataclass
class Part:
    """One process of the platform: its name, command, environment and log file.

    `main` is the program of the same command where this process has loaded it: it then begins as a copy of this one.
    """

    name: str
    command: Sequence[str]
    log: Path
    environment: dict[str, str] = field(default_factory=dict)
    main: Callable[[], object] | None = None
    process: subprocess.Popen[bytes] | Forked | None = None
    started: float = 0.0
    pause: float = _PAUSE_FIRST
    due: float = 0.0

    def start(self) -> None:
        if self.main is not None and can_fork():
            self.process = fork(self.main, self.name, self.log, self.environment)
        else:
            self.process = self._run()
        self.started = time.monotonic()

    def _run(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as out:
            return subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env={**os.environ, **self.environment},
                preexec_fn=follow_parent,
            )

    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def tail(self, lines: int = 5) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


def _pause_max(environment: Mapping[str, str]) -> float:
    text = environment.get(PAUSE_VARIABLE, "").strip()
    try:
        return max(_PAUSE_FIRST, float(text)) if text else _PAUSE_MAX
    except ValueError:
        raise Failure(
            f"{PAUSE_VARIABLE} is not a number of seconds: {text}", "Correct it, or unset it.", code=USAGE
        ) from None


class Supervisor:
    """Starts parts in order, starts a dead one again with a growing pause, stops them in reverse order.

    Raises Failure when TRILITHON_RESTART_PAUSE is not a number.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = list(parts)
        self._pause_max = _pause_max(os.environ)
        self._stopping = False

    def start(self, part: Part) -> None:
        """Starts one part now."""
        part.start()

    def request_stop(self) -> None:
        self._stopping = True

    def watch(self) -> None:
        """Blocks until a stop is requested; tells on standard error what died and was started again."""
        while not self._stopping:
            for part in self._parts:
                self._look_after(part)
            time.sleep(0.1)

    def _look_after(self, part: Part) -> None:
        now = time.monotonic()
        if part.alive():
            if now - part.started > _STEADY:
                part.pause = _PAUSE_FIRST
            return
        if part.due == 0.0:
            code = part.process.returncode if part.process else None
            say(f"{time.strftime('%H:%M:%S')} {part.name} ended (code {code}) and is started again; log: {part.log}")
            part.due = now + part.pause
            part.pause = min(part.pause * 2, self._pause_max)
        elif now >= part.due:
            part.due = 0.0
            part.start()

    def stop(self) -> None:
        """Ends all parts, the last started first; kills what does not end within the limit."""
        for part in reversed(self._parts):
            if part.process is None or not part.alive():
                continue
            part.process.terminate()
            try:
                part.process.wait(STOP_LIMIT)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    part.process.kill()
                part.process.wait()
