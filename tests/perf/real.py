"""Create to Available of examples/dev-kubeadm.yaml on real nodes, beside the laboratory's floor, in one run.

The floor: the same three machines powered on at once with ready-made user-data, without Proxmox VE, clones and waiting
turns, until every pod is ready. What we add is the turns that the design asks for (the cluster's first server is Ready
before anybody joins), the clones and boot ISOs, and our own looking and planning.
"""

import json
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx

from domain.contracts import activities as names
from tests.lab.real.boot_data import HandMade
from tests.lab.real.laboratory import VERSION, machine_body
from tests.real.running import RealTrilithon

FLOOR = {151: "server", 161: "worker-a", 162: "worker-b"}
FLOOR_ENDPOINT = 150
"""Other addresses than the example's, so that nobody remembers a dead machine's."""
MANIFEST, CLUSTER = "dev-kubeadm.yaml", "dev"
PATIENCE, LOOK = 900.0, 0.3
TARGET = 1.5
Row = tuple[str, str, str, str]
Moments = Mapping[tuple[str, str], tuple[float, float]]
"""(activity, machine) -> begin and end of the step, in seconds after the create was accepted."""


def measure(running: RealTrilithon) -> list[Row]:
    """The table's rows: floor, create, what every pod needs, then the create's way stretch by stretch."""
    nodes, floor = _floor(running)
    available, pods, stretches = _create(running)
    running.delete(CLUSTER)
    return [
        ("Floor of 1+2: nodes Ready", "real nodes", f"{nodes:.1f} s", ""),
        ("Floor of 1+2: every pod ready", "real nodes", f"{floor:.1f} s", ""),
        ("Create to Available, 1+2 with Calico", "real nodes", f"{available:.1f} s", f"≤ {TARGET} floors"),
        ("... of the floor", "", f"{available / floor:.2f}", f"≤ {TARGET}"),
        ("Create to every pod ready", "real nodes", f"{pods:.1f} s ({pods / floor:.2f})", ""),
        *(("· " + what, f"from {begin:.1f} s", f"{end - begin:.1f} s", "") for what, begin, end in stretches),
    ]


# --- the floor ---


def _floor(running: RealTrilithon) -> tuple[float, float]:
    """Seconds from power-on of all three until the nodes are Ready, and until every pod is."""
    net = running.lab["network"]["base"]
    made = HandMade(f"{net}.{FLOOR_ENDPOINT}", VERSION)
    config = running.folder / "floor.kubeconfig"
    config.write_text(made.admin())
    bodies = {}
    for vmid, name in FLOOR.items():
        address = f"{net}.{vmid}"
        data = made.first_server(address) if name == "server" else made.joiner(address)
        bodies[vmid] = machine_body(net, vmid, name, data)
    begun = time.monotonic()
    for vmid, body in bodies.items():
        running.nodes_call("POST", f"/machines/{vmid}/power-on", body)
    try:
        ready = _until(begun, lambda: _nodes_ready(running, config) == set(FLOOR.values()))
        return ready, _until(begun, lambda: _pods_ready(running, config))
    finally:
        for vmid in bodies:
            running.nodes_call("DELETE", f"/machines/{vmid}")


def _until(begun: float, question: Callable[[], bool]) -> float:
    """Seconds from `begun` until the answer is yes; a program that fails has no answer yet."""
    while time.monotonic() - begun < PATIENCE:
        try:
            if question():
                return time.monotonic() - begun
        except AssertionError:
            pass
        time.sleep(LOOK)
    raise AssertionError(f"not within {PATIENCE:.0f} s")


def _listed(running: RealTrilithon, config: Path, what: str) -> list[dict[str, Any]]:
    return list(json.loads(running.kubectl(config, "get", what, "-A", "-o", "json", "--request-timeout=3s"))["items"])


def _is(row: dict[str, Any], condition: str) -> bool:
    return any(c["type"] == condition and c["status"] == "True" for c in row["status"].get("conditions") or ())


def _nodes_ready(running: RealTrilithon, config: Path) -> set[str]:
    return {row["metadata"]["name"] for row in _listed(running, config, "nodes") if _is(row, "Ready")}


def _pods_ready(running: RealTrilithon, config: Path) -> bool:
    pods = _listed(running, config, "pods")
    return bool(pods) and all(_is(pod, "Ready") for pod in pods)


# --- the product ---


