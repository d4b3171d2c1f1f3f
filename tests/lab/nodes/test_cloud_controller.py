"""The simulated cloud controller: only the Secret, only what the token shows."""

import base64
from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio
import yaml
from aiohttp import web

from domain.machines import Machine
from tests.lab.nodes.harness import Simulated, eventually

TOKEN = "PVEAPIToken=trilithon-1@pve!cluster=secret"
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "proxmox-cloud-controller-manager", "namespace": "kube-system"},
    "spec": {
        "selector": {"matchLabels": {"app": "ccm"}},
        "template": {
            "metadata": {"labels": {"app": "ccm"}},
            "spec": {
                "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": "c", "image": "lab.invalid/c:1"}],
            },
        },
    },
}


class Datacenter:
    """As much of Proxmox VE as the controller asks."""

    def __init__(self) -> None:
        self.machines: list[Machine] = []
        self.status = "running"
        self.token = TOKEN
        self.url = ""

    async def answer(self, request: web.BaseRequest) -> web.Response:
        if request.headers.get("Authorization") != self.token:
            return web.Response(status=401)
        data: Any = None
        if request.path.endswith("/cluster/resources"):
            data = [
                {"type": "qemu", "vmid": item.vmid, "name": item.name, "node": "pve2", "maxcpu": item.cores,
                 "maxmem": item.memory_mib * 2**20, "status": self.status}
                for item in self.machines
            ]  # fmt: skip
        for item in self.machines:
            if request.path.endswith(f"/qemu/{item.vmid}/config"):
                data = {"smbios1": f"uuid={item.bios_uuid},base64=1"}
        return web.json_response({"data": data})


@pytest_asyncio.fixture
async def datacenter() -> AsyncIterator[Datacenter]:
    found = Datacenter()
    runner = web.ServerRunner(web.Server(found.answer))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    found.url = f"http://127.0.0.1:{runner.addresses[0][1]}/api2/json"
    yield found
    await runner.cleanup()


@pytest_asyncio.fixture
async def lab() -> AsyncIterator[Simulated]:
    made = Simulated()
    yield made
    await made.close()


async def install(lab: Simulated, datacenter: Datacenter, right: bool = True) -> None:
    entry = {
        "url": datacenter.url,
        "token_id": "trilithon-1@pve!cluster",
        "token_secret": "secret" if right else "other",
        "region": "lab",
    }
    text = yaml.safe_dump({"features": {"provider": "default"}, "clusters": [entry]})
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "proxmox-cloud-controller-manager"},
        "data": {"config.yaml": base64.b64encode(text.encode()).decode()},
    }
    client = lab.client(lab.spec.endpoint)
    await eventually(lambda: lab.get("/api/v1/namespaces/kube-system"))
    assert (await client.post("/api/v1/namespaces/kube-system/secrets", json=body)).status_code == 201
    answer = await client.post("/apis/apps/v1/namespaces/kube-system/deployments", json=DEPLOYMENT)
    assert answer.status_code == 201


async def test_a_node_is_initialised(lab: Simulated, datacenter: Datacenter) -> None:
    first = lab.server(1)
    datacenter.machines = [first]
    await install(lab, datacenter)

    async def initialised() -> Any:
        node = await lab.node(first)
        return node if node and node["spec"].get("providerID") else None

    node = await eventually(initialised)
    assert node["spec"]["providerID"] == f"proxmox://lab/{first.vmid}"
    assert node["spec"].get("taints", []) == []
    labels = node["metadata"]["labels"]
    assert labels["topology.kubernetes.io/region"] == "lab"
    assert labels["topology.kubernetes.io/zone"] == "pve2"
    assert labels["node.kubernetes.io/instance-type"] == "2VCPU-4GB"

    async def available() -> bool:
        path = "/apis/apps/v1/namespaces/kube-system/deployments/proxmox-cloud-controller-manager"
        found = await lab.get(path)
        return bool(found and found["status"].get("readyReplicas") == 1)

    await eventually(available)


async def test_a_refused_token_leaves_the_node_uninitialised(lab: Simulated, datacenter: Datacenter) -> None:
    first = lab.server(1)
    datacenter.machines = [first]
    await install(lab, datacenter, right=False)
    await eventually(lambda: lab.ready(first))
    cluster = next(iter(lab.world.clusters.values()))
    await eventually(lambda: any("not authorized" in line for line in cluster.cloud_log))
    node = await lab.node(first)
    assert node is not None
    assert "providerID" not in node["spec"]


async def test_another_uuid_is_another_machine(lab: Simulated, datacenter: Datacenter) -> None:
    first = lab.server(1)
    datacenter.machines = [first.model_copy(update={"bios_uuid": "00000000-0000-4000-8000-000000000000"})]
    await install(lab, datacenter)
    cluster = next(iter(lab.world.clusters.values()))
    await eventually(lambda: any("failed to get instance metadata" in line for line in cluster.cloud_log))
    node = await lab.node(first)
    assert node is not None
    assert "providerID" not in node["spec"]


async def test_a_node_whose_machine_is_gone_is_deleted(lab: Simulated, datacenter: Datacenter) -> None:
    lab.world.timing.grace = 0.2
    first, worker = lab.server(1), lab.worker(4)
    datacenter.machines = [first, worker]
    await install(lab, datacenter)

    async def initialised() -> bool:
        node = await lab.node(worker)
        return bool(node and node["spec"].get("providerID"))

    await eventually(initialised)
    await lab.world.destroy(worker.vmid)
    datacenter.machines = [first]

    async def gone() -> bool:
        answer = await lab.client(lab.spec.endpoint).get(f"/api/v1/nodes/{worker.name}")
        return answer.status_code == 404

    await eventually(gone)
