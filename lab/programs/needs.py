"""What the real laboratory needs of a machine, said in sentences."""

import os
import re
import shutil
import subprocess
from pathlib import Path

EXIT_MISSING = 69
"""Exit status when the machine lacks something (EX_UNAVAILABLE), so that a caller can tell it from a failure."""

MINIMUM_GO = (1, 26)
_CONTROLLERS = ("systemd", "cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids")


class Missing(Exception):
    """The machine lacks something that the real laboratory needs; str() says what, and what still works."""


def go_version(text: str) -> tuple[int, int]:
    """(major, minor) of `go version`'s line; (0, 0) when it names none.

    >>> go_version("go version go1.26.8 linux/amd64")
    (1, 26)
    """
    found = re.search(r"\bgo(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def missing_for_build() -> list[str]:
    """What is missing to build the programs; empty when nothing is."""
    go = shutil.which("go")
    if go is None:
        return [f"Go {MINIMUM_GO[0]}.{MINIMUM_GO[1]} or newer (no `go` on PATH)"]
    said = subprocess.run([go, "version"], capture_output=True, text=True, check=False).stdout
    if go_version(said) < MINIMUM_GO:
        return [f"Go {MINIMUM_GO[0]}.{MINIMUM_GO[1]} or newer (found: {said.strip() or 'no version'})"]
    return []


def missing_for_nodes() -> list[str]:
    """What is missing to run nodes, the build's needs included; empty when nothing is."""
    lacks = missing_for_build()
    if os.geteuid() != 0:
        lacks.append("root (machines are namespaces and cgroups)")
    lacks += [
        f"the program `{name}`"
        for name in ("apt-get", "dpkg", "perl", "ip", "nsenter", "unshare", "setpriv")
        if shutil.which(name) is None
    ]
    absent = [name for name in _CONTROLLERS if not Path("/sys/fs/cgroup", name).is_dir()]
    if absent:
        lacks.append(f"cgroup v1 controllers under /sys/fs/cgroup (missing: {', '.join(absent)})")
    return lacks


def require(lacks: list[str]) -> None:
    """Raises Missing with one clear text when something lacks."""
    if lacks:
        raise Missing(
            "The real-nodes laboratory cannot run on this machine. It needs: "
            + "; ".join(lacks)
            + ". The simulated laboratory (`trilithon up --lab`) needs none of this."
        )
