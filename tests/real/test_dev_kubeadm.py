"""examples/dev-kubeadm.yaml on real nodes: one server, two workers, Calico; driven by the command line alone."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.real.checks import (
    PATIENCE,
    assert_nodes,
    assert_nothing_is_left,
    assert_service_answers,
    is_ready,
    lease,
    nodes,
)
from tests.real.running import RealTrilithon

pytestmark = [pytest.mark.real, pytest.mark.timeout(7200)]


@dataclass(frozen=True)
class Dev:
    """The cluster, and the simulated Proxmox VE as it was before it."""

    kubeconfig: Path
    before: dict[str, Any]


@pytest.fixture(scope="module")
def dev(platform: RealTrilithon) -> Iterator[Dev]:
    """The cluster, Available; its deletion leaves nothing."""
    before = platform.state()
    platform.run("apply", "-f", str(platform.manifest("dev-kubeadm.yaml")))
    took = platform.available("dev")
    sys.stderr.write(f"\n1+2 with Calico: Available {took:.0f} s after apply\n")
    yield Dev(platform.kubeconfig("dev"), before)
    took = platform.delete("dev")
    sys.stderr.write(f"\n1+2 with Calico: deleted in {took:.0f} s\n")
    assert_nothing_is_left(platform, "dev", before)


def test_every_node_is_ready_and_found_in_proxmox(platform: RealTrilithon, dev: Dev) -> None:
    assert_nodes(platform, "dev", dev.kubeconfig)
    servers = [row for row in platform.machines("dev") if row["role"] != "worker"]
    assert len(servers) == 1
    assert len(nodes(platform, dev.kubeconfig)) == 3


def test_etcd_and_pod_network_are_conditions(platform: RealTrilithon, dev: Dev) -> None:
    etcd = platform.look(
        "a look at etcd", PATIENCE, lambda: platform.condition("dev", "EtcdHealthy") or {"status": None}
    )
    server = next(row["name"] for row in platform.machines("dev") if row["role"] != "worker")
    assert (etcd["status"], etcd["reason"]) == (True, "Ready")
    assert f"1 of 1 members healthy, leader {server}" in etcd["message"]
    for kind in ("Available", "PodNetworkReady", "CloudControllerReady"):
        assert platform.condition("dev", kind)["status"] is True, kind


def test_service_answers_from_the_other_node_by_its_name(platform: RealTrilithon, dev: Dev) -> None:
    worker = next(row["name"] for row in platform.machines("dev") if row["role"] == "worker")
    assert_service_answers(platform, dev.kubeconfig, apart=True, client_on=worker)


def test_node_that_reboots_without_its_iso_returns(platform: RealTrilithon, dev: Dev) -> None:
    worker = next(row for row in platform.machines("dev") if row["role"] == "worker")
    vm = next(row for row in platform.state()["vms"] if row["vmid"] == worker["vmid"])
    assert ".iso" not in str(vm["config"]), "the platform took the ISO away once the node was Ready"
    booted = platform.running()[worker["vmid"]]["boot_id"]
    beat = lease(platform, dev.kubeconfig, worker["name"])

    platform.proxmox("POST", f"/nodes/{worker['node']}/qemu/{worker['vmid']}/status/reboot")
    platform.state()  # no task runs any more
    now = platform.running()[worker["vmid"]]
    assert now["boot_id"] != booted
    assert now["seed"] == "no ISO is attached"

    def back() -> bool:
        """Ready alone could be the word of the time before: the lease and the pods say that it lives."""
        node = nodes(platform, dev.kubeconfig)[worker["name"]]
        renewed = lease(platform, dev.kubeconfig, worker["name"]) > beat
        return renewed and is_ready(node) and bool(platform.inside(worker["vmid"], "systemctl", "is-active", "kubelet"))

    platform.look("the node's return", PATIENCE, back)
    platform.kubectl(dev.kubeconfig, "rollout", "status", "deployment/web", "--timeout=150s")
