"""The simulated datacenter as a session of its own: Proxmox VE does not die when Trilithon does.

    python -m lab.session start --data DIR [--space N]     # starts what is not running; prints its description as JSON
    python -m lab.session start --data DIR --kind real     # real kubeadm nodes instead of simulated ones (docs/lab.md)
    python -m lab.session stop  --data DIR
    python -m lab.session status --data DIR

`--space N` chooses the addresses, so that several laboratories stand side by side: Proxmox VE's nodes on 127.0.N.1-3,
the simulated machines' hypervisor on 127.0.N.9, artifacts on 127.0.N.10, and the clusters' network 127.(N+10).0.0/16.

With `--kind real` everything lives in a network namespace: Proxmox VE's nodes on 172.30.N.1-3, the clusters' network
172.30.N.0/24. `enter` in the description is the command in front of a program that is to run inside; from outside the
same things answer on 127.0.N.x, and `proxy` leads every program that knows HTTPS_PROXY inside.
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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PVE_PYTHON = ROOT / ".venv-lab" / "bin" / "python"
START_LIMIT = 30.0
"""Seconds until a part that says nothing is given up."""
BUILD_LIMIT = 3600.0
"""The same for real nodes, which are built at their first start; every line that they say is passed on."""
PASSED_ON = (69, 75)
"""Exit statuses of lab.real that a caller can act on: the machine lacks something, or is taken."""
REAL_TEMPLATES = 9021
"""VM id of the first kubeadm template of the real laboratory."""


def start(
    data: Path, space: int, kind: str = "simulated", versions: Sequence[str] = (), wait: float = 0
) -> dict[str, Any]:
    """Starts the parts that do not run and returns the description of the laboratory.

    Args:
        data: its folder.
        space: N of its addresses.
        kind: `simulated` or `real`.
        versions: Kubernetes versions of the real laboratory's templates; empty takes its default.
        wait: seconds to wait while another real laboratory holds the machine.

    Raises:
        SystemExit: a part did not start; its log's last lines are in the text. Status 69: the machine cannot run real
            nodes; 75: another real laboratory holds it.
    """
    data.mkdir(parents=True, exist_ok=True)
    known = describe(data)
    if known is not None and known.get("kind", "simulated") != kind:
        raise SystemExit(f"A laboratory of {known.get('kind', 'simulated')} nodes lives in {data}; stop it first.")
    if known is not None and all(_runs(part) for part in known["processes"].values()):
        return known
    if known is not None:
        stop(data)
    known = _real(data, space, versions, wait) if kind == "real" else _simulated(data, space)
    draft = data / "lab.json.new"
    draft.touch(mode=0o600)
    draft.write_text(json.dumps(known, indent=1))
    draft.replace(data / "lab.json")
    return known


def _simulated(data: Path, space: int) -> dict[str, Any]:
    base = f"127.0.{space}"
    addresses = ["--host", f"{base}.9", "--port", "8009", "--artifact-host", f"{base}.10", "--artifact-port", "8010"]
    nodes = _spawn(data, "nodes", [sys.executable, "-m", "lab.nodes", *addresses, "--data", str(data / "nodes")], {})
    pve = _pve(data, base, f"http://{base}.9:8009")
    ready = pve["ready"]
    return {
        "kind": "simulated",
        "space": space,
        "endpoints": ready["endpoints"],
        "control": ready["control"],
        "fingerprint": ready["fingerprint"],
        "nodes": nodes["ready"]["control"],
        "artifacts": nodes["ready"]["artifacts"],
        "network": {"gateway": f"127.{space + 10}.0.1", "prefix": 16, "base": f"127.{space + 10}"},
        "people": _call(f"{ready['control']}/lab/people"),
        "charts": str(ROOT / "lab" / "charts"),
        "enter": [],
        "processes": _processes(nodes=nodes, pve=pve),
    }


def _real(data: Path, space: int, versions: Sequence[str], wait: float) -> dict[str, Any]:
    command = [sys.executable, "-m", "lab.real", "--space", str(space), "--data", str(data / "nodes")]
    command += ["--wait", str(wait), *(word for version in versions for word in ("--version", version))]
    nodes = _spawn(data, "nodes", command, {}, BUILD_LIMIT + wait)
    there, outside = nodes["ready"], f"127.0.{space}"
    enter = ["nsenter", f"--net=/proc/{there['namespace_of']}/ns/net", "--"]
    try:
        pve = _pve(data, there["pve"], there["control"], enter)
        for number, port in ((1, 8006), (2, 8006), (3, 8006), (1, 8007)):
            way = {"outside": f"{outside}.{number}:{port}", "inside": f"{there['pve']}.{number}:{port}"}
            _call(f"{there['control']}/forwards", "PUT", way)
        control = f"http://{outside}.1:8007"
        templates = [
            {"vmid": REAL_TEMPLATES + number, "distribution": "kubeadm", "version": version}
            for number, version in enumerate(there["versions"])
        ]
        for row in templates:
            flavour = {"distribution": row["distribution"], "version": row["version"], "has_programs": True}
            placed = {"vmid": row["vmid"], "node": "pve1", "storage": "shared", "pool": "trilithon-templates"}
            _call(f"{control}/lab/foreign", "POST", {**placed, "flavour": flavour})
        people = _call(f"{control}/lab/people")
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(nodes["pid"], signal.SIGTERM)
        raise
    ready = pve["ready"]
    return {
        "kind": "real",
        "space": space,
        "endpoints": ready["endpoints"],
        "outside_endpoints": [f"https://{outside}.{number}:8006" for number in (1, 2, 3)],
        "control": control,
        "fingerprint": ready["fingerprint"],
        "nodes": there["control"],
        "artifacts": there["artifacts"],
        "network": there["network"],
        "proxy": there["proxy"],
        "templates": templates,
        "people": people,
        "charts": str(ROOT / "lab" / "charts"),
        "enter": enter,
        "processes": _processes(nodes=nodes, pve=pve),
    }


def _pve(data: Path, base: str, nodes_url: str, enter: Sequence[str] = ()) -> dict[str, Any]:
    command = [*enter, str(PVE_PYTHON), "-m", "labpve", "--address-base", base, "--port", "8006"]
    command += ["--control-port", "8007", "--nodes-url", nodes_url, "--data", str(data / "pve")]
    return _spawn(data, "pve", command, {"PYTHONPATH": str(ROOT / "lab" / "pve")})


def _processes(**parts: dict[str, Any]) -> dict[str, Any]:
    return {name: {key: part[key] for key in ("pid", "born")} for name, part in parts.items()}


def _call(url: str, method: str = "GET", body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310 - loopback
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - loopback
        return json.load(answer)


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
    deadline = time.monotonic() + (60 if known.get("kind") == "real" else 10)
    while any(_runs(part) for part in known["processes"].values()) and time.monotonic() < deadline:
        time.sleep(0.05)
    for part in known["processes"].values():
        if _runs(part):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(part["pid"], signal.SIGKILL)
    (data / "lab.json").unlink(missing_ok=True)


def _spawn(
    data: Path, name: str, command: list[str], extra: dict[str, str], limit: float = START_LIMIT
) -> dict[str, Any]:
    out, log = data / f"{name}.ready", data / f"{name}.log"
    told = log.stat().st_size if log.exists() else 0
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
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        told = _pass_on(log, told) if limit > START_LIMIT else told
        for line in out.read_text().splitlines():
            if line.startswith("{") and line.endswith("}"):
                return {"pid": process.pid, "born": _born(process.pid), "ready": json.loads(line)}
        if process.poll() is not None:
            break
        time.sleep(0.05)
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-5:])
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    print(f"The laboratory's part '{name}' did not start:\n{tail}", file=sys.stderr)
    raise SystemExit(process.returncode if process.returncode in PASSED_ON else 1)


def _pass_on(log: Path, told: int) -> int:
    """What a part has said since, on our standard error: a build of minutes must not look like a hang."""
    with log.open("rb") as file:
        file.seek(told)
        text = file.read()
    sys.stderr.write(text.decode(errors="replace"))
    sys.stderr.flush()
    return told + len(text)


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
    parser.add_argument("--kind", choices=("simulated", "real"), default="simulated")
    parser.add_argument("--version", action="append", default=[], help="Kubernetes version of the real laboratory")
    parser.add_argument("--wait", type=float, default=0, help="seconds to wait for another real laboratory's end")
    arguments = parser.parse_args()
    if arguments.what == "start":
        known = start(arguments.data, arguments.space, arguments.kind, arguments.version, arguments.wait)
        print(json.dumps(known))
    elif arguments.what == "stop":
        stop(arguments.data)
    else:
        print(json.dumps(describe(arguments.data)))


if __name__ == "__main__":
    main()
