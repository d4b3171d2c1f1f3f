"""Groups of our own below /sys/fs/cgroup/*/trilithon; nothing else there is ever touched."""

import contextlib
import os
import signal
import time
from pathlib import Path

from lab.real.layout import CGROUP, HIERARCHIES

ROOT = Path("/sys/fs/cgroup")


def _groups(name: str) -> list[Path]:
    return [ROOT / hierarchy / CGROUP / name for hierarchy in HIERARCHIES if (ROOT / hierarchy).is_dir()]


def make(name: str, memory_mib: int | None = None) -> None:
    """A group in every hierarchy, with a limit on memory."""
    for group in _groups(name):
        group.mkdir(parents=True, exist_ok=True)
        if "cpuset" in group.parts:
            for folder in (group.parent, group):
                for key in ("cpuset.cpus", "cpuset.mems"):
                    if not (folder / key).read_text().strip():
                        (folder / key).write_text((folder.parent / key).read_text())
        if "memory" in group.parts and memory_mib:
            (group / "memory.limit_in_bytes").write_text(str(memory_mib << 20))


def tasks(name: str) -> list[Path]:
    """The files into which a process writes its number to join."""
    return [group / "cgroup.procs" for group in _groups(name)]


def empty(name: str) -> None:
    """Removes the groups below a machine's own: a dead boot leaves its pods' behind, and kubelet stalls on them."""
    for group in _groups(name):
        _prune(group, keep=True)


def remove(name: str) -> None:
    """Removes a machine's groups; they must be without processes."""
    for _ in range(20):
        for group in _groups(name):
            _prune(group)
        if not any(group.exists() for group in _groups(name)):
            return
        time.sleep(0.1)


def sweep() -> list[str]:
    """Ends what still runs in our groups and removes them all; the names that were left. Only under the lock."""
    left = sorted({path.name for h in HIERARCHIES for path in (ROOT / h / CGROUP).glob("*") if path.is_dir()})
    for _ in range(50):
        alive = _processes()
        if not alive:
            break
        for pid in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)
    for name in left:
        remove(name)
    for hierarchy in HIERARCHIES:
        with contextlib.suppress(OSError):
            (ROOT / hierarchy / CGROUP).rmdir()
    return left


def _processes() -> set[int]:
    found: set[int] = set()
    for hierarchy in HIERARCHIES:
        for file in (ROOT / hierarchy / CGROUP).rglob("cgroup.procs"):
            with contextlib.suppress(OSError):
                found.update(int(word) for word in file.read_text().split())
    return found - {0}


def _prune(group: Path, keep: bool = False) -> None:
    for folder, _, _ in os.walk(group, topdown=False):
        if not (keep and Path(folder) == group):
            with contextlib.suppress(OSError):
                Path(folder).rmdir()
