"""Clusters of simulated machines for tests: each on a network of its own below 127/8."""

import asyncio
import base64
import gc
import itertools
import json
import os
import secrets
import ssl
import tempfile
import warnings
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import httpx

from bootstrap import BootData, BootInput, authorities, boot_data, tokens
from bootstrap.authorities import Authorities
from bootstrap.bootstrap_token import secret_manifest, secret_path
from bootstrap.iso import iso
from domain.clusters import ClusterSpec, Cni, Distribution, NetworkSpec
from domain.machines import Machine, Role
from lab.nodes.machine import Hardware
from lab.nodes.programs import CONTAINERD
from lab.nodes.settings import Timing
from lab.nodes.world import World
from tests.bootstrap.examples import VERSIONS

Obj = dict[str, Any]
_NUMBERS = itertools.count(1)
_BASE = 100 + os.getpid() % 120

QUICK = Timing(
    boot=0.0, unit_restart=0.1, api=0.0, kubelet=0.0, ready=0.0, tick=0.05, cloud_controller=0.05, vip_scale=0.2
)
"""As fast as it goes; what matters for the order is unchanged."""


@lru_cache
def example_authorities(distribution: Distribution) -> Authorities:
    now = datetime.now(UTC)
    return authorities.make(secrets, now - timedelta(hours=1), now + timedelta(days=300), distribution)


@lru_cache
def _context(distribution: Distribution) -> ssl.SSLContext:
    """Trusts the cluster's authority, and shows an administrator's certificate."""
    ours, now = example_authorities(distribution), datetime.now(UTC)
    pair = authorities.admin_certificate(
        ours, "trilithon", rng=secrets, not_before=now - timedelta(hours=1), not_after=now + timedelta(days=1)
    )
    context = ssl.create_default_context(cadata=ours.server.certificate.decode())
    with tempfile.NamedTemporaryFile() as file:
        file.write(pair.certificate + pair.key)
        file.flush()
        context.load_cert_chain(file.name)
    return context


async def eventually(look: Callable[[], Any | Awaitable[Any]], seconds: float = 15.0) -> Any:
    """Waits until `look` gives something true, and returns that; TimeoutError after the time."""
    async with asyncio.timeout(seconds):
        while True:
            found = look()
            if isinstance(found, Awaitable):
                found = await found
            if found:
                return found
            await asyncio.sleep(0.02)


