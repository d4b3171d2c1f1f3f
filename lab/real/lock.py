"""One laboratory of real nodes on a machine: the kernel's inotify instances do not suffice for two."""

import errno
import fcntl
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

DEFAULT = Path("/run/lock/trilithon-real.lock")


class Taken(Exception):
    """Another laboratory holds the machine; str() names it."""


class MachineLock:
    """An advisory lock; the kernel drops it when the holder dies, however it dies."""

    def __init__(self, path: Path = DEFAULT) -> None:
        self.path = path
        self._file: int | None = None

    def holder(self) -> str:
        """Who holds the lock, as that process wrote it."""
        try:
            known = json.loads(self.path.read_text())
            return f"process {known['pid']} ({known['what']}, since {known['since']})"
        except (OSError, ValueError, KeyError):
            return "an unknown process"

    def take(self, what: str, wait: float, say: Callable[[str], None]) -> int:
        """Takes the lock, waiting `wait` seconds at most; returns its descriptor.

        Raises:
            Taken: somebody else still holds it.
        """
        file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        deadline, told = time.monotonic() + wait, False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EACCES):
                    raise
                if time.monotonic() >= deadline:
                    os.close(file)
                    raise Taken(f"The machine's one laboratory of real nodes is in use by {self.holder()}.") from None
                if not told:
                    say(f"waiting for the machine's one laboratory of real nodes: in use by {self.holder()}")
                    told = True
                time.sleep(0.2)
        os.ftruncate(file, 0)
        os.pwrite(file, json.dumps({"pid": os.getpid(), "what": what, "since": time.strftime("%F %T")}).encode(), 0)
        self._file = file
        return file

    def drop(self) -> None:
        """Gives the lock back."""
        if self._file is not None:
            os.ftruncate(self._file, 0)
            os.close(self._file)
            self._file = None
