"""A simulated kubeadm node: from power-on to Ready, and what only kubeadm does."""

from collections.abc import AsyncIterator
from functools import partial

import pytest_asyncio

from domain.clusters import Distribution
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
