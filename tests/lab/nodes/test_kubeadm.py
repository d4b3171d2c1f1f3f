"""A simulated kubeadm node: from power-on to Ready, and what only kubeadm does."""

import secrets
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
import pytest_asyncio

from bootstrap import authorities
from clients.etcd import EtcdClient, Refused, TlsMismatch, Unreachable
from clients.kubernetes import Identity
from domain.clusters import Distribution
from domain.machines import Machine
from lab.nodes import guest_agent
from tests.bootstrap.changes import put
from tests.lab.nodes.harness import Simulated, eventually

KUBEADM = Distribution.KUBEADM


@pytest_asyncio.fixture
async def lab() -> AsyncIterator[Simulated]:
    made = Simulated(KUBEADM)
    yield made
    await made.close()


async def test_a_first_server_answers_at_the_virtual_ip_and_is_ready(lab: Simulated) -> None:
    first = lab.server(1)
    await eventually(lambda: lab.node(first), 40)
    await lab.install_pod_network(lab.spec.endpoint)
    await eventually(lambda: lab.ready(first), 40)


async def test_servers_and_workers_join(lab: Simulated) -> None:
    first = lab.server(1)
    await eventually(lambda: lab.node(first), 40)
    await lab.open_joining(first.address)
    await lab.install_pod_network(first.address)
    others = [lab.worker(4), lab.server(2), lab.server(3)]
    for machine in others:
        await eventually(partial(lab.ready, machine), 40)


async def test_a_server_that_reboots_without_its_iso_returns(lab: Simulated) -> None:
    first = lab.server(1)
    await eventually(lambda: lab.node(first), 40)
    await lab.install_pod_network(lab.spec.endpoint)
    await eventually(lambda: "trilithon: done" in lab.log(first), 40)
    await lab.world.power_off(first.vmid)
    assert await lab.get("/api/v1/nodes") is None
    lab.world.power_on(lab.hardware(first, None))
    await eventually(lambda: lab.ready(first), 40)


async def test_the_etcd_of_three_servers_bears_the_loss_of_one(lab: Simulated) -> None:
    lab.world.timing.vip_scale = 0.05
    first = lab.server(1)
    await eventually(lambda: lab.node(first), 40)
    await lab.open_joining(first.address)
    others = [lab.server(2), lab.server(3)]
    for machine in others:
        await eventually(partial(lab.node, machine), 60)
        await eventually(partial(ended, lab, machine), 60)
    async with EtcdClient(first.address, identity(lab)) as etcd:
        members = await etcd.members()
        assert {one.name for one in members} == {first.name, *(machine.name for machine in others)}
        assert not any(one.learner for one in members)
        await lab.world.power_off(others[0].vmid)
        assert (await etcd.health()).good
        await eventually(lambda: lab.get("/api/v1/nodes"), 40)
        await lab.world.power_off(others[1].vmid)
        assert not (await etcd.health()).good
        assert (await etcd.status()).errors
        with pytest.raises(Refused):
            await etcd.members(confirmed=True)
    async with EtcdClient(first.address, identity(lab, foreign=True)) as stranger:
        with pytest.raises((TlsMismatch, Unreachable)):
            await stranger.members()


async def test_a_join_that_fails_leaves_no_member_behind(lab: Simulated) -> None:
    first = lab.server(1)
    await eventually(lambda: lab.node(first), 40)
    await lab.open_joining(first.address)
    lab.world.timing.kubeadm = 1.0
    second = lab.server(2, change=put("kubeadm.yaml", "nodeRegistration.kubeletExtraArgs[cloud-provider].name", "x"))
    await eventually(lambda: "can only promote a learner" in lab.log(second), 40)
    await eventually(lambda: "cleaning up what the last try left" in lab.log(second), 40)
    (cluster,) = lab.world.clusters.values()
    await lab.world.power_off(second.vmid)
    assert list(cluster.members.values()) == [first.name]
    assert cluster.trouble == ""


async def test_an_expired_token_is_swept_up_and_nobody_joins_by_it(lab: Simulated) -> None:
    first = lab.server(1)
    await eventually(lambda: lab.node(first), 40)
    await lab.open_joining(first.address, timedelta(seconds=-1))
    worker = lab.worker(4)
    await eventually(lambda: "could not find a JWS signature" in lab.log(worker), 40)
    assert await lab.node(worker) is None
    await lab.open_joining(first.address)
    await eventually(lambda: lab.node(worker), 40)


async def test_the_agent_says_what_kubeadm_and_kube_vip_say(lab: Simulated) -> None:
    machine = lab.server(1, change=put("kube-vip.yaml", "spec.containers[kube-vip].env[vip_interface]", "ens18"))
    simulated = lab.world.machines[machine.vmid]
    newest = "ls -t /var/log/pods/kube-system_kube-vip-*/kube-vip/*.log | head -n 1 | xargs tail -n 5"

    def said() -> bool:
        return "ens18 is not a valid interface" in guest_agent.execute(simulated, ["sh", "-c", newest])["out"]

    await eventually(said, 40)
    journal = ["journalctl", "-u", "trilithon-install", "-n", "12", "--no-pager", "-o", "cat"]
    await eventually(lambda: "[mark-control-plane]" in guest_agent.execute(simulated, journal)["out"], 40)


def ended(lab: Simulated, machine: Machine) -> bool:
    """The boot script has done all of its work."""
    return "trilithon: done" in lab.log(machine)


def identity(lab: Simulated, *, foreign: bool = False) -> Identity:
    """A client certificate for the cluster's etcd; `foreign` is one of the API server's authority."""
    now = datetime.now(UTC)
    make = authorities.admin_certificate if foreign else authorities.etcd_client_certificate
    pair = make(
        lab.authorities, "tester", rng=secrets, not_before=now - timedelta(hours=1), not_after=now + timedelta(hours=1)
    )
    ca = lab.authorities.etcd_server.certificate.decode()
    return Identity(ca=ca, certificate=pair.certificate.decode(), key=pair.key.decode())
