"""The guest agent of a simulated machine: its interfaces, and the few read-only commands that somebody looks with."""

import contextlib
import json
import re
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any

from lab.nodes import cloud_init
from lab.nodes.disk import Disk

if TYPE_CHECKING:
    from lab.nodes.machine import Machine

_NEWEST = re.compile(r"ls -t (\S+) \| head -n 1 \| xargs tail -n (\d+)")
"""The end of the newest of some files, as a shell is asked for it."""


def interfaces(machine: "Machine") -> list[dict[str, Any]]:
    """`network-get-interfaces` as the guest agent answers it."""
    found: list[dict[str, Any]] = [
        {
            "name": "lo",
            "hardware-address": "00:00:00:00:00:00",
            "ip-addresses": [{"ip-address": "127.0.0.1", "ip-address-type": "ipv4", "prefix": 8}],
        }
    ]
    for position, mac in enumerate(machine.hardware.macs):
        listed = [] if position else [*machine.addresses, *(machine.program.extra_addresses if machine.program else [])]
        found.append(
            {
                "name": f"eth{position}" if position else machine.disk.interface,
                "hardware-address": mac.lower(),
                "ip-addresses": [
                    {"ip-address": item.split("/")[0], "ip-address-type": "ipv4", "prefix": int(item.split("/")[1])}
                    for item in listed
                ],
            }
        )
    return found


def execute(machine: "Machine", command: list[str]) -> dict[str, Any]:
    """`guest-exec`: the few read-only commands that a person or the product looks with."""
    out, err, code = "", "", 0
    with contextlib.suppress(IndexError):
        out, err, code = _look(machine, command)
    return {"exitcode": code, "out": out, "err": err}


def _look(machine: "Machine", command: list[str]) -> tuple[str, str, int]:
    name = command[0].rsplit("/", 1)[-1]
    if name == "cloud-init" and command[1] == "status":
        current = (
            machine.disk.cloud_init
            if machine.cloud_init_state != "running"
            else cloud_init.status("running", [], {}, "")
        )
        code = 1 if current.get("status") == "error" else (2 if current.get("recoverable_errors") else 0)
        if "json" in command[2:] or "--format=json" in command[2:]:
            return json.dumps(current, indent=1) + "\n", "", code
        return f"status: {current.get('status', 'not started')}\n", "", code
    if name in ("tail", "cat"):
        path = command[-1]
        count = _count(command) if name == "tail" else 0
        text = _text(machine.disk, path)
        if text is None:
            return "", f"{name}: {path}: No such file or directory\n", 1
        return ("".join(f"{line}\n" for line in text.splitlines()[-count:]) if count else text), "", 0
    if name == "journalctl":
        unit = next((command[i + 1] for i, word in enumerate(command) if word in ("-u", "--unit")), "")
        full = unit if "." in unit else f"{unit}.service"
        lines = machine.disk.logs.get(full, [])[-(_count(command) or 400) :]
        return "".join(f"{line}\n" for line in lines) or "-- No entries --\n", "", 0
    if name == "systemctl" and command[1] in ("is-active", "is-failed"):
        full = command[-1] if "." in command[-1] else f"{command[-1]}.service"
        active = machine.runs(full)
        return ("active\n" if active else "inactive\n"), "", 0 if active else 3
    if name == "sh" and command[1] == "-c" and (match := _NEWEST.fullmatch(command[2])):
        found = [lines for path, lines in machine.disk.logs.items() if fnmatch(path, match[1])]
        return "".join(f"{line}\n" for line in (found[-1][-int(match[2]) :] if found else [])), "", 0
    if name == "hostname":
        return f"{machine.disk.hostname or machine.hardware.name}\n", "", 0
    if name == "test" and command[1] in ("-e", "-f"):
        return "", "", 0 if machine.disk.exists(command[2]) else 1
    return "", f"{command[0]}: the lab's guest agent does not know this command\n", 127


def _text(disk: Disk, path: str) -> str | None:
    if path in disk.logs:
        return "".join(f"{line}\n" for line in disk.logs[path])
    file = disk.read(path)
    return file.text if file else None


def _count(command: list[str]) -> int:
    for position, word in enumerate(command):
        if word in ("-n", "--lines") and position + 1 < len(command):
            return int(command[position + 1])
        if word.startswith("-n") and word[2:].isdigit():
            return int(word[2:])
        if word.startswith("--lines="):
            return int(word[8:])
        if word.startswith("-") and word[1:].isdigit():
            return int(word[1:])
    return 10 if command[0].rsplit("/", 1)[-1] == "tail" else 0
