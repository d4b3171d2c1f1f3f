"""A whole platform on simulated nodes that is hurt while it works."""

import contextlib
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from activities.kubernetes.reach import ClusterReach
from clients.proxmox.client import crossing_name
from domain.machines import Machine
from lab.invariants import account_of
from store import Store
from tests.e2e.running import ROOT, WAY
from tests.faults.watched import Watched, beside

LIMITS = {
    **{"task": 300.0, "boot": 600.0, "ready": 600.0, "available": 600.0, "persist": 600.0},
    **{"heartbeat": 2.0, "effect": 20.0, "retry_first": 0.1, "retry_max": 1.0},
}
"""The time-out profile of the fault tests: a death is noticed after two seconds, a person is asked after minutes."""
QUICK = ("clone", "clone_tail", "start", "stop", "destroy", "config", "resize", "upload", "delete")
SHORT = {"boot": 0.05, "api": 0.05, "kubelet": 0.05, "ready": 0.05, "tick": 0.1, "cloud_controller": 0.1}
POOLS = """\
    workers:
      machineDeployments:
        - class: worker
          name: md-0
          replicas: REPLICAS
"""


class Hurt(Watched):
    """A platform of the fault tests: short limits and short times.

    Args:
        folder: everything it keeps.
        latency: seconds of every task of the simulated Proxmox VE.
    """

    def __init__(self, folder: Path, latency: float = 0.05) -> None:
        super().__init__(folder, {"TRILITHON_LIMITS": json.dumps(LIMITS)})
        self.latency = latency
        self._beside: list[int] = []

    # --- life ---

    def start(self) -> None:
        super().start()
        WAY.put(f"{self.lab['control']}/lab/latency", json=dict.fromkeys(QUICK, self.latency), timeout=10)
        self.node_times(SHORT)

    def enter(self) -> None:
        """Starts it and signs in as the administrator."""
        self.start()
        self.login()

    @contextlib.contextmanager
    def second_worker(self) -> Iterator[int]:
        """A worker process beside the supervised one, with the same plan of points."""
        variables = self.environment | {
            "TRILITHON_STORE": f"sqlite+aiosqlite:///{self.data}/trilithon.db",
            "TRILITHON_KEY_FILE": str(self.data / "secret.key"),
            "TRILITHON_TEMPORAL": f"127.0.0.1:{self.temporal_port}",
            "TRILITHON_CHARTS": str(self.lab["charts"]),
        }
        with (self.data / "logs" / "worker-2.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "workers.main"], cwd=ROOT, env=variables, stdout=log, stderr=log
            )
        self._beside.append(process.pid)
        try:
            yield process.pid
        finally:
            self._beside.remove(process.pid)
            process.kill()
            process.wait()

    def every_worker(self) -> list[int]:
        """Process ids of the supervised worker and of those beside it."""
        return [*self.workers(), *self._beside]

    # --- clusters ---

    def small(self, name: str, *, workers: int = 1, number: int = 2, cni: str = "") -> Path:
        """A k3s manifest: one server; `number` keeps the addresses of several clusters apart; `cni` by Helm."""
        text = (
            (ROOT / "examples" / "edge-k3s.yaml").read_text().replace("127.80.2.", f"127.{self.space + 10}.{number}.")
        )
        text = text.replace("127.80.", f"127.{self.space + 10}.").replace("name: edge", f"name: {name}")
        if workers:
            pools = POOLS.replace("REPLICAS", str(workers))
            text = text.replace("    variables:\n", f"{pools}    variables:\n")
        if cni:
            text = text.replace("    variables:\n", f"    variables:\n      - name: cni\n        value: {cni}\n")
        path = self.folder / f"{name}.yaml"
        path.write_text(text)
        return path

    def kubeadm(self, name: str) -> Path:
        """A kubeadm manifest: one server and one worker, with Cilium."""
        text = (ROOT / "examples" / "dev-kubeadm.yaml").read_text()
        text = text.replace("172.30.70.", f"127.{self.space + 10}.3.").replace("name: dev\n", f"name: {name}\n")
        path = self.folder / f"{name}.yaml"
        path.write_text(text.replace("replicas: 2\n", "replicas: 1\n").replace("value: calico\n", "value: cilium\n"))
        return path

    def create(self, name: str, *, workers: int = 1, number: int = 2, cni: str = "") -> None:
        """Applies a manifest and waits until the cluster is Available."""
        self.run("apply", "-f", str(self.small(name, workers=workers, number=number, cni=cni)))
        self.available(name)

    def available(self, name: str) -> None:
        """Waits until a cluster is Available; a job that parks fails the test."""
        self.patiently(name, "condition=Available")

    def delete(self, name: str) -> None:
        """Deletes a cluster and waits until it is gone."""
        self.run("delete", f"cluster/{name}", "--yes")
        self.patiently(name, "delete")

    def unfinished_nodes(self, name: str) -> list[dict[str, Any]]:
        """The nodes of a cluster that is not Available yet, for which nobody gets a kubeconfig."""

        async def question(store: Store) -> list[dict[str, Any]]:
            found = await store.clusters.find("clusters", name)
            assert found is not None
            reach = ClusterReach(store, lambda: datetime.now(UTC))
            try:
                client = await reach.any(found, await store.machines.of_cluster(found.id))
                return list((await client.get("/api/v1/nodes"))["items"])
            finally:
                await reach.aclose()

        return list(self.ask(question))

    def lab_pids(self) -> dict[str, int]:
        """Process ids of the laboratory's parts, as they are now."""
        about = json.loads((self.data / "lab" / "lab.json").read_text())
        return {name: int(part["pid"]) for name, part in about["processes"].items()}

    def effects(self, after: int = 0) -> Counter[str]:
        """What was brought about in Proxmox VE since entry `after`: tasks that ended well, calls that were accepted."""
        found: Counter[str] = Counter()
        for entry in self.journal():
            if entry["seq"] <= after:
                continue
            if entry["kind"] == "task" and entry["exit"] == "OK":
                found[f"task {entry['type']}"] += 1
            elif entry["kind"] == "call" and not entry.get("upid") and 0 < int(entry.get("status") or 0) < 400:
                found[crossing_name(entry["method"], entry["path"])] += 1
        return Counter({name: n for name, n in found.items() if "/agent/" not in name and "access/ticket" not in name})

    def control(self, method: str, path: str, body: Any) -> None:
        """A word to the laboratory."""
        WAY.request(method, f"{self.lab['control']}/lab/{path}", json=body, timeout=20).raise_for_status()

    def rules(self) -> list[dict[str, Any]]:
        """The fault rules in force, with how often each has fired."""
        return list(WAY.get(f"{self.lab['control']}/lab/faults", timeout=10).json())

    def node_times(self, seconds: dict[str, float]) -> None:
        """Changes some times of the simulated machines."""
        WAY.put(f"{self.lab['nodes']}/timing", json=seconds, timeout=10).raise_for_status()

    def revoke_cluster_token(self, cluster_id: str) -> None:
        """Deletes a cluster's own token behind everyone's back, as an administrator of Proxmox VE would."""
        token = self.lab["people"]["platform"]
        WAY.delete(
            f"{self.lab['endpoints'][0]}/api2/json/access/users/{account_of(cluster_id)}/token/cluster",
            headers={"Authorization": f"PVEAPIToken={token['id']}={token['secret']}"},
            timeout=10,
        ).raise_for_status()

    def condition(self, name: str, kind: str) -> dict[str, Any]:
        """One condition of a cluster, empty where it has none."""
        return next((c for c in self.cluster(name)["conditions"] if c["type"] == kind), {})

    def job(self, name: str) -> dict[str, Any]:
        """A cluster's newest job, as its page shows it."""
        jobs = json.loads(self.run("get", "jobs", "-o", "json").stdout)
        rows = jobs["items"] if isinstance(jobs, dict) else jobs
        return dict(next(row for row in rows if row["cluster"] and row["cluster"]["name"] == name))

    def machines(self, name: str) -> list[Machine]:
        async def question(store: Store) -> list[Machine]:
            found = await store.clusters.find("clusters", name)
            return await store.machines.of_cluster(found.id) if found else []

        return list(self.ask(question))


@contextlib.contextmanager
def hurt(folder: Path, latency: float = 0.05) -> Iterator[Hurt]:
    """A running platform, signed in as the administrator, that is ended whatever happens."""
    with side_by_side([folder], latency) as (platform,):
        yield platform


@contextlib.contextmanager
def side_by_side(folders: Sequence[Path], latency: float = 0.05) -> Iterator[list[Hurt]]:
    """The same, one in each folder: they come up and go together."""
    platforms = [Hurt(folder, latency) for folder in folders]
    try:
        beside(*(platform.enter for platform in platforms))
        yield platforms
    finally:
        beside(*(platform.end for platform in platforms))
