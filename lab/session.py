"""The simulated datacenter as a session of its own: Proxmox VE does not die when Trilithon does.

    python -m lab.session start --data DIR [--space N]     # starts what is not running; prints its description as JSON
    python -m lab.session stop  --data DIR
    python -m lab.session status --data DIR

`--space N` chooses the addresses, so that several laboratories stand side by side: Proxmox VE's nodes on 127.0.N.1-3,
the simulated machines' hypervisor on 127.0.N.9, artifacts on 127.0.N.10, and the clusters' network 127.(N+10).0.0/16.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PVE_PYTHON = ROOT / ".venv-lab" / "bin" / "python"
START_LIMIT = 30.0
"""Seconds until a part that says nothing is given up."""


def start(data: Path, space: int) -> dict[str, Any]:
    """Starts the parts that do not run and returns the description of the laboratory.

    Raises:
        SystemExit: a part did not start; its log's last lines are in the text.
    """
    data.mkdir(parents=True, exist_ok=True)
    known = describe(data)
    if known is not None and all(_runs(part) for part in known["processes"].values()):
        return known
    if known is not None:
        stop(data)
    base = f"127.0.{space}"
    nodes = _spawn(
        data,
        "nodes",
        [
            sys.executable,
            "-m",
            "lab.nodes",
            "--host",
            f"{base}.9",
            "--port",
            "8009",
            "--artifact-host",
            f"{base}.10",
            "--artifact-port",
            "8010",
            "--data",
            str(data / "nodes"),
        ],
        {},
    )
    pve = _spawn(
        data,
        "pve",
        [
            str(PVE_PYTHON),
            "-m",
            "labpve",
            "--address-base",
            base,
            "--port",
            "8006",
            "--control-port",
            "8007",
            "--nodes-url",
            f"http://{base}.9:8009",
            "--data",
            str(data / "pve"),
        ],
        {"PYTHONPATH": str(ROOT / "lab" / "pve")},
    )
    ready = pve["ready"]
    with urllib.request.urlopen(f"{ready['control']}/lab/people", timeout=10) as answer:  # noqa: S310 - loopback
        people = json.load(answer)
    known = {
        "space": space,
        "endpoints": ready["endpoints"],
        "control": ready["control"],
        "fingerprint": ready["fingerprint"],
        "nodes": nodes["ready"]["control"],
        "artifacts": nodes["ready"]["artifacts"],
        "network": {"gateway": f"127.{space + 10}.0.1", "prefix": 16, "base": f"127.{space + 10}"},
        "people": people,
        "charts": str(ROOT / "lab" / "charts"),
        "processes": {name: {k: part[k] for k in ("pid", "born")} for name, part in (("nodes", nodes), ("pve", pve))},
    }
    draft = data / "lab.json.new"
    draft.touch(mode=0o600)
    draft.write_text(json.dumps(known, indent=1))
    draft.replace(data / "lab.json")
    return known


def describe(data: Path) -> dict[str, Any] | None:
    """The description that `start` left, or None."""
    with contextlib.suppress(FileNotFoundError, ValueError):
        return dict(json.loads((data / "lab.json").read_text()))
    return None


def stop(data: Path) -> None:
    """Ends the parts that `start` began; never a process that only has the same number."""
    known = describe(data)
    if known is None:
        return
    for part in known["processes"].values():
        if _runs(part):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(part["pid"], signal.SIGTERM)
    deadline = time.monotonic() + 10
    while any(_runs(part) for part in known["processes"].values()) and time.monotonic() < deadline:
        time.sleep(0.05)
    for part in known["processes"].values():
        if _runs(part):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(part["pid"], signal.SIGKILL)
    (data / "lab.json").unlink(missing_ok=True)


def _spawn(data: Path, name: str, command: list[str], extra: dict[str, str]) -> dict[str, Any]:
    out, log = data / f"{name}.ready", data / f"{name}.log"
    with out.open("wb") as stdout, log.open("ab") as stderr:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            cwd=ROOT,
            env={**os.environ, **extra},
        )
    deadline = time.monotonic() + START_LIMIT
    while time.monotonic() < deadline:
        for line in out.read_text().splitlines():
            if line.startswith("{") and line.endswith("}"):
                return {"pid": process.pid, "born": _born(process.pid), "ready": json.loads(line)}
        if process.poll() is not None:
            break
        time.sleep(0.05)
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-5:])
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    raise SystemExit(f"The laboratory's part '{name}' did not start:\n{tail}")


def _born(pid: int) -> str:
    """When a process began, in the kernel's ticks: tells it from a later one with the same number."""
    with contextlib.suppress(OSError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if fields[0] == "Z" else fields[19]
    return ""


def _runs(part: dict[str, Any]) -> bool:
    return bool(part["born"]) and _born(int(part["pid"])) == part["born"]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="lab.session", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", choices=("start", "stop", "status"))
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--space", type=int, default=70, choices=range(2, 240), metavar="N")
    arguments = parser.parse_args()
    if arguments.what == "start":
        print(json.dumps(start(arguments.data, arguments.space)))
    elif arguments.what == "stop":
        stop(arguments.data)
    else:
        print(json.dumps(describe(arguments.data)))


if __name__ == "__main__":
    main()
