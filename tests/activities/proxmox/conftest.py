"""The activities against the simulated datacenter (lab/pve) as a process of its own, and a real store on SQLite."""

import asyncio
import json
import os
import secrets
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from activities.proxmox import ProxmoxActivities, SiteClients
from bootstrap import authorities, tokens
from clients.proxmox import ProxmoxClient, connect
from domain.clusters import Cluster, ClusterSpec, ControlPlaneSize, Distribution, NetworkSpec
from domain.contracts.activities import ClusterRef, Handle, MachineRef, TaskRef
from domain.machines import Machine, drafts, identities
from domain.sites import Site, Template
from store import SecretKey, Store, migrate, open_store

ROOT = Path(__file__).parents[3]
PYTHON = ROOT / ".venv-lab" / "bin" / "python"
NOW = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
K3S = "v1.36.5+k3s1"


class Datacenter:
    """The process, by its control endpoints."""

    def __init__(self, ready: dict[str, Any]) -> None:
        self.endpoints: list[str] = ready["endpoints"]
        self.fingerprint: str = ready["fingerprint"]
        self.ca: str = ready["ca"]
        self._control: str = ready["control"]
        self.http = httpx.Client(timeout=20)
        platform = self.control("GET", "people")["platform"]
        self.token_id: str = platform["id"]
        self.secret: str = platform["secret"]

    def control(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.http.request(method, f"{self._control}/lab/{path}", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def state(self) -> dict[str, Any]:
        return dict(self.control("GET", "state"))

    def vm(self, vmid: int) -> dict[str, Any] | None:
        return next((vm for vm in self.state()["vms"] if vm["vmid"] == vmid), None)

    def journal(self, after: int = 0) -> list[dict[str, Any]]:
        return list(self.control("GET", f"journal?after={after}"))

    def calls(self, after: int = 0) -> list[str]:
        """The changing calls, as `POST /pools`."""
        return [f"{entry['method']} {entry['path']}" for entry in self.journal(after) if entry["kind"] == "call"]

    def mark(self) -> int:
        entries = self.journal()
        return int(entries[-1]["seq"]) if entries else 0

    def fault(self, do: dict[str, Any], **match: Any) -> None:
        self.control("POST", "faults", {"match": match, "do": do})


@pytest.fixture(scope="session")
def datacenter_process() -> Iterator[Datacenter]:
    if not PYTHON.exists():
        pytest.fail("make the lab's own environment first: make setup")
    command = [str(PYTHON), "-m", "labpve", "--port", "0", "--control-port", "0", "--address-base", "127.0.72"]
    environment = dict(os.environ, PYTHONPATH=str(ROOT / "lab" / "pve"))
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, "labpve did not start"
    found = Datacenter(json.loads(line))
    yield found
    found.http.close()
    process.terminate()
    process.wait(10)
    process.stdout.close()


@pytest.fixture
def datacenter(datacenter_process: Datacenter) -> Datacenter:
    """The datacenter in its first state, with short tasks."""
    datacenter_process.control("POST", "reset")
    quick = dict.fromkeys(("clone", "start", "stop", "destroy", "config", "resize", "upload"), 0.02)
    datacenter_process.control("PUT", "latency", quick)
    return datacenter_process


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    url = f"sqlite+aiosqlite:///{tmp_path}/store.db"
    await migrate(url)
    opened = open_store(url, SecretKey.generate(), clock=lambda: NOW)
    yield opened
    await opened.close()


@dataclass
class World:
    """A site, a cluster with reserved machines, and the activities."""

    store: Store
    datacenter: Datacenter
    site: Site
    cluster: Cluster
    machines: list[Machine]
    activities: ProxmoxActivities
    waits: list[str] = field(default_factory=list)

    @property
    def client(self) -> ProxmoxClient:
        return self.activities.sites._open[self.site.id][2]

    @property
    def ref(self) -> ClusterRef:
        return ClusterRef(job_id="job", cluster_id=self.cluster.id, site_id=self.site.id)

    def of(self, machine: Machine) -> MachineRef:
        return MachineRef(
            job_id="job",
            cluster_id=self.cluster.id,
            site_id=self.site.id,
            machine_id=machine.id,
            name=machine.name,
        )

    async def fresh(self, machine: Machine) -> Machine:
        return await self.store.machines.get(machine.id)

    async def drive(self, effect: Callable[[Any], Awaitable[Handle]], ref: Any, rounds: int = 60) -> list[Handle]:
        """What the workflow does: effect, wait for its task, effect, until it is done."""
        handles: list[Handle] = []
        for _ in range(rounds):
            handle = await effect(ref)
            handles.append(handle)
            if handle.done:
                return handles
            if handle.upid:
                await self.wait(handle.upid)
            else:
                await asyncio.sleep(min(handle.pause, 0.05))
        raise AssertionError(f"not done after {rounds} rounds: {handles[-1]}")

    async def wait(self, upid: str) -> Any:
        self.waits.append(upid)
        return await self.activities.wait_task(TaskRef(job_id="job", site_id=self.site.id, upid=upid))

    async def groundwork(self) -> None:
        for effect in (
            self.activities.ensure_pool,
            self.activities.ensure_user,
            self.activities.ensure_token,
            self.activities.grant_rights,
        ):
            await effect(self.ref)

    async def create(self, machine: Machine, *, up_to: str = "start_machine") -> None:
        for name in AHEAD:
            await self.drive(getattr(self.activities, name), self.of(machine))
            if name == up_to:
                return

    async def remove(self, machine: Machine) -> None:
        for name in ("stop_machine", "destroy_machine", "delete_seed"):
            await self.drive(getattr(self.activities, name), self.of(machine))
        await self.store.machines.release(machine.id)

    async def clear(self) -> None:
        for effect in (self.activities.revoke_token, self.activities.delete_user, self.activities.revoke_rights):
            await effect(self.ref)
        await self.drive(self.activities.delete_pool, self.ref)


AHEAD = (
    "place_machine",
    "clone_machine",
    "configure_machine",
    "resize_disk",
    "upload_seed",
    "attach_seed",
    "start_machine",
)


def a_site(datacenter: Datacenter, **changes: Any) -> Site:
    fields = {
        "id": "site-lab",
        "name": "lab",
        "endpoints": tuple(datacenter.endpoints),
        "fingerprint": datacenter.fingerprint,
        "token_id": datacenter.token_id,
        "workload_pool": "trilithon",
        "template_pool": "trilithon-templates",
        "bridges": ("vmbr0",),
        "storages": ("shared", "fast"),
        "iso_storage": "iso",
        "vmid_first": 20000,
        "vmid_last": 20999,
        "region": "lab",
        "lab": True,
    }
    return Site.model_validate({**fields, **changes})


def a_spec(**changes: Any) -> ClusterSpec:
    fields = {
        "name": "edge",
        "distribution": Distribution.K3S,
        "version": K3S,
        "endpoint": "127.80.2.50",
        "network": NetworkSpec(
            bridge="vmbr0",
            addresses=("127.80.2.51-127.80.2.60",),
            prefix=16,
            gateway="127.80.0.1",
            dns_servers=("127.80.0.1",),
        ),
        "storage": "shared",
        "control_plane_machine": ControlPlaneSize(cores=2, memory_mib=2048, disk_gib=20),
        "pod_cidrs": ("10.42.0.0/16",),
        "service_cidrs": ("10.43.0.0/16",),
    }
    return ClusterSpec.model_validate({**fields, **changes})


Build = Callable[..., Awaitable[World]]


@pytest.fixture
async def build(store: Store, datacenter: Datacenter) -> AsyncIterator[Build]:
    """Makes the world: `build(spec changes, templates=[...], site={...})`."""
    sites = SiteClients(store, lambda site, secret: connect(site, secret, timeout=10))

    async def make(
        templates: list[dict[str, Any]] | None = None, site: dict[str, Any] | None = None, **spec: Any
    ) -> World:
        kept = await store.sites.add(a_site(datacenter, **(site or {})))
        await store.secrets.put(f"site/{kept.id}", "token", datacenter.secret.encode())
        rows = templates or [{"id": "t-k3s", "nodes": {"pve1": 9002}, "shared": True}]
        for row in rows:
            await store.templates.add(
                Template.model_validate({"site_id": kept.id, "distribution": "k3s", "version": K3S, **row})
            )
        cluster = await store.clusters.create(a_spec(**spec), kept.id, "ada@pve")
        made = authorities.make(secrets, NOW, NOW + authorities.AUTHORITY_LIFE, Distribution.K3S)
        await store.secrets.put(f"cluster/{cluster.id}", "authorities", made.to_json().encode())
        await store.secrets.put(f"cluster/{cluster.id}", "tokens", tokens.make(secrets).to_json().encode())
        wanted = drafts(cluster.spec, cluster.id, [], identities(cluster.id, 0))
        machines = await store.machines.reserve(cluster.id, wanted)
        return World(store, datacenter, kept, cluster, machines, ProxmoxActivities(store, sites, look_every=0.02))

    yield make
    await sites.aclose()


@pytest.fixture
async def world(build: Build) -> World:
    """One k3s server, nothing done yet."""
    return await build()
