"""Creates, with the laboratory's latencies as the infrastructure's own time."""

import asyncio
import time
from typing import Any

import httpx
import yaml

from tests.e2e.running import Trilithon

CLONE, BOOT = 6.0, 4.0
CRITICAL_PATH = CLONE + BOOT + BOOT
"""Clones run side by side; the first server boots, then everything else boots at once."""


def measure(running: Trilithon) -> list[tuple[str, str, str, str]]:
    return asyncio.run(_measure(running))


async def _measure(running: Trilithon) -> list[tuple[str, str, str, str]]:
    control, nodes = running.lab["control"], running.lab["nodes"]
    async with httpx.AsyncClient(base_url=f"{running.url}/api/v1", timeout=60) as http:
        session = await http.post(
            "/session", json={"site": "lab", "realm": "pve", "username": "admin", "password": "lab-admin"}
        )
        http.headers["X-CSRF-Token"] = session.json()["csrf"]
        (await http.put(f"{control}/lab/latency", json={"clone": CLONE, "start": 0.1})).raise_for_status()
        (await http.put(f"{nodes}/timing", json={"boot": BOOT})).raise_for_status()
        singles, clones = [], []
        for number in range(3):
            wall, clone = await _create(http, running, f"one-{number}", number)
            singles.append(wall - CRITICAL_PATH)
            clones.append(clone)
            await _delete(http, f"one-{number}")
        begun = time.perf_counter()
        many = await asyncio.gather(*(_create(http, running, f"ten-{n}", n) for n in range(10)))
        together = time.perf_counter() - begun
        await asyncio.gather(*(_delete(http, f"ten-{n}") for n in range(10)))
    overheads = sorted(wall - CRITICAL_PATH for wall, _ in many)
    return [
        ("Create to first clone asked for", "1 cluster", _spread(clones), "≤ 1 s"),
        ("Overhead, 1+3", "1 cluster", _spread(singles), "≤ 2 s"),
        ("Overhead, 1+3", "10 at once", f"p95 {overheads[-1]:.1f} s (all after {together:.1f} s)", "≤ 6 s p95"),
    ]


async def _create(http: httpx.AsyncClient, running: Trilithon, name: str, number: int) -> tuple[float, float]:
    """Seconds to Available, and to the first clone that Proxmox VE was asked for."""
    begun, wall_clock = time.perf_counter(), time.time()
    answer = await http.post("/clusters", json=_manifest(running.space + 10, name, number))
    answer.raise_for_status()
    while True:
        cluster = (await http.get(f"/clusters/clusters/{name}")).json()
        if any(c["type"] == "Available" and c["status"] for c in cluster["conditions"]):
            break
        await asyncio.sleep(0.1)
    wall = time.perf_counter() - begun
    machines = (await http.get(f"/clusters/clusters/{name}/machines")).json()["items"]
    ids = {machine["vmid"] for machine in machines}
    calls = [row for row in running.journal() if row["kind"] == "call" and row["path"].endswith("/clone")]
    first = min(row["time"] for row in calls if int(row["params"]["newid"]) in ids and row["time"] >= wall_clock - 1)
    return wall, first - wall_clock


async def _delete(http: httpx.AsyncClient, name: str) -> None:
    await http.request("DELETE", f"/clusters/clusters/{name}", json={"confirm": name})
    while (await http.get(f"/clusters/clusters/{name}")).status_code != 404:  # noqa: ASYNC110 - another process
        await asyncio.sleep(0.2)


def _manifest(network: int, name: str, number: int) -> dict[str, Any]:
    block = f"127.{network}.{50 + number}"
    text = f"""
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {{name: {name}, namespace: clusters}}
spec:
  topology:
    classRef: {{name: trilithon-k3s, namespace: trilithon-system}}
    version: v1.36.5+k3s1
    controlPlane: {{replicas: 1}}
    workers: {{machineDeployments: [{{class: worker, name: md-0, replicas: 3}}]}}
    variables:
      - {{name: controlPlaneEndpoint, value: {block}.50}}
      - name: network
        value:
          bridge: vmbr0
          addresses: [{block}.51-{block}.59]
          prefix: 16
          gateway: 127.{network}.0.1
          dnsServers: [127.{network}.0.1]
      - {{name: storage, value: shared}}
      - {{name: workerMachine, value: {{cores: 1, memoryMiB: 1024}}}}
      - {{name: controlPlaneMachine, value: {{cores: 2, memoryMiB: 2048}}}}
"""
    return dict(yaml.safe_load(text))


def _spread(values: list[float]) -> str:
    ordered = sorted(values)
    return f"{ordered[len(ordered) // 2]:.2f} s ({ordered[0]:.2f} to {ordered[-1]:.2f}, n={len(ordered)})"
