"""Control API, artifacts and charts over HTTP, and a lab that was killed and started again."""

import hashlib
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import httpx
import pytest_asyncio
import yaml

from domain.clusters import Distribution
from domain.machines import Role
from lab.nodes.serving import Running, serve
from lab.nodes.settings import Timing
from tests.lab.nodes.harness import QUICK, Simulated, eventually


async def begin(data: Path) -> Running:
    return await serve(0, 0, data, Timing(**QUICK.__dict__), "127.0.0.1", "127.0.0.1")


@pytest_asyncio.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    found = await begin(tmp_path)
    yield found
    await found.close()


def body_of(lab: Simulated, number: int = 1, iso: bool = True) -> dict[str, object]:
    machine = lab.machine(number, Role.CONTROL_PLANE)
    hardware = lab.hardware(machine, lab.data(machine) if iso else None)
    template = {"distribution": hardware.distribution, "version": hardware.version, "has_programs": lab.in_template}
    return {
        "name": hardware.name, "node": "pve1", "uuid": hardware.uuid, "serial": "", "memory_mib": 4096, "cores": 2,
        "macs": list(hardware.macs), "bridge": "vmbr0", "vlan": None, "template": template, "iso": hardware.iso,
        "disk_id": hardware.disk_id,
    }  # fmt: skip


async def test_a_machines_life_over_http(running: Running) -> None:
    lab = Simulated(world=running.world, in_template=False, artifact_url=running.artifact_url)
    async with httpx.AsyncClient(base_url=running.control_url) as control:
        assert (await control.post("/machines/7/agent/ping")).status_code == 404
        answer = await control.post("/machines/7/power-on", json=body_of(lab))
        assert answer.json()["boot_id"]
        assert (await control.post("/machines/7/power-on", json=body_of(lab))).status_code == 409
        await eventually(lambda: lab.get("/api/v1/nodes/prod-cp-1"))
        assert "k3s/" + lab.version + "/k3s" in running.artifacts.requests
        names = [item["name"] for item in (await control.get("/machines/7/agent/interfaces")).json()["result"]]
        assert names == ["lo", "eth0"]
        answer = await control.post("/machines/7/agent/exec", json={"command": ["hostname"]})
        assert answer.json() == {"exitcode": 0, "out": "prod-cp-1\n", "err": ""}
        await control.post("/machines/7/power-off", json={"how": "stop"})
        assert (await control.post("/machines/7/agent/ping")).status_code == 409
        await control.delete("/machines/7")
        assert (await control.get("/state")).json()["machines"] == []
        assert (await control.post("/faults", json={"nonsense": 1})).status_code == 400
    await lab.close_clients()


async def test_a_wrong_checksum_is_refused(running: Running) -> None:
    lab = Simulated(Distribution.RKE2, world=running.world, in_template=False, artifact_url=running.artifact_url)
    running.artifacts.broken = {f"rke2/{lab.version}/rke2.linux-amd64.tar.gz"}
    machine = lab.server(1)
    await eventually(lambda: "trilithon: checksum of rke2.linux-amd64.tar.gz is" in lab.log(machine))
    running.artifacts.broken = set()
    await eventually(lambda: lab.node(machine, machine.address))
    await lab.close_clients()


async def test_the_chart_repository(running: Running) -> None:
    async with httpx.AsyncClient(base_url=running.artifact_url) as client:
        index = yaml.safe_load((await client.get("/charts/index.yaml")).text)
        entry = index["entries"]["proxmox-cloud-controller-manager"][0]
        packed = (await client.get(f"/charts/{entry['urls'][0]}")).content
        assert hashlib.sha256(packed).hexdigest() == entry["digest"]


async def test_machines_and_clusters_outlive_the_process(tmp_path: Path) -> None:
    before = await begin(tmp_path)
    lab = Simulated(world=before.world)
    machine = lab.server(1)
    await eventually(lambda: lab.ready(machine))
    mark = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mark"}}
    path = "/api/v1/namespaces/default/configmaps"
    assert (await lab.client(machine.address).post(path, json=mark)).status_code == 201
    await lab.close_clients()
    await before.close()
    after = await begin(tmp_path)
    again = Simulated(world=after.world)
    again.net, again.spec, again.number, again.authorities = lab.net, lab.spec, lab.number, lab.authorities
    await eventually(lambda: again.get(f"{path}/mark", machine.address))
    await eventually(lambda: again.ready(machine))
    assert after.world.machines[machine.vmid].on
    await again.close()
    await after.close()


async def test_a_kubeadm_cluster_outlives_the_process(tmp_path: Path) -> None:
    before = await begin(tmp_path)
    lab = Simulated(Distribution.KUBEADM, world=before.world)
    server, worker = lab.server(1), lab.machine(4, Role.WORKER)
    await eventually(lambda: lab.node(server), 40)
    await lab.open_joining(server.address)
    lab.worker(4)
    await eventually(lambda: lab.node(worker), 40)
    await eventually(lambda: "trilithon: done" in lab.log(worker), 40)
    await lab.install_pod_network(server.address)
    await lab.close_clients()
    await before.close()
    after = await begin(tmp_path)
    again = Simulated(Distribution.KUBEADM, world=after.world)
    again.net, again.spec, again.number, again.authorities = lab.net, lab.spec, lab.number, lab.authorities
    for machine in (server, worker):
        await eventually(partial(again.ready, machine), 40)
    await again.close()
    await after.close()
