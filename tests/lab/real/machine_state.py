"""Everything of the machine that a laboratory could change, so that a test can say that it changed nothing."""

import contextlib
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from lab.real.layout import CGROUP

MARK = f"TRILITHON_REAL_TEST_{os.getpid()}_"
"""Environment variable that everything under test inherits. Of this test run alone: another may wait for its turn on
the same machine."""
_MOVES = {
    "fs/dentry-state", "fs/inode-nr", "fs/inode-state", "fs/file-nr", "fs/aio-nr", "fs/quota/syncs",
    "kernel/ns_last_pid",
    "kernel/pty/nr", "kernel/random/entropy_avail", "kernel/random/uuid", "kernel/random/boot_id",
    "net/netfilter/nf_conntrack_count", "kernel/perf_event_max_sample_rate", "kernel/tainted",
}  # fmt: skip
"""Files under /proc/sys that are counters, not settings."""


def settings() -> dict[str, str]:
    """All of /proc/sys but the counters."""
    found: dict[str, str] = {}
    for folder, _, names in os.walk("/proc/sys"):
        for name in names:
            path = f"{folder}/{name}"
            key = path.removeprefix("/proc/sys/")
            if key not in _MOVES:
                with contextlib.suppress(OSError, UnicodeDecodeError):
                    found[key] = Path(path).read_text()
    return found


def _mounts() -> list[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return sorted(" ".join(line.split()[3:5]) + " " + line.partition(" - ")[2] for line in lines)


def _groups() -> list[str]:
    """The groups that a laboratory makes, and those that nspawn, systemd and kubelet would make beside them.

    Other programs of the machine have groups of their own, which come and go as they like.
    """
    found = []
    for folder, _, _ in os.walk("/sys/fs/cgroup"):
        parts = folder.split("/")
        if CGROUP in parts or any(part in ("payload", "supervisor") or part.startswith("kubepods") for part in parts):
            found.append(folder)
    return sorted(found)


def _said(*words: str) -> str:
    if shutil.which(words[0]) is None:
        return ""
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout


def _process(pid: int) -> tuple[int, int, str] | None:
    """(parent, start, name) of a process."""
    with contextlib.suppress(OSError, ValueError):
        name, rest = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rsplit(")", 1)
        words = rest.split()
        return int(words[1]), int(words[19]), name
    return None


def _processes() -> dict[tuple[int, int], tuple[int, str]]:
    found: dict[tuple[int, int], tuple[int, str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (known := _process(int(entry.name))) is not None:
            found[int(entry.name), known[1]] = (known[0], known[2])
    return found


@dataclass
class MachineState:
    """The machine at one moment."""

    settings: dict[str, str] = field(default_factory=settings)
    mounts: list[str] = field(default_factory=_mounts)
    groups: list[str] = field(default_factory=_groups)
    links: str = field(default_factory=lambda: _said("ip", "-o", "link"))
    named_namespaces: str = field(default_factory=lambda: _said("ip", "netns", "list"))
    rules: str = field(default_factory=lambda: _said("nft", "list", "ruleset"))
    processes: dict[tuple[int, int], tuple[int, str]] = field(default_factory=_processes)

    def changes(self, later: "MachineState") -> list[str]:
        """What differs, in words. Processes of other people's programs come and go; only ours count."""
        found: list[str] = []
        for key in sorted(self.settings.keys() | later.settings.keys()):
            if self.settings.get(key) != later.settings.get(key):
                found.append(f"/proc/sys/{key}: {self.settings.get(key)!r} became {later.settings.get(key)!r}")
        for what in ("mounts", "groups"):
            before, after = set(getattr(self, what)), set(getattr(later, what))
            found += [f"{what}: new {item}" for item in sorted(after - before)]
            found += [f"{what}: gone {item}" for item in sorted(before - after)]
        for what in ("links", "named_namespaces", "rules"):
            if getattr(self, what) != getattr(later, what):
                found.append(f"{what}: {getattr(self, what)!r} became {getattr(later, what)!r}")
        return found + [f"process left: {text}" for text in later.left_of(self)]

    def left_of(self, before: "MachineState") -> list[str]:
        """New processes that carry our mark, or live in namespaces and have lost their parent."""
        own = {name: os.readlink(f"/proc/self/ns/{name}") for name in ("net", "pid", "mnt")}
        found: list[str] = []
        for (pid, start), (parent, name) in self.processes.items():
            if (pid, start) in before.processes or pid == os.getpid():
                continue
            with contextlib.suppress(OSError):
                marked = MARK.encode() in Path(f"/proc/{pid}/environ").read_bytes()
                elsewhere = any(os.readlink(f"/proc/{pid}/ns/{kind}") != link for kind, link in own.items())
                if marked or (elsewhere and parent in (0, 1)):
                    found.append(f"{pid} {name}")
        return found
