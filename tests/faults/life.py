"""One cluster's life, activity by activity in this process, against the laboratory: each activity runs three times.

First for real; then again, when everything it would do is done; then once more with its look taken away (the mutant).
"""

import asyncio
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from temporalio.testing import ActivityEnvironment

from activities.kubernetes.nodes import CONTROL_PLANE_TAINT
from cli import laboratory
from domain.clusters import Cluster, Cni, Outcome, WorkerPool
from domain.contracts import activities as names
from domain.contracts.activities import (
    BeginJob,
    ClusterRef,
    ClusterWait,
    FinishJob,
    Handle,
    JoinWait,
    MachineRef,
    PlanRequest,
    ReportJob,
    TaskRef,
)
from domain.contracts.jobs import SiteInput
from domain.jobs import JobKind, JobPhase
from domain.machines import Machine
from domain.sites import Site
from lab.invariants import differences
from store import Store
from tests.activities.proxmox.conftest import a_spec
from tests.e2e.running import WAY
from tests.faults.looks import LIVE, RECORD, STALE, Looks
from workers.outfit import Outfit
from workers.registry import name_of

INSIDE = (
    names.CLOUD_CONTROLLER_SECRET,
    names.INSTALL_CLOUD_CONTROLLER,
    names.INSTALL_POD_NETWORK,
    names.SET_TAINTS,
    names.OPEN_JOINING,
    names.CLOSE_JOINING,
)
"""Activities that change the cluster's own objects."""
OURS = re.compile(r"proxmox-cloud-controller-manager|sh\.helm\.release|bootstrap-token")
ROUNDS = 200
LIMIT = 30.0
K3S = {"pools": (WorkerPool(name="md-0", replicas=1),), "cni": Cni.CILIUM}
"""With a worker, so that there is something to taint, and a pod network that k3s does not bring."""


def now() -> datetime:
    return datetime.now(UTC)


@dataclass
class Seen:
    """What three runs of one activity changed: outside, or in the store where nothing else is changed by it."""

    first: list[str] = field(default_factory=list)
    again: list[str] = field(default_factory=list)
    journal: list[str] = field(default_factory=list)
    """What the simulated Proxmox VE was asked to change in the second run, as it says itself."""
    differences: list[str] = field(default_factory=list)
    mutant: list[str] = field(default_factory=list)


