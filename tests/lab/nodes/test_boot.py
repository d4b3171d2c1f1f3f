"""From power-on to a node that is Ready, with the boot data that the product renders."""

from collections.abc import AsyncIterator, Callable
from functools import partial

import pytest
import pytest_asyncio
from aiohttp import web

from domain.clusters import Distribution
from lab.nodes import guest_agent
from lab.nodes.registration import Registration
from lab.nodes.settings import Fault
from tests.lab.nodes.harness import Simulated, eventually

K3S, RKE2 = Distribution.K3S, Distribution.RKE2


@pytest_asyncio.fixture
async def make() -> AsyncIterator[Callable[..., Simulated]]:
    made: list[Simulated] = []

    def build(*arguments: object, **how: object) -> Simulated:
        made.append(Simulated(*arguments, **how))  # type: ignore[arg-type]
        return made[-1]

    yield build
    for item in made:
        await item.close()


@pytest.mark.parametrize("distribution", [K3S, RKE2])
async def test_a_first_server_answers_and_is_ready(make: Callable[..., Simulated], distribution: Distribution) -> None:
    lab = make(distribution)
    first = lab.server(1)
    await eventually(lambda: lab.ready(first, first.address))
    node = await eventually(lambda: lab.node(first))
    assert node["status"]["nodeInfo"]["systemUUID"] == first.bios_uuid.lower()
    assert node["status"]["nodeInfo"]["kubeletVersion"] == lab.version
    taints = {item["key"] for item in node["spec"]["taints"]}
    assert taints == {"node.cloudprovider.kubernetes.io/uninitialized"}
    addresses = {item["type"]: item["address"] for item in node["status"]["addresses"]}
    assert addresses == {"InternalIP": first.address, "Hostname": first.name}


@pytest.mark.parametrize("distribution", [K3S, RKE2])
async def test_servers_and_workers_join(make: Callable[..., Simulated], distribution: Distribution) -> None:
    lab = make(distribution)
    machines = [lab.server(1), lab.server(2), lab.server(3), lab.worker(4)]
    for machine in machines:
        await eventually(partial(lab.ready, machine))


@pytest.mark.parametrize("distribution", [K3S, RKE2])
async def test_a_cluster_that_falls_silent_while_a_server_joins_is_asked_again(
    make: Callable[..., Simulated], monkeypatch: pytest.MonkeyPatch, distribution: Distribution
) -> None:
    lab = make(distribution)
    first = lab.server(1)
    await eventually(lambda: lab.ready(first))
    answered, cut = Registration.__call__, []

    async def cuts(self: Registration, request: web.BaseRequest) -> web.StreamResponse | None:
        if request.path.endswith("/serving-kubelet.crt") and len(cut) < 2:
            # Twice, for an HTTP client may ask once more by itself.
            cut.append(request.path)
            assert request.transport is not None
            request.transport.abort()
        return await answered(self, request)

    monkeypatch.setattr(Registration, "__call__", cuts)
    second = lab.server(2)
    await eventually(lambda: lab.ready(second))
    assert len(cut) == 2
    assert "Waiting for cluster to become available: failed to retrieve" in lab.log(second)
    assert lab.world.errors == []


async def test_the_virtual_ip_moves_when_its_server_loses_power(make: Callable[..., Simulated]) -> None:
    lab = make(K3S)
    lab.world.timing.vip_scale = 0.05
    machines = [lab.server(1), lab.server(2), lab.server(3)]
    for machine in machines:
        await eventually(partial(lab.ready, machine))
    holder = next(m for m in machines if lab.world.machines[m.vmid].program.vip.holds)  # type: ignore[union-attr]
    await lab.world.power_off(holder.vmid)
    await eventually(lambda: lab.get("/api/v1/nodes"))
    cluster = next(iter(lab.world.clusters.values()))
    lab.world.timing.grace = 0.2

    async def lost() -> bool:
        node = await lab.node(holder)
        rows = node["status"]["conditions"] if node else []
        return any(row["type"] == "Ready" and row["status"] == "Unknown" for row in rows)

    await eventually(lost)
    others = [machine for machine in machines if machine is not holder]
    await lab.world.power_off(others[0].vmid)
    assert cluster.trouble
    answer = await lab.client(others[1].address).get("/api/v1/nodes")
    assert answer.status_code == 500
    assert "etcdserver" in answer.json()["message"]
    lab.world.power_on(lab.hardware(holder, None))
    await eventually(lambda: lab.ready(holder))


