"""How many inotify instances are left: the kernel allows root 128 on the whole machine, and we raise no limit."""

import contextlib
import os
from pathlib import Path

SERVER, WORKER = 28, 16
"""What a control plane and a worker take once they run (measured: facts/real-kubernetes.md 4.5)."""


def limit() -> int:
    """The kernel's limit for one user."""
    return int(Path("/proc/sys/fs/inotify/max_user_instances").read_text())


def used(proc: Path = Path("/proc")) -> int:
    """Instances of root's processes, counted over every process that `proc` shows."""
    seen: set[tuple[int, int]] = set()
    for process in proc.iterdir():
        if not process.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            if process.stat().st_uid != 0:
                continue
            for link in (process / "fd").iterdir():
                with contextlib.suppress(OSError):
                    if os.readlink(link) in ("anon_inode:inotify", "inotify"):
                        seen.add((int(process.name), int(link.name)))
    return len(seen)