def _create(running: RealTrilithon) -> tuple[float, float, list[tuple[str, float, float]]]:
    """Seconds to Available and to every pod ready, and the stretches of the way."""
    with httpx.Client(base_url=f"{running.url}/api/v1", timeout=60, trust_env=False) as http:
        _sign_in(http)
        manifest = running.manifest(MANIFEST).read_text()
        begun, clock = time.monotonic(), time.time()
        answer = http.post("/clusters", content=manifest, headers={"Content-Type": "application/yaml"})
        assert answer.status_code < 300, answer.text
        available = _until(begun, lambda: _available(http))
        config = running.kubeconfig(CLUSTER)
        pods = _until(begun, lambda: _pods_ready(running, config))
        job = http.get(f"/jobs/{http.get(f'/clusters/clusters/{CLUSTER}').json()['job']['id']}").json()
        machines = http.get(f"/clusters/clusters/{CLUSTER}/machines").json()["items"]
    moments = _moments(job["steps"], clock)
    server = next(row for row in machines if row["role"] != "worker")
    init = _init_began(running, server["vmid"]) - clock
    workers = [row["name"] for row in machines if row["role"] == "worker"]
    return available, pods, _stretches(moments, server["name"], workers, init, available)


def _sign_in(http: httpx.Client) -> None:
    body = {"site": "lab", "realm": "pve", "username": "admin", "password": "lab-admin"}
    session = http.post("/session", json=body)
    session.raise_for_status()
    http.headers["X-CSRF-Token"] = session.json()["csrf"]


def _available(http: httpx.Client) -> bool:
    cluster = http.get(f"/clusters/clusters/{CLUSTER}").json()
    return any(row["type"] == "Available" and row["status"] for row in cluster["conditions"])


def _moments(steps: list[dict[str, Any]], clock: float) -> Moments:
    def after(text: str) -> float:
        return datetime.fromisoformat(text).timestamp() - clock

    return {
        (row["kind"], row["machine"] or ""): (after(row["started_at"]), after(row["ended_at"]))
        for row in steps
        if row["ended_at"]
    }


def _init_began(running: RealTrilithon, vmid: int) -> float:
    """When kubeadm began on the first server, in seconds of the epoch: it writes its first certificate at once."""
    return float(running.inside(vmid, "stat", "-c", "%.9Y", "/etc/kubernetes/pki/apiserver.crt"))


def _stretches(
    moments: Moments, server: str, workers: list[str], init: float, available: float
) -> list[tuple[str, float, float]]:
    """The way of the create, stretch by stretch: what each was, its begin and its end."""

    def of(activity: str, machine: str = "") -> tuple[float, float]:
        return moments[activity, machine]

    def last(activity: str) -> float:
        return max(of(activity, name)[1] for name in workers)

    def first(activity: str) -> float:
        return min(of(activity, name)[0] for name in workers)

    power, api = of(names.START_MACHINE, server), of(names.AWAIT_API)[1]
    network, controller = of(names.INSTALL_POD_NETWORK), of(names.INSTALL_CLOUD_CONTROLLER)
    ready, removed = of(names.AWAIT_READY, server)[1], of(names.DELETE_SEED, server)[1]
    joined = last(names.AWAIT_JOINED)
    ending = last(names.DELETE_SEED)
    return [
        ("groundwork: records, pool, token, rights", 0.0, of(names.CLONE_MACHINE, server)[0]),
        ("server: clone", *of(names.CLONE_MACHINE, server)),
        ("server: size, network, disk", of(names.CONFIGURE_MACHINE, server)[0], of(names.RESIZE_DISK, server)[1]),
        (
            "server: boot ISO made, uploaded, attached",
            of(names.UPLOAD_SEED, server)[0],
            of(names.ATTACH_SEED, server)[1],
        ),
        ("server: power-on asked for and done", *power),
        ("server: boot and cloud-init, until kubeadm's first file", power[1], init),
        ("server: kubeadm init until the API answers", init, api),
        ("pod network: Helm", *network),
        ("cloud controller: Secret and Helm", of(names.CLOUD_CONTROLLER_SECRET)[0], controller[1]),
        ("server: API answers until its node is Ready and initialised", api, ready),
        ("server: boot ISO detached and deleted", ready, removed),
        ("workers: joining opened, powered on", removed, last(names.START_MACHINE)),
        ("workers: boot, cloud-init and join", last(names.START_MACHINE), joined),
        ("workers: Ready and initialised", joined, last(names.AWAIT_READY)),
        ("workers: boot ISOs detached and deleted", last(names.AWAIT_READY), ending),
        ("taints, token closed, etcd seen, Available", ending, available),
    ]
