"""examples/prod-kubeadm.yaml on real nodes: three servers, one worker, Cilium in place of kube-proxy."""

import json
import sys
import time
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
    nodes,
)
from tests.real.running import RealTrilithon

pytestmark = [pytest.mark.real, pytest.mark.timeout(7200)]


@dataclass(frozen=True)
class Prod:
    """The cluster, its servers, and the simulated Proxmox VE as it was before it."""

    kubeconfig: Path
    servers: list[dict[str, Any]]
    before: dict[str, Any]


@pytest.fixture(scope="module")
def prod(platform: RealTrilithon) -> Iterator[Prod]:
    """The cluster, Available; its deletion leaves nothing."""
    before = platform.state()
    platform.run("apply", "-f", str(platform.manifest("prod-kubeadm.yaml")))
    took = platform.available("prod", 900)
    sys.stderr.write(f"\n3+1 with Cilium: Available {took:.0f} s after apply\n")
    servers = [row for row in platform.machines("prod") if row["role"] != "worker"]
    yield Prod(platform.kubeconfig("prod"), servers, before)
    took = platform.delete("prod")
    sys.stderr.write(f"\n3+1 with Cilium: deleted in {took:.0f} s\n")
    assert_nothing_is_left(platform, "prod", before)


def test_three_servers_and_a_worker_without_kube_proxy(platform: RealTrilithon, prod: Prod) -> None:
    assert_nodes(platform, "prod", prod.kubeconfig)
    assert len(prod.servers) == 3
    assert {row["node"] for row in prod.servers} == {"pve1", "pve2", "pve3"}, "one server to a Proxmox VE node"
    daemons = {row["metadata"]["name"] for row in platform.objects(prod.kubeconfig, "daemonsets", "-A")}
    assert "cilium" in daemons
    assert "kube-proxy" not in daemons
    for kind in ("Available", "PodNetworkReady", "KubeProxyReplacementReady", "CloudControllerReady"):
        assert platform.condition("prod", kind)["status"] is True, kind


def test_service_answers_from_another_node_by_its_name(platform: RealTrilithon, prod: Prod) -> None:
    assert_service_answers(platform, prod.kubeconfig, apart=False, client_on=prod.servers[0]["name"])


def test_one_of_three_servers_loses_power(platform: RealTrilithon, prod: Prod) -> None:
    """The virtual IP's holder, so that the address must move; nobody touches a machine without cause."""
    platform.look("three healthy members", PATIENCE, lambda: _etcd(platform, True, "3 of 3 members healthy"))
    holder = _holder(platform, prod)
    lost = next(row for row in prod.servers if row["name"] == holder)
    rest = [row for row in platform.machines("prod") if row["name"] != holder]
    boots = {vmid: row["boot_id"] for vmid, row in platform.running().items()}
    jobs = platform.run("get", "jobs", "-o", "json").stdout
    mark = platform.mark()

    cut = time.monotonic()
    platform.change_vm(lost["vmid"], status="stopped")
    platform.look(
        "the API through the virtual IP",
        PATIENCE,
        lambda: platform.kubectl(prod.kubeconfig, "get", "--raw", "/readyz", "--request-timeout=2s") == "ok",
    )
    sys.stderr.write(f"\nAPI through the virtual IP again {time.monotonic() - cut:.1f} s after its holder lost power\n")
    platform.look("another holder", PATIENCE, lambda: _holder(platform, prod) != holder)
    platform.look(
        "the node to be seen as gone", PATIENCE, lambda: not is_ready(nodes(platform, prod.kubeconfig)[holder])
    )
    told = platform.look("two of three", PATIENCE, lambda: _etcd(platform, False, "2 of 3 members healthy"))
    assert told["reason"] == "EtcdDegraded"
    assert f"{holder} does not work" in told["message"]
    platform.kubectl(prod.kubeconfig, "create", "configmap", "written-by-two")

    assert platform.calls_since(mark) == [], "nothing was changed in Proxmox VE"
    now = {vmid: row["boot_id"] for vmid, row in platform.running().items() if vmid != lost["vmid"]}
    assert now == {row["vmid"]: boots[row["vmid"]] for row in rest}
    assert not platform.running()[lost["vmid"]]["on"]
    assert platform.run("get", "jobs", "-o", "json").stdout == jobs, "no job began"

    platform.change_vm(lost["vmid"], status="running")
    back = time.monotonic()
    platform.look("the node's return", PATIENCE, lambda: is_ready(nodes(platform, prod.kubeconfig)[holder]))
    sys.stderr.write(f"\nthe server is Ready {time.monotonic() - back:.1f} s after its power came back\n")
    platform.look("three healthy members", PATIENCE, lambda: _etcd(platform, True, "3 of 3 members healthy"))


def _holder(platform: RealTrilithon, prod: Prod) -> str:
    """The server whose kube-vip holds the virtual IP, by its Lease."""
    text = platform.kubectl(prod.kubeconfig, "get", "lease", "plndr-cp-lock", "-n", "kube-system", "-o", "json")
    return str(json.loads(text)["spec"]["holderIdentity"])


def _etcd(platform: RealTrilithon, status: bool, words: str) -> dict[str, Any]:
    found = platform.condition("prod", "EtcdHealthy")
    return found if found.get("status") is status and words in found["message"] else {}
