"""A process that begins as a copy of this one, which has loaded its program already.

Loading a worker's program takes more than a second of computing; a copy is there in some milliseconds. So a worker that
dies is back before anybody has missed it, and all processes share the memory of what was loaded.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15
_LONGEST_NAME = 15
"""Characters that the kernel keeps of a process' name."""
_LOOK_EVERY = 0.02
_ENDING = (signal.SIGTERM, signal.SIGINT)


class Forked:
    """A child process, with those methods of `subprocess.Popen` that a supervisor needs."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end. Raises subprocess.TimeoutExpired after `timeout` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            time.sleep(_LOOK_EVERY)
        return code

    def terminate(self) -> None:
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


def follow_parent() -> None:
    """In a child: end when the parent ends, however it ends, and leave Ctrl-C to the parent, which stops in order."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def can_fork() -> bool:
    """True while this process has one thread: a copy of one with several may wait for ever for a lost one's lock."""
    return len(os.listdir("/proc/self/task")) == 1


def fork(main: Callable[[], object], name: str, log: Path, environment: Mapping[str, str]) -> Forked:
    """Starts a copy of this process that runs `main` and ends with it.

    Args:
        main: the program; its SystemExit is the process' exit code, any other error is written to the log.
        name: what `ps -o comm` and `top` call the process.
        log: file that its output is appended to.
        environment: variables beside those of this process.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    # A signal to the copy must not meet the handlers of this process.
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        pid = os.fork()
        if pid == 0:
            _be(main, name, out, environment, parent)
    finally:
        os.close(out)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
    return Forked(pid)


def _be(main: Callable[[], object], name: str, out: int, environment: Mapping[str, str], parent: int) -> NoReturn:
    """In the copy. Never returns: what stands below on the stack is the other process' work."""
    code = 1
    try:
        _settle(name, out, environment)
        if os.getppid() == parent:
            main()
            code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def _settle(name: str, out: int, environment: Mapping[str, str]) -> None:
    """Its own output, variables, signals and name; nothing of the parent's stays open, above all no lock."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    for old, new in ((nothing, 0), (out, 1), (out, 2)):
        os.dup2(old, new)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.environ.update(environment)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    follow_parent()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
    ctypes.CDLL(None).prctl(_PR_SET_NAME, name.lower()[:_LONGEST_NAME].encode())
