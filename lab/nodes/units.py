"""The little of systemd that boot data relies on: unit files, enable, start, conditions and restarts."""

import shlex
from dataclasses import dataclass, field

from lab.nodes.disk import Disk

FOLDERS = (
    "/etc/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
)


@dataclass(frozen=True)
class Unit:
    """A service unit, as far as it matters here."""

    name: str
    command: tuple[str, ...]
    conditions: tuple[str, ...] = ()
    """Paths of ConditionPathExists, with a leading `!` for those that must not exist."""
    restart: str = "no"
    restart_seconds: float = 0.1
    oneshot: bool = False
    wanted: bool = True
    """Has an [Install] section, so that `enable` does something."""
    problems: tuple[str, ...] = field(default=())

    def may_start(self, disk: Disk) -> bool:
        """True when every condition holds; systemd skips the unit silently otherwise."""
        return all(not disk.exists(path[1:]) if path.startswith("!") else disk.exists(path) for path in self.conditions)


def find(disk: Disk, name: str) -> Unit | None:
    """Reads a unit file from the folders that systemd looks into; None when there is none."""
    full = name if "." in name else f"{name}.service"
    for folder in FOLDERS:
        if (file := disk.read(f"{folder}/{full}")) is not None:
            return parse(full, file.text)
    return None


def parse(name: str, text: str) -> Unit:
    """Reads a unit file. Lines that cannot be read are named in `problems`, as systemd logs and ignores them."""
    section = ""
    values: dict[tuple[str, str], list[str]] = {}
    problems: list[str] = []
    sections: set[str] = set()
    for raw in text.splitlines():
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        if line.startswith("["):
            section = line.strip("[]")
            sections.add(section)
        elif "=" in line:
            key, value = line.split("=", 1)
            values.setdefault((section, key.strip()), []).append(value.strip())
        else:
            problems.append(f"{name}: Missing '=', ignoring line.")

    def last(part: str, key: str, default: str = "") -> str:
        return values.get((part, key), [default])[-1]

    commands = values.get(("Service", "ExecStart"), [])
    command: tuple[str, ...] = ()
    if len(commands) == 1:
        command = tuple(shlex.split(commands[0].lstrip("-@+!:")))
    if not command or not command[0].startswith("/"):
        problems.append(f"{name}: Service has no ExecStart=, or no absolute path in it. Refusing.")
        command = ()
    kind = last("Service", "Type", "simple")
    if kind not in ("simple", "exec", "oneshot", "notify", "notify-reload", "forking", "dbus", "idle"):
        problems.append(f"{name}: Failed to parse service type, ignoring: {kind}")
    return Unit(
        name,
        command,
        tuple(values.get(("Unit", "ConditionPathExists"), [])),
        last("Service", "Restart", "no"),
        _seconds(last("Service", "RestartSec", "100ms")),
        kind == "oneshot",
        "Install" in sections and bool(last("Install", "WantedBy")),
        tuple(problems),
    )


def _seconds(text: str) -> float:
    for suffix, factor in (("ms", 0.001), ("min", 60.0), ("s", 1.0), ("", 1.0)):
        if text.endswith(suffix):
            try:
                return float(text.removesuffix(suffix)) * factor
            except ValueError:
                break
    return 0.1


def restarts(unit: Unit, status: int) -> bool:
    """True when systemd starts the unit again after this exit status."""
    if unit.restart == "always":
        return not (unit.oneshot and status == 0)
    return unit.restart in ("on-failure", "on-abnormal") and status != 0