async def test_a_reboot_without_the_iso_keeps_the_machine(make: Callable[..., Simulated]) -> None:
    lab = make(K3S)
    first = lab.server(1)
    await eventually(lambda: lab.ready(first))
    await lab.world.power_off(first.vmid)
    assert await lab.get("/api/v1/nodes", first.address) is None
    lab.world.power_on(lab.hardware(first, None))
    await eventually(lambda: lab.ready(first))


async def test_without_the_mark_of_the_boot_data_the_network_is_lost(make: Callable[..., Simulated]) -> None:
    lab = make(K3S)
    first = lab.server(1)
    await eventually(lambda: lab.ready(first))
    await lab.world.power_off(first.vmid)
    machine = lab.world.machines[first.vmid]
    del machine.disk.files["/etc/cloud/cloud-init.disabled"]
    lab.world.power_on(lab.hardware(first, None))
    await eventually(lambda: machine.agent and machine.cloud_init_state != "running")
    assert machine.addresses == []
    assert "127.0.0.1" in str(guest_agent.interfaces(machine))


async def test_a_destroyed_cluster_leaves_nothing(make: Callable[..., Simulated]) -> None:
    lab = make(K3S)
    first = lab.server(1)
    await eventually(lambda: lab.ready(first))
    await lab.world.destroy(first.vmid)
    assert lab.world.machines == {}
    assert lab.world.clusters == {}


async def test_two_initialisers_make_two_clusters_and_one_virtual_ip(make: Callable[..., Simulated]) -> None:
    lab = make(K3S)
    first = lab.server(1)
    await eventually(lambda: lab.ready(first))
    second = lab.machine(2, first.role).model_copy(update={"initialiser": True})
    lab.world.power_on(lab.hardware(second, lab.data(second)))
    await eventually(lambda: lab.ready(second, second.address))
    assert len(lab.world.clusters) == 2
    assert await lab.node(second) is None
    worker = lab.worker(3)
    await eventually(lambda: lab.ready(worker))
    assert await lab.node(worker, second.address) is None


async def test_a_node_name_of_another_machine_is_refused(make: Callable[..., Simulated]) -> None:
    lab = make(K3S)
    first, worker = lab.server(1), lab.worker(4)
    await eventually(lambda: lab.ready(worker))
    twin = worker.model_copy(update={"vmid": worker.vmid + 50, "address": f"{lab.net}.90"})
    lab.world.power_on(lab.hardware(twin, lab.data(twin)))
    await eventually(lambda: "Node password rejected" in lab.log(twin))
    assert first.name != worker.name


async def test_faults_slow_and_silence_a_machine(make: Callable[..., Simulated]) -> None:
    lab = make(K3S)
    lab.world.faults.rules.append(Fault(name="prod-cp-1", never_agent=True, kubelet_stuck=True))
    first = lab.server(1)
    await eventually(lambda: lab.get("/api/v1/nodes"))
    assert await lab.node(first) is None
    assert lab.world.machines[first.vmid].agent is False


async def test_the_agent_says_what_cloud_init_and_the_journal_say(make: Callable[..., Simulated]) -> None:
    lab = make(K3S)
    worker = lab.worker(4)
    machine = lab.world.machines[worker.vmid]
    await eventually(
        lambda: "connection refused" in guest_agent.execute(machine, ["journalctl", "-u", "k3s-agent"])["out"]
    )
    answer = guest_agent.execute(machine, ["cloud-init", "status", "--format", "json"])
    assert answer["exitcode"] == 0
    assert '"status": "done"' in answer["out"]
    tail = guest_agent.execute(machine, ["tail", "-n", "2", "/var/log/cloud-init-output.log"])
    assert tail["out"].endswith("trilithon: done\n")
    assert guest_agent.execute(machine, ["rm", "-rf", "/"])["exitcode"] == 127
