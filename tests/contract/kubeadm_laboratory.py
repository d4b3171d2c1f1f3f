"""A kubeadm cluster of two servers and a worker behind the simulated Proxmox VE, made by its API alone.

The same calls and the same boot data on both laboratories: simulated nodes (tier 1) and real ones (tier 3). The boot
data are the product's, since a simulated machine knows no other script. Nothing is installed in the cluster: no pod
network, no cloud controller.
"""

import asyncio
import json
import secrets
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from bootstrap import BootInput, authorities, boot_data, tokens
from bootstrap.bootstrap_token import secret_manifest, secret_path
from bootstrap.iso import iso
from domain.clusters import ClusterSpec, Cni, Distribution, NetworkSpec
from domain.machines import Machine, Role
from tests.e2e.running import ROOT, claim_space

VERSION = "v1.36.3"
SERVER, SECOND, WORKER = "made-cp-1", "made-cp-2", "made-w-1"
LOCK_WAIT = 3600.0
"""Seconds that a run on real nodes waits for another laboratory's end."""
Obj = dict[str, Any]


@dataclass
class KubeadmCluster:
    """What the cases look at: who is in the cluster, and ways to speak to it.

    `uuids` are the SMBIOS ids that the hypervisor gave, by machine name. `proxy` leads into the laboratory's network.
    """

    spec: ClusterSpec
    machines: dict[str, Machine]
    authorities: authorities.Authorities
    tokens: tokens.Tokens
    uuids: dict[str, str]
    proxy: str | None = None
    patience: float = 300.0
    """Seconds for what happens by itself."""
    _open: list[httpx.AsyncClient] = field(default_factory=list)

    @property
    def servers(self) -> list[Machine]:
        """The first one first."""
        return [machine for machine in self.machines.values() if machine.is_server]

    @property
    def workers(self) -> list[Machine]:
        return [machine for machine in self.machines.values() if not machine.is_server]

    def client(
        self, host: str = "", *, port: int = 6443, anonymous: bool = False, token: str = ""
    ) -> httpx.AsyncClient:
        """A client of the API server at an address (default: the virtual IP): administrator, nobody or a token."""
        context = ssl.create_default_context(cadata=self.authorities.server.certificate.decode())
        if not anonymous and not token:
            now = datetime.now(UTC)
            pair = authorities.admin_certificate(
                self.authorities, "trilithon", rng=secrets, not_before=now - timedelta(hours=1),
                not_after=now + timedelta(days=1),
            )  # fmt: skip
            _show(context, pair)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return self._client(context, f"https://{host or self.spec.endpoint}:{port}", headers)

    def etcd(self, host: str, *, known: bool = True) -> httpx.AsyncClient:
        """A client of one server's etcd; without `known` it shows no certificate."""
        context = ssl.create_default_context(cadata=self.authorities.etcd_server.certificate.decode())
        if known:
            now = datetime.now(UTC)
            ends = now + timedelta(days=1)
            begins = now - timedelta(hours=1)
            _show(context, authorities.etcd_client_certificate(
                self.authorities, "trilithon", rng=secrets, not_before=begins, not_after=ends
            ))  # fmt: skip
        return self._client(context, f"https://{host}:2379", {})

    def _client(self, context: ssl.SSLContext, url: str, headers: dict[str, str]) -> httpx.AsyncClient:
        made = httpx.AsyncClient(
            verify=context, base_url=url, headers=headers, timeout=20, proxy=self.proxy, trust_env=False
        )
        self._open.append(made)
        return made

    async def get(self, path: str, host: str = "") -> Obj:
        """One object or list as the administrator sees it; fails the case when it is not there."""
        async with self.client(host) as client:
            answer = await client.get(path)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def items(self, path: str) -> dict[str, Obj]:
        """A list's objects by their names."""
        return {row["metadata"]["name"]: row for row in (await self.get(path))["items"]}

    async def put_token(self, ends: datetime) -> None:
        """Makes the Secret of the join token, or renews it."""
        path = secret_path(self.tokens.bootstrap)
        async with self.client(self.servers[0].address) as client:
            answer = await client.patch(
                path,
                content=json.dumps(secret_manifest(self.tokens.bootstrap, ends)),
                params={"fieldManager": "trilithon", "force": "true"},
                headers={"Content-Type": "application/apply-patch+yaml"},
            )
        assert answer.status_code in (200, 201), answer.text

    async def drop_token(self) -> None:
        async with self.client(self.servers[0].address) as client:
            await client.delete(secret_path(self.tokens.bootstrap))

    async def eventually(self, what: str, look: Callable[[], Awaitable[Any]]) -> Any:
        """Asks until the answer is true; a server that is away is no answer yet."""
        last = "nothing"
        try:
            async with asyncio.timeout(self.patience):
                while True:
                    try:
                        if found := await look():
                            return found
                    except (httpx.HTTPError, AssertionError) as error:
                        last = repr(error)[:600]
                    await asyncio.sleep(0.2)
        except TimeoutError:
            raise AssertionError(f"waited {self.patience:.0f} s for {what}; last: {last}") from None

    async def close(self) -> None:
        for client in self._open:
            await client.aclose()


