"""`python -m lab.real.enter --space N [NODE [COMMAND ...]]`: into the laboratory's network, or into one of its nodes.

Without NODE a shell in the laboratory's own network, as the platform sees it; with NODE a shell in that machine, or
COMMAND run in it. Needs root.
"""

import argparse
import contextlib
import json
import os
import sys
import urllib.request
from pathlib import Path
from typing import Any

from lab.real.layout import CGROUP, Layout


def first_process(vmid: int) -> int | None:
    """The number, as the machine below counts, of the first process of a VM."""
    for file in sorted(Path("/sys/fs/cgroup/systemd", CGROUP, f"m{vmid}").rglob("cgroup.procs")):
        with contextlib.suppress(OSError):
            for word in file.read_text().split():
                numbers = _numbers(int(word))
                # nspawn itself lives in the laboratory's namespace; a pod's first process lies one deeper.
                if len(numbers) == 3 and numbers[-1] == 1:
                    return int(word)
    return None


def _numbers(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return [int(word) for word in line.split()[1:]]
    return []


def state(space: int) -> dict[str, Any]:
    """What the laboratory says of itself. Raises OSError when none runs there."""
    address = f"http://{Layout(space).outside}.9:8009/state"
    with urllib.request.urlopen(address, timeout=10) as answer:
        return dict(json.load(answer))


def words(space: int, node: str, command: list[str]) -> list[str]:
    """The command line that goes in.

    Raises:
        SystemExit: no laboratory, no such node, or a node without power.
    """
    try:
        known = state(space)
    except OSError as error:
        raise SystemExit(f"No laboratory of real nodes answers at space {space}: {error}") from error
    if not node:
        return ["nsenter", f"--net=/proc/{known['namespace_of']}/ns/net", "--", *(command or [_shell()])]
    row = next((row for row in known["machines"] if node in (row["name"], str(row["vmid"]))), None)
    if row is None:
        raise SystemExit(f"No node {node}; there are: {', '.join(r['name'] for r in known['machines']) or 'none'}")
    pid = first_process(row["vmid"])
    if pid is None:
        raise SystemExit(f"{node} has no power")
    return [
        "nsenter",
        "-t",
        str(pid),
        "-m",
        "-u",
        "-i",
        "-n",
        "-p",
        "-r",
        "-w",
        "--",
        *(command or ["/bin/bash", "-l"]),
    ]


def _shell() -> str:
    return os.environ.get("SHELL", "/bin/sh")


def main() -> None:
    """Becomes the command."""
    parser = argparse.ArgumentParser(
        prog="lab.real.enter", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--space", type=int, default=70, metavar="N", help="which laboratory")
    parser.add_argument("node", nargs="?", default="", help="name or VM id")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="what runs there")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("Entering the laboratory of real nodes needs root.")
    line = words(arguments.space, arguments.node, arguments.command)
    os.execvp(line[0], line)  # noqa: S606 - a shell is what is asked for


if __name__ == "__main__":
    main()