class Simulated:
    """One cluster's machines and a way to speak to it."""

    def __init__(
        self,
        distribution: Distribution = Distribution.K3S,
        cni: Cni | None = None,
        kube_proxy_replacement: bool = False,
        world: World | None = None,
        in_template: bool = True,
        artifact_url: str | None = None,
        containerd: str = CONTAINERD,
    ) -> None:
        self.world = world or World(timing=Timing(**QUICK.__dict__))
        self.distribution = distribution
        self.number = next(_NUMBERS)
        self.net = f"127.{_BASE + self.number // 250}.{self.number % 250}"
        self.version = VERSIONS[distribution][0]
        self.authorities = example_authorities(distribution)
        self.tokens = tokens.make(secrets)
        self.in_template = in_template
        self.artifact_url = artifact_url
        self.containerd = containerd
        self.spec = ClusterSpec(
            name="prod",
            distribution=distribution,
            version=self.version,
            control_planes=3,
            pod_cidrs=("10.52.0.0/16",),
            service_cidrs=("10.53.0.0/16",),
            endpoint=f"{self.net}.50",
            network=NetworkSpec(
                bridge="vmbr0", addresses=(f"{self.net}.51-{self.net}.99",), prefix=24, gateway=f"{self.net}.1",
                dns_servers=(f"{self.net}.1",),
            ),
            storage="shared",
            # kubeadm brings none of its own.
            cni=Cni.CALICO if cni is None and distribution is Distribution.KUBEADM else cni,
            kube_proxy_replacement=kube_proxy_replacement,
        )  # fmt: skip
        self._clients: dict[str, httpx.AsyncClient] = {}

    # machines

    def machine(self, number: int, role: Role) -> Machine:
        name = f"prod-cp-{number}" if role is Role.CONTROL_PLANE else f"prod-workers-{number}"
        unique = self.number * 100 + number
        return Machine(
            id=f"machine-{number}", cluster_id="cluster-1", name=name, role=role, pool="workers",
            initialiser=number == 1, version=self.version, cores=2, memory_mib=4096, disk_gib=30, vmid=20000 + unique,
            address=f"{self.net}.{50 + number}", mac=f"BC:24:11:00:00:{number:02X}",
            bios_uuid=f"6F1F2D6E-0000-4000-8000-{unique:012X}",
        )  # fmt: skip

    def data(self, machine: Machine) -> BootData:
        return boot_data(
            BootInput(
                spec=self.spec, machine=machine, first_server=machine.initialiser, authorities=self.authorities,
                tokens=self.tokens, artifact_url=self.artifact_url, has_programs=self.in_template,
            )
        )  # fmt: skip

    def hardware(self, machine: Machine, data: BootData | None) -> Hardware:
        image = None if data is None else base64.b64encode(iso(data)).decode()
        return Hardware(
            machine.vmid, machine.name, "pve1", machine.bios_uuid, memory_mib=machine.memory_mib, cores=machine.cores,
            macs=(machine.mac,), distribution=self.distribution.value, version=machine.version,
            has_programs=self.in_template, disk_id=f"disk-{machine.vmid}",
            containerd=self.containerd, iso=image,
        )  # fmt: skip

    def power_on(self, number: int, role: Role, change: Callable[[BootData], BootData] = lambda data: data) -> Machine:
        machine = self.machine(number, role)
        self.world.power_on(self.hardware(machine, change(self.data(machine))))
        return machine

    def server(self, number: int, **how: Any) -> Machine:
        return self.power_on(number, Role.CONTROL_PLANE, **how)

    def worker(self, number: int, **how: Any) -> Machine:
        return self.power_on(number, Role.WORKER, **how)

    async def open_joining(self, host: str, life: timedelta = timedelta(hours=1)) -> None:
        """What the platform does before somebody joins a kubeadm cluster; again, it renews the token."""
        now = datetime.now(UTC)
        path = secret_path(self.tokens.bootstrap)
        body = json.dumps(secret_manifest(self.tokens.bootstrap, now + life))
        headers = {"Content-Type": "application/apply-patch+yaml"}
        answer = await self.client(host).patch(
            path, content=body, headers=headers, params={"fieldManager": "trilithon", "force": "true"}
        )
        assert answer.status_code in (200, 201), answer.text

    async def install_pod_network(self, host: str) -> None:
        """What the platform does where the cluster has another pod network than the distribution's own."""
        name = "cilium" if self.spec.cni is Cni.CILIUM else "calico-node"
        labels = {"k8s-app": name}
        box = {"name": "agent", "image": "lab.invalid/a:1"}
        spec = {"hostNetwork": True, "tolerations": [{"operator": "Exists"}], "containers": [box]}
        body = {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": name},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }
        answer = await self.client(host).post("/apis/apps/v1/namespaces/kube-system/daemonsets", json=body)
        assert answer.status_code == 201, answer.text

    def log(self, machine: Machine) -> str:
        """Everything that the machine wrote, for the words of a failed case."""
        disk = self.world.machines[machine.vmid].disk
        return "\n".join(f"{where}: {line}" for where, lines in disk.logs.items() for line in lines)

    # the API

    def client(self, host: str) -> httpx.AsyncClient:
        """An administrator's client for the API at an address."""
        if host not in self._clients:
            context = _context(self.distribution)
            self._clients[host] = httpx.AsyncClient(verify=context, base_url=f"https://{host}:6443", timeout=10)
        return self._clients[host]

    async def get(self, path: str, host: str = "") -> Obj | None:
        """An object through our own certificate; None when the API is not there or refuses."""
        try:
            answer = await self.client(host or self.spec.endpoint).get(path)
        except httpx.HTTPError:
            return None
        found: Obj | None = answer.json() if answer.status_code == 200 else None
        return found

    async def node(self, machine: Machine, host: str = "") -> Obj | None:
        return await self.get(f"/api/v1/nodes/{machine.name}", host)

    async def ready(self, machine: Machine, host: str = "") -> bool:
        return is_ready(await self.node(machine, host))

    async def close_clients(self) -> None:
        """Ends the connections of this test; the machines go on."""
        for client in self._clients.values():
            await client.aclose()
        self._clients.clear()

    async def close(self) -> None:
        await self.close_clients()
        await self.world.close()
        await _sweep()
        assert self.world.errors == [], self.world.errors


async def _sweep() -> None:
    """Collects what asyncio itself leaves behind, here and not in the middle of somebody else's test.

    A server that is closed while a connection is being accepted leaves that socket to the garbage collector (CPython:
    `_accept_connection2` is cancelled before its transport owns it); its ResourceWarning is not ours to mend.
    """
    for _ in range(5):
        await asyncio.sleep(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect(1)  # what is young: a full collection after each of hundreds of tests takes a minute


def is_ready(node: Obj | None) -> bool:
    rows = (node or {}).get("status", {}).get("conditions", [])
    return any(row["type"] == "Ready" and row["status"] == "True" for row in rows)
