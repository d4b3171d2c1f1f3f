"""All our processes are killed at once, again and again in the middle of a create; the laboratory lives on."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.running import Hurt, hurt

pytestmark = [pytest.mark.lab, pytest.mark.crash, pytest.mark.timeout(900)]

SEED = 3
MOMENTS = 10
POINTS = (
    "records.plan:return",
    "proxmox.ensure_user > proxmox POST access/users:lost",
    "records.make_authorities:return",
    "proxmox.ensure_token > proxmox POST access/users/token:lost",
    "proxmox.grant_rights:return",
    "records.reserve_machines:return",
    "proxmox.place_machine:return",
    "proxmox.clone_machine > proxmox POST nodes/qemu/clone:lost",
    "proxmox.wait_task:return",
    "proxmox.configure_machine > proxmox POST nodes/qemu/config:lost",
    "proxmox.resize_disk:return",
    "proxmox.upload_seed > proxmox POST nodes/storage/upload:lost",
    "proxmox.attach_seed:return",
    "proxmox.start_machine > proxmox POST nodes/qemu/status/start:lost",
    "kubernetes.await_api:return",
    "kubernetes.cloud_controller_secret:return",
    "helm.install_cloud_controller > helm ensure:before",
    "kubernetes.await_joined:return",
)
"""Moments of a create in their order; the seed chooses among them."""
AT_LAST = "kubernetes.await_ready:return"
"""The moment at which Temporal's data is deleted too."""


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Hurt]:
    with hurt(tmp_path) as running:
        yield running


def test_ten_deaths_of_everything_in_one_create(platform: Hurt) -> None:
    before, lab = platform.state(), platform.lab_pids()
    chosen = sorted(random.Random(SEED).sample(range(len(POINTS)), MOMENTS))  # noqa: S311 - a seeded choice
    platform.run("apply", "-f", str(platform.small("group")))
    reserved: dict[str, int] = {}
    for point in (*(POINTS[number] for number in chosen), AT_LAST):
        platform.until(lambda p=point: platform.passed(p) > 0, 240, f"the create to pass {point}")
        platform.kill()
        reserved |= {machine.name: machine.vmid for machine in platform.machines("group")}
        assert platform.lab_pids() == lab
        if point == AT_LAST:
            # Once more, without anything that Temporal remembered: the store alone says what is wanted.
            for file in platform.data.glob("temporal.db*"):
                file.unlink()
        platform.start()
    platform.available("group")
    cluster = platform.living("group")
    assert {machine.name: machine.vmid for machine in cluster.machines} == reserved
    assert platform.standing(cluster) == []
    assert platform.lab_pids() == lab
    assert all(vm["status"] == "running" for vm in platform.state()["vms"] if not vm["template"])
    _kubectl_lists(platform, "group", reserved)
    platform.delete("group")
    assert platform.gone(cluster, before) == []


def _kubectl_lists(platform: Hurt, cluster: str, names: dict[str, int]) -> None:
    """The real kubectl lists every machine as a node that is Ready."""
    nodes = platform.nodes(cluster)
    assert set(nodes) == set(names)
    for node in nodes.values():
        (ready,) = (c for c in node["status"]["conditions"] if c["type"] == "Ready")
        assert ready["status"] == "True"
