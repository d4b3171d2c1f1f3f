"""What the API's tests stand on: the simulated Proxmox VE as a process, a store with clusters, and signed-in people.

The people are those of the laboratory; the engine alone is a double, because what it does is tested in tests/workflows.
"""

import base64
import hashlib
import hmac
import json
import os
import secrets
import shutil
import ssl
import struct
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI

from api.app import create_app
from api.gate import ProxmoxGate
from api.services import Services, Settings
from bootstrap import authorities
from domain.clusters import Cluster, ClusterSpec, ClusterStatus, Distribution, Mark
from domain.jobs import Decision, Job, JobKind, JobPhase, Step, StepState
from domain.manifests import read_manifest
from domain.sites import Site, Template
from jobs import EngineAway, NotParked
from store import SecretKey, Store, migrate, open_store, scrypt_hash
from tests.domain.manifests import edge, prod

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-lab" / "bin" / "python"
ADMIN, ADMIN_PASSWORD = "admin", "a local password"
PEOPLE = ("admin@pve", "dev@pve", "owner@pve", "auditor@pve", "stranger@pve")
LOCAL, NOBODY = "local", "nobody"
EVERYBODY = (*PEOPLE, LOCAL, NOBODY)
Json = Any


class Lab:
    """The simulated Proxmox VE and its control endpoints."""

    def __init__(self, ready: dict[str, Json]) -> None:
        self.endpoints: tuple[str, ...] = tuple(ready["endpoints"])
        self.fingerprint: str = ready["fingerprint"]
        self._control: str = ready["control"]
        self._http = httpx.Client(verify=ssl.create_default_context(cadata=ready["ca"]), timeout=20)
        people = self.control("GET", "/lab/people")
        self.token_id: str = people["platform"]["id"]
        self.token_secret: str = people["platform"]["secret"]
        self.people: dict[str, dict[str, Json]] = {one["userid"]: one for one in people["people"]}

    def control(self, method: str, path: str, body: Json = None) -> Json:
        answer = self._http.request(method, self._control + path, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def writes(self) -> list[Json]:
        """Every call that could have changed something, sign-ins left out."""
        entries = self.control("GET", "/lab/journal?after=0")
        rows = entries["entries"] if isinstance(entries, dict) else entries
        return [row for row in rows if row.get("path") != "/access/ticket"]

    def close(self) -> None:
        self._http.close()


def start_lab(base: str) -> tuple[subprocess.Popen[str], Lab]:
    """Starts a datacenter of its own at `<base>.1` to `.3`."""
    env = dict(os.environ, PYTHONPATH=str(ROOT / "lab" / "pve"))
    command = [str(PYTHON), "-m", "labpve", "--port", "0", "--control-port", "0", "--address-base", base]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, "labpve did not start"
    return process, Lab(json.loads(line))


def stop_lab(process: subprocess.Popen[str], lab: Lab) -> None:
    lab.close()
    process.terminate()
    process.wait(10)
    assert process.stdout is not None
    process.stdout.close()


def totp(secret: str, at: datetime) -> str:
    """The six digits of RFC 6238 for a base32 secret."""
    key = base64.b32decode(secret + "=" * (-len(secret) % 8))
    mac = hmac.digest(key, struct.pack(">Q", int(at.timestamp()) // 30), hashlib.sha1)
    offset = mac[-1] & 15
    return f"{(struct.unpack('>I', mac[offset : offset + 4])[0] & 0x7FFFFFFF) % 1_000_000:06d}"


class Clock:
    """The real time, moved on at will."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead


@dataclass
class EngineDouble:
    """Answers as `jobs.Engine` does; `away` makes it silent."""

    away: bool = False
    poked: list[str] = field(default_factory=list)
    decided: list[tuple[str, Decision]] = field(default_factory=list)
    parked: set[str] = field(default_factory=set)

    async def poke(self, cluster: Cluster, site: Site | None = None) -> bool:
        self.poked.append(cluster.id)
        return not self.away

    async def decide(self, job: Job, decision: Decision) -> str:
        if self.away:
            raise EngineAway("The Temporal server at 127.0.0.1:7233 does not answer")
        if job.id not in self.parked:
            raise NotParked("It waits for nobody.")
        self.decided.append((job.id, decision))
        return "accepted"

    async def start_self_test(self, site: Site) -> str:
        if self.away:
            raise EngineAway("The Temporal server at 127.0.0.1:7233 does not answer")
        return "run-selftest"

    async def answers(self) -> bool:
        return not self.away

    def link(self, job: Job) -> str:
        return f"http://temporal.example/{job.id}"


class Person:
    """Somebody with a browser: keeps cookie and CSRF token, as the pages do."""

    def __init__(self, http: httpx.AsyncClient, cookie: str = "", csrf: str = "") -> None:
        self.http, self.cookie, self.csrf = http, cookie, csrf

    async def call(self, method: str, path: str, **more: Json) -> httpx.Response:
        headers = {"Cookie": self.cookie} if self.cookie else {}
        if self.csrf and method != "GET":
            headers["X-CSRF-Token"] = self.csrf
        headers |= more.pop("headers", {})
        # The client's own jar would mix the people up.
        self.http.cookies.clear()
        return await self.http.request(method, f"/api/v1{path}", headers=headers, **more)

    async def get(self, path: str, **more: Json) -> httpx.Response:
        return await self.call("GET", path, **more)

    async def post(self, path: str, **more: Json) -> httpx.Response:
        return await self.call("POST", path, **more)

    async def put(self, path: str, **more: Json) -> httpx.Response:
        return await self.call("PUT", path, **more)

    async def delete(self, path: str, **more: Json) -> httpx.Response:
        return await self.call("DELETE", path, **more)


@dataclass
class World:
    """One application over one store."""

    lab: Lab
    store: Store
    engine: EngineDouble
    clock: Clock
    services: Services
    http: httpx.AsyncClient
    signed_in: dict[str, tuple[str, str]]

    def person(self, name: str) -> Person:
        """One of EVERYBODY, already signed in."""
        return Person(self.http, *self.signed_in.get(name, ("", "")))

    async def sign_in(self, name: str) -> Person:
        """Signs in anew, by the front door."""
        person = Person(self.http)
        answer = await person.post("/session", json=credentials(self.lab, name))
        if answer.status_code == 202:
            challenge = answer.json()["second_factor"]["challenge_id"]
            code = totp(self.lab.people[name]["totp"], datetime.now(UTC))
            body = {"challenge_id": challenge, "kind": "totp", "code": code}
            answer = await person.post("/session/second-factor", json=body)
        assert answer.status_code == 200, answer.text
        person.cookie = answer.headers["set-cookie"].partition(";")[0]
        person.csrf = answer.json()["csrf"]
        return person


def credentials(lab: Lab, name: str) -> dict[str, Json]:
    if name == LOCAL:
        return {"realm": "local", "username": ADMIN, "password": ADMIN_PASSWORD}
    user, _, realm = name.rpartition("@")
    return {"site": "lab", "realm": realm, "username": user, "password": lab.people[name]["password"]}


@cache
def _application() -> FastAPI:
    return create_app(None)


@asynccontextmanager
async def open_world(lab: Lab, url: str, key: SecretKey, signed_in: dict[str, tuple[str, str]]) -> AsyncIterator[World]:
    clock = Clock()
    store = open_store(url, key, clock=clock)
    engine = EngineDouble(parked={"job-parked"})
    services = Services(store, ProxmoxGate(), engine, clock, Settings(engine_url="http://temporal.example"))
    # One application for all tests: building its routes takes longer than most requests.
    app = _application()
    app.state.services = services
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 5))
    async with httpx.AsyncClient(transport=transport, base_url="http://trilithon.test") as http:
        try:
            yield World(lab, store, engine, clock, services, http, signed_in)
        finally:
            await store.close()


@dataclass
class Base:
    """A filled store in a file, copied for each test."""

    lab: Lab
    file: Path
    key: SecretKey
    signed_in: dict[str, tuple[str, str]] = field(default_factory=dict)

    @asynccontextmanager
    async def copy(self, folder: Path) -> AsyncIterator[World]:
        file = folder / f"{secrets.token_hex(4)}.db"
        shutil.copy(self.file, file)
        async with open_world(self.lab, f"sqlite+aiosqlite:///{file}", self.key, self.signed_in) as world:
            yield world


async def build(lab: Lab, folder: Path, *, clusters: bool) -> Base:
    """A store with the site `lab`, and with clusters `prod` (available) and `edge` (being made) if asked for."""
    base = Base(lab, folder / "base.db", SecretKey.generate())
    url = f"sqlite+aiosqlite:///{base.file}"
    await migrate(url)
    async with open_world(lab, url, base.key, base.signed_in) as world:
        await world.store.local_users.put_local_user(ADMIN, scrypt_hash(ADMIN_PASSWORD))
        await _site(world)
        if clusters:
            await _clusters(world)
        for name in (*PEOPLE, LOCAL):
            person = await world.sign_in(name)
            base.signed_in[name] = (person.cookie, person.csrf)
    return base


async def _site(world: World) -> None:
    lab, store = world.lab, world.store
    await store.sites.add(
        Site(
            id="site-lab",
            name="lab",
            endpoints=lab.endpoints,
            fingerprint=lab.fingerprint,
            token_id=lab.token_id,
            workload_pool="trilithon",
            template_pool="trilithon-templates",
            bridges=("vmbr0",),
            storages=("shared", "fast"),
            iso_storage="iso",
            lab=True,
        )
    )
    await store.secrets.put("site/site-lab", "token", lab.token_secret.encode())
    for distribution, version, vmid in (
        (Distribution.RKE2, "v1.36.5+rke2r1", 9001),
        (Distribution.K3S, "v1.36.5+k3s1", 9002),
    ):
        await store.templates.add(
            Template(
                id=f"template-{vmid}",
                site_id="site-lab",
                distribution=distribution,
                version=version,
                nodes={"pve1": vmid},
                shared=True,
            )
        )


async def _clusters(world: World) -> None:
    store = world.store
    spec = read_manifest(prod())
    assert isinstance(spec, ClusterSpec)
    made = await store.clusters.create(spec, "site-lab", "owner@pve")
    await store.clusters.add_marks(made.id, Mark.RIGHTS, Mark.AUTHORITIES, Mark.AVAILABLE)
    await store.clusters.set_status(made.id, ClusterStatus.AVAILABLE)
    now = world.clock()
    kept = authorities.make(secrets, now, now + timedelta(days=365), spec.distribution)
    await store.secrets.put(f"cluster/{made.id}", "authorities", kept.to_json().encode())
    await _job(store, made, "job-done", JobPhase.DONE)
    small = read_manifest(edge())
    assert isinstance(small, ClusterSpec)
    small = small.model_copy(
        update={
            "endpoint": "127.80.2.50",
            "network": small.network.model_copy(update={"addresses": ("127.80.2.51-127.80.2.59",)}),
            "pod_cidrs": ("10.42.0.0/16",),
            "service_cidrs": ("10.43.0.0/16",),
        }
    )
    other = await store.clusters.create(small, "site-lab", "dev@pve")
    await _job(store, other, "job-parked", JobPhase.AWAITING_DECISION)
    await store.jobs.begin(
        Job(id="job-selftest", workflow_id="site/site-lab/selftest", kind=JobKind.SELF_TEST, site_id="site-lab")
    )
    await store.jobs.finish("job-selftest", JobPhase.DONE)


async def _job(store: Store, cluster: Cluster, job_id: str, phase: JobPhase) -> None:
    job = Job(
        id=job_id,
        workflow_id=f"cluster/{cluster.namespace}.{cluster.name}/{cluster.id}",
        kind=JobKind.CREATE,
        cluster_id=cluster.id,
        site_id=cluster.site_id,
        generation=1,
        requested_by=cluster.created_by,
    )
    await store.jobs.begin(job)
    step = Step(id=f"{job_id}/1", job_id=job_id, kind="ensure-pool", summary="make its pool", state=StepState.DONE)
    await store.jobs.upsert_step(step.model_copy(update={"upid": "UPID:pve2:0001:00:00:qmclone:20000:x@pve:"}))
    for text in ("one", "two", "three"):
        await store.jobs.append_log(job_id, text)
    if phase is JobPhase.DONE:
        await store.jobs.finish(job_id, phase)
    else:
        await store.jobs.set_phase(job_id, phase, error="VM 20000 was not cloned: no space")