class Laboratory:
    """One laboratory with its Proxmox VE, and the cluster in it.

    Args:
        kind: `simulated` or `real`.
        folder: everything it keeps.
    """

    def __init__(self, kind: str, folder: Path) -> None:
        self._data = folder / "lab"
        self._claim, space = claim_space()
        line = [sys.executable, "-m", "lab.session", "start", "--data", str(self._data), "--kind", kind]
        done = subprocess.run(
            [*line, "--space", str(space), "--wait", str(LOCK_WAIT)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        self.lab: Obj = json.loads(done.stdout)
        self._net = f"172.30.{space}" if kind == "real" else f"127.{space + 10}.9"
        token = self.lab["people"]["platform"]
        endpoint = self.lab.get("outside_endpoints", self.lab["endpoints"])[0]
        self._pve = httpx.AsyncClient(
            verify=False, base_url=f"{endpoint}/api2/json", timeout=60, trust_env=False,  # noqa: S501 - the laboratory's
            headers={"Authorization": f"PVEAPIToken={token['id']}={token['secret']}"},
        )  # fmt: skip
        now = datetime.now(UTC)
        ends = now + timedelta(days=300)
        made = authorities.make(secrets, now - timedelta(hours=1), ends, Distribution.KUBEADM)
        self.cluster = KubeadmCluster(
            self._spec(), {}, made, tokens.make(secrets), {}, proxy=self.lab.get("proxy"),
        )  # fmt: skip

    def _spec(self) -> ClusterSpec:
        net = self._net
        return ClusterSpec(
            name="made", distribution=Distribution.KUBEADM, version=VERSION, control_planes=3, cni=Cni.CALICO,
            pod_cidrs=("10.52.0.0/16",), service_cidrs=("10.53.0.0/16",), endpoint=f"{net}.70", storage="shared",
            network=NetworkSpec(
                bridge="vmbr0", addresses=(f"{net}.71-{net}.79",), prefix=24, gateway=f"{net}.1",
                dns_servers=(f"{net}.1",),
            ),
        )  # fmt: skip

    async def make(self) -> None:
        """Three machines in turn: each is a node before the next gets power. The token stays."""
        cluster = self.cluster
        await self._power_on(171, SERVER, Role.CONTROL_PLANE)
        await cluster.eventually(
            "the first server's node", lambda: self._node(SERVER, cluster.machines[SERVER].address)
        )
        await cluster.put_token(datetime.now(UTC) + timedelta(hours=1))
        await self._power_on(173, WORKER, Role.WORKER)
        await cluster.eventually("the worker's node", lambda: self._node(WORKER))
        await self._power_on(172, SECOND, Role.CONTROL_PLANE)
        await cluster.eventually("the second server", self._joined)

    async def _node(self, name: str, host: str = "") -> Obj:
        return await self.cluster.get(f"/api/v1/nodes/{name}", host)

    async def _joined(self) -> bool:
        labels = (await self._node(SECOND))["metadata"]["labels"]
        return "node-role.kubernetes.io/control-plane" in labels

    async def _power_on(self, vmid: int, name: str, role: Role) -> None:
        """Clone, MAC, ISO, start: as the product does it."""
        mac = f"BC:24:11:00:09:{vmid - 100}"
        templates = self.lab.get("templates") or [{"vmid": 9003}]
        source = f"/nodes/pve1/qemu/{templates[0]['vmid']}"
        await self._task("POST", f"{source}/clone", newid=vmid, name=name, pool="trilithon", full=1, storage="shared")
        vm = f"/nodes/pve1/qemu/{vmid}"
        config = (await self._call("GET", f"{vm}/config"))["smbios1"]
        uuid = next(part.partition("=")[2] for part in config.split(",") if part.startswith("uuid="))
        machine = Machine(
            id=name, cluster_id="made", name=name, role=role, pool="made", initialiser=name == SERVER, version=VERSION,
            cores=2, memory_mib=4096, disk_gib=10, vmid=vmid, address=f"{self._net}.{vmid - 100}", mac=mac,
            bios_uuid=uuid,
        )  # fmt: skip
        self.cluster.machines[name], self.cluster.uuids[name] = machine, uuid.lower()
        data = boot_data(
            BootInput(
                spec=self.cluster.spec, machine=machine, first_server=machine.initialiser,
                authorities=self.cluster.authorities, tokens=self.cluster.tokens,
            )
        )  # fmt: skip
        answer = await self._pve.post(
            "/nodes/pve1/storage/iso/upload", data={"content": "iso"}, files={"filename": (f"{name}.iso", iso(data))}
        )
        answer.raise_for_status()
        await self._done(str(answer.json()["data"]))
        await self._task("PUT", f"{vm}/config", net0=f"virtio={mac},bridge=vmbr0", cores=2, memory=4096,
                         ide2=f"iso:iso/{name}.iso,media=cdrom")  # fmt: skip
        await self._task("POST", f"{vm}/status/start")

    async def destroy(self) -> None:
        """Stops and destroys every machine and its ISO."""
        for name, machine in self.cluster.machines.items():
            vm = f"/nodes/pve1/qemu/{machine.vmid}"
            await self._task("POST", f"{vm}/status/stop")
            await self._task("DELETE", vm, purge=1)
            await self._task("DELETE", f"/nodes/pve1/storage/iso/content/iso:iso/{name}.iso")

    async def running(self) -> dict[str, str]:
        """Name and state of the VMs that are no templates."""
        rows = await self._call("GET", "/cluster/resources", type="vm")
        return {str(row["name"]): str(row["status"]) for row in rows if not row.get("template")}

    async def _call(self, method: str, path: str, **params: Any) -> Any:
        query = {"params": params} if method in ("GET", "DELETE") else {"data": params}
        answer = await self._pve.request(method, path, **query)  # type: ignore[arg-type]
        assert answer.status_code == 200, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json()["data"]

    async def _task(self, method: str, path: str, **params: Any) -> None:
        found = await self._call(method, path, **params)
        if isinstance(found, str) and found.startswith("UPID:"):
            await self._done(found)

    async def _done(self, upid: str) -> None:
        async def ended() -> str:
            row = await self._call("GET", f"/nodes/pve1/tasks/{upid}/status")
            return str(row.get("exitstatus", "")) if row["status"] == "stopped" else ""

        assert await self.cluster.eventually(upid, ended) == "OK"

    async def end(self) -> None:
        """Ends everything."""
        await self.cluster.close()
        await self._pve.aclose()
        line = [sys.executable, "-m", "lab.session", "stop", "--data", str(self._data)]
        await asyncio.to_thread(subprocess.run, line, cwd=ROOT, check=True, capture_output=True)
        self._claim.close()


def _show(context: ssl.SSLContext, pair: authorities.KeyPair) -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(pair.certificate + pair.key)
        file.flush()
        context.load_cert_chain(file.name)