class Life:
    """The cluster, its site, and every registered activity."""

    def __init__(self, lab: dict[str, Any], store: Store, looks: Looks) -> None:
        self.lab = lab
        self.store = store
        self.looks = looks
        self._http = httpx.Client(timeout=10)
        self.outfit = Outfit(store, now, Path(lab["charts"]), looks)
        for group in self.outfit._groups:
            if hasattr(group, "_look_every"):
                group._look_every = 0.02
        self.activities = {name_of(activity): activity for activity in self.outfit.activities()}
        self.seen: dict[str, Seen] = {}
        self.site: Site
        self.cluster: Cluster
        self.machines: list[Machine] = []
        self.upid = ""

    # --- the life ---

    async def live(self) -> None:
        """From an accepted spec to a forgotten cluster."""
        await laboratory.register(self.store, self.lab, now())
        (self.site,) = await self.store.sites.list()
        base = self.lab["network"]["base"]
        spec = a_spec(endpoint=f"{base}.2.50", **K3S)
        network = spec.network.model_copy(
            update={
                "addresses": (f"{base}.2.51-{base}.2.60",),
                "gateway": self.lab["network"]["gateway"],
                "dns_servers": (self.lab["network"]["gateway"],),
            }
        )
        spec = spec.model_copy(update={"network": network})
        self.cluster = await self.store.clusters.create(spec, self.site.id, "ada@pve")
        await self.groundwork()
        server, worker = self.machines
        for name in AHEAD:
            await self.thrice(name, self.of(server))
            await self.once(name, self.of(worker))
        await self.joining(server, worker)
        await self.leaving(server, worker)

    async def groundwork(self) -> None:
        begin = BeginJob(
            job_id="job", workflow_id="w", kind=JobKind.CREATE, cluster_id=self.cluster.id, site_id=self.site.id
        )
        await self.thrice(names.BEGIN_JOB, begin)
        epoch = await self.store.epoch()
        plan = PlanRequest(
            job_id="job", cluster_id=self.cluster.id, site_id=self.site.id, kind=JobKind.CREATE, epoch=epoch
        )
        await self.thrice(names.PLAN, plan)
        report = ReportJob(job_id="job", cluster_id=self.cluster.id, phase=JobPhase.WAITING, waiting_for="a test")
        await self.thrice(names.REPORT_JOB, report)
        for name in (
            names.MAKE_AUTHORITIES,
            names.RESERVE_MACHINES,
            names.ENSURE_POOL,
            names.ENSURE_USER,
            names.ENSURE_TOKEN,
            names.GRANT_RIGHTS,
        ):
            await self.thrice(name, self.ref)
        self.machines = await self.store.machines.of_cluster(self.cluster.id)
        self.machines.sort(key=lambda machine: not machine.is_server)

    async def joining(self, server: Machine, worker: Machine) -> None:
        await self.thrice(names.START_MACHINE, self.of(server))
        await self.once(names.START_MACHINE, self.of(worker))
        await self.thrice(names.WAIT_TASK, TaskRef(job_id="job", site_id=self.site.id, upid=self.upid))
        wait = ClusterWait(job_id="job", cluster_id=self.cluster.id, site_id=self.site.id, limit=LIMIT)
        await self.thrice(names.AWAIT_API, wait)
        await self.thrice(names.CLOUD_CONTROLLER_SECRET, self.ref)
        await self.thrice(names.INSTALL_CLOUD_CONTROLLER, self.ref)
        await self.thrice(names.INSTALL_POD_NETWORK, self.ref)
        # A kubeadm cluster's, and the same for the API: a Secret that comes and goes.
        await self.thrice(names.OPEN_JOINING, self.ref)
        await self.thrice(names.CLOSE_JOINING, self.ref)
        for name in (names.AWAIT_JOINED, names.AWAIT_READY):
            await self.thrice(name, self.joins(server))
            await self.once(name, self.joins(worker))
        for name in (names.DETACH_SEED, names.DELETE_SEED):
            await self.thrice(name, self.of(server))
        await self.thrice(names.SET_TAINTS, self.ref)
        # Only kubeadm needs them; the activities do not ask which distribution it is.
        for name in (names.OPEN_JOINING, names.CLOSE_JOINING):
            await self.thrice(name, self.ref)
        await self.thrice(names.LOOK_AT_ETCD, self.ref)
        await self.thrice(names.AWAIT_AVAILABLE, wait)
        generation = (await self.store.clusters.get(self.cluster.id)).generation
        finish = FinishJob(job_id="job", cluster_id=self.cluster.id, generation=generation, outcome=Outcome.DONE)
        await self.thrice(names.FINISH_JOB, finish)
        watching = self.outfit._groups
        for group in watching:
            if hasattr(group, "watch_for"):
                group.watch_for, group.watch_every = 0.2, 0.1
        await self.thrice(names.WATCH_SITE, SiteInput(site_id=self.site.id, site_name=self.site.name))

    async def leaving(self, server: Machine, worker: Machine) -> None:
        await self.store.clusters.request_deletion(self.cluster.id, "ada@pve")
        await self.thrice(names.REVOKE_TOKEN, self.ref)
        for name in (names.STOP_MACHINE, names.DESTROY_MACHINE, names.DELETE_SEED, names.RELEASE_MACHINE):
            await self.once(name, self.of(worker))
            if name != names.DELETE_SEED:
                await self.thrice(name, self.of(server))
        # Before the user goes, which would take its rights along: nothing would be left to be revoked.
        await self.thrice(names.REVOKE_RIGHTS, self.ref)
        for name in (names.DELETE_USER, names.DELETE_POOL, names.FORGET_CLUSTER):
            await self.thrice(name, self.ref)

    async def aclose(self) -> None:
        self._http.close()
        await self.outfit.aclose()

    # --- three runs ---

    async def thrice(self, name: str, arg: Any) -> None:
        seen = self.seen[name] = Seen()
        self.looks.begin(RECORD)
        await self.run(name, arg)
        store_only = not self.looks.changes
        seen.first = self._changes(store_only)
        before, mark = await self.state(name), self.mark()
        self.looks.begin(LIVE)
        await self.run(name, arg)
        seen.again = [*self.looks.changes, *self.looks.written]
        seen.journal = self.calls(mark)
        seen.differences = differences(before, await self.state(name))
        if seen.first:
            await self.mutant(name, arg, seen, store_only=store_only)
        self.looks.begin(LIVE)

    async def mutant(self, name: str, arg: Any, seen: Seen, *, store_only: bool) -> None:
        """The activity without its look. Whatever comes of it afterwards, it must have made a change."""
        self.looks.begin(STALE, store_only=store_only)
        try:
            handle = await ActivityEnvironment().run(self.activities[name], arg)
            for _ in range(5):
                if self._changes(store_only) or not isinstance(handle, Handle) or handle.done:
                    break
                handle = await ActivityEnvironment().run(self.activities[name], arg)
        except Exception as refused:
            seen.differences += [] if self._changes(store_only) else [f"the mutant failed before any change: {refused}"]
        seen.mutant = self._changes(store_only)
        await self.state(name)
        self.looks.begin(LIVE)
        await self.run(name, arg)  # what it stirred up comes to rest

    async def once(self, name: str, arg: Any) -> None:
        self.looks.begin(LIVE)
        await self.run(name, arg)

    async def run(self, name: str, arg: Any) -> None:
        """What the workflow does: the activity, its task, the activity, until it is done."""
        for _ in range(ROUNDS):
            answer = await ActivityEnvironment().run(self.activities[name], arg)
            if not isinstance(answer, Handle) or answer.done:
                return
            if answer.upid:
                self.upid = answer.upid
                task = TaskRef(job_id="job", site_id=self.site.id, upid=answer.upid)
                mode, self.looks.mode = self.looks.mode, LIVE
                await ActivityEnvironment().run(self.activities[names.WAIT_TASK], task)
                self.looks.mode = mode
            else:
                await asyncio.sleep(min(answer.pause, 0.05))
        raise AssertionError(f"{name} is not done after {ROUNDS} rounds")

    def _changes(self, store_only: bool) -> list[str]:
        return list(self.looks.written if store_only else self.looks.changes)

    # --- what others say ---

    async def state(self, name: str) -> dict[str, Any]:
        """Everything outside that an activity could have changed, once nothing runs."""
        inside = name in INSIDE
        for _ in range(200):
            answer = self._ask("state?settled=1")
            if answer.status_code == 200:
                return {"pve": answer.json(), "cluster": await self._objects() if inside else {}}
            await asyncio.sleep(0.05)
        raise AssertionError("the laboratory does not come to rest")

    def _ask(self, what: str) -> httpx.Response:
        return self._http.get(f"{self.lab['control']}/lab/{what}")

    async def _objects(self) -> dict[str, Any]:
        """Versions of the secrets that are ours, and our taint of the nodes; the rest changes by itself."""
        mode, self.looks.mode = self.looks.mode, LIVE
        try:
            client = await self.outfit._reach.any(self.cluster, self.machines)
            secrets = (await client.get("/api/v1/namespaces/kube-system/secrets"))["items"]
            nodes = (await client.get("/api/v1/nodes"))["items"]
        finally:
            self.looks.mode = mode
        kept = {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in secrets}
        return {
            "secrets": {name: version for name, version in kept.items() if OURS.search(name)},
            "tainted": [
                item["metadata"]["name"]
                for item in nodes
                if any(taint["key"] == CONTROL_PLANE_TAINT for taint in item["spec"].get("taints") or ())
            ],
        }

    def journal(self, after: int) -> list[dict[str, Any]]:
        return list(self._ask(f"journal?after={after}").json())

    def mark(self) -> int:
        return max((int(entry["seq"]) for entry in self.journal(0)), default=0)

    def calls(self, after: int) -> list[str]:
        found = [f"{entry['method']} {entry['path']}" for entry in self.journal(after) if entry["kind"] == "call"]
        return [call for call in found if "/agent/" not in call]

    # --- inputs ---

    @property
    def ref(self) -> ClusterRef:
        return ClusterRef(job_id="job", cluster_id=self.cluster.id, site_id=self.site.id)

    def of(self, machine: Machine) -> MachineRef:
        return MachineRef(**dict(self.ref), machine_id=machine.id, name=machine.name)

    def joins(self, machine: Machine) -> JoinWait:
        return JoinWait(**dict(self.of(machine)), limit=LIMIT)


AHEAD = (
    names.PLACE_MACHINE,
    names.CLONE_MACHINE,
    names.CONFIGURE_MACHINE,
    names.RESIZE_DISK,
    names.UPLOAD_SEED,
    names.ATTACH_SEED,
)


def laboratory_for(folder: Path, space: int) -> dict[str, Any]:
    """A laboratory with short times; `cli.laboratory.stop(folder)` ends it."""
    lab = laboratory.start(folder, space)
    quick = dict.fromkeys(("clone", "clone_tail", "start", "stop", "destroy", "config", "resize", "upload"), 0.02)
    WAY.put(f"{lab['control']}/lab/latency", json=quick, timeout=10).raise_for_status()
    short = {"boot": 0.05, "api": 0.05, "kubelet": 0.05, "ready": 0.05, "tick": 0.1, "cloud_controller": 0.1}
    WAY.put(f"{lab['nodes']}/timing", json=short, timeout=10).raise_for_status()
    return lab
