"""The two kubeadm examples on simulated nodes: both at once, Available, looked at by kubectl, and gone without a trace.

`tests/real` walks the same examples on real nodes.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.running import WAY, Trilithon

pytestmark = pytest.mark.lab
EXCLUDED = "tasks, tickets and times; lab/pve/README.md lists them"
NETWORKS = {"dev": 7, "prod": 8}
"""Cluster -> third number of its addresses: in the examples both stand on the same ones."""


def example(platform: Trilithon, name: str) -> Path:
    """An example of the real laboratory with addresses of the simulated one."""
    return platform.manifest(f"{name}-kubeadm.yaml", **{"172.30.70.": f"127.{platform.space + 10}.{NETWORKS[name]}."})


@pytest.fixture(scope="module")
def kubeconfigs(platform: Trilithon, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Both clusters, Available; afterwards the datacenter is as it was."""
    _restore_people(platform)
    before = platform.state()
    for name in NETWORKS:
        platform.run("apply", "-f", str(example(platform, name)))
    found = {}
    for name in NETWORKS:
        platform.run("wait", f"cluster/{name}", "--for=condition=Available", "--timeout=4m")
        found[name] = tmp_path_factory.mktemp(name) / "kubeconfig"
        platform.run("kubeconfig", name, "-f", str(found[name]))
    yield found
    for name in NETWORKS:
        platform.run("delete", f"cluster/{name}", "--yes")
    for name in NETWORKS:
        platform.run("wait", f"cluster/{name}", "--for=delete", "--timeout=3m")
    _restore_people(platform)
    assert platform.state() == before, EXCLUDED


def _restore_people(platform: Trilithon) -> None:
    """owner@pve has a right on prod's pool by hand, and Proxmox VE drops it with the pool."""
    WAY.post(f"{platform.lab['control']}/lab/people/restore", timeout=10).raise_for_status()


@pytest.mark.parametrize(("name", "servers", "workers"), [("dev", 1, 2), ("prod", 3, 1)])
def test_every_node_is_ready_and_found_in_proxmox(
    platform: Trilithon, kubeconfigs: dict[str, Path], name: str, servers: int, workers: int
) -> None:
    nodes = listed(platform, kubeconfigs[name], "nodes")
    planes = [node for node in nodes if "node-role.kubernetes.io/control-plane" in node["metadata"]["labels"]]
    assert (len(planes), len(nodes) - len(planes)) == (servers, workers)
    for node in nodes:
        assert any(row["type"] == "Ready" and row["status"] == "True" for row in node["status"]["conditions"])
        assert node["spec"]["providerID"].startswith("proxmox://lab/")
        assert node["metadata"]["labels"]["topology.kubernetes.io/zone"].startswith("pve")
        assert node["status"]["nodeInfo"]["kubeletVersion"] == "v1.36.3"
        taints = {taint["key"] for taint in node["spec"].get("taints") or []}
        assert taints == ({"node-role.kubernetes.io/control-plane"} if node in planes else set())


def test_etcd_was_asked_through_its_own_api(platform: Trilithon, kubeconfigs: dict[str, Path]) -> None:
    for name, members in (("dev", 1), ("prod", 3)):
        conditions = {row["type"]: row for row in platform.cluster(name)["conditions"]}
        assert conditions["EtcdHealthy"]["status"] is True, conditions["EtcdHealthy"]
        assert f"{members} of {members} members healthy, leader {name}-cp-" in conditions["EtcdHealthy"]["message"]


def test_the_join_token_is_gone_and_kube_proxy_only_where_it_is_wanted(
    platform: Trilithon, kubeconfigs: dict[str, Path]
) -> None:
    for name, proxy, network in (("dev", True, "calico-node"), ("prod", False, "cilium")):
        secrets = listed(platform, kubeconfigs[name], "secrets", "-n", "kube-system")
        assert not [row for row in secrets if row["type"] == "bootstrap.kubernetes.io/token"]
        daemons = {row["metadata"]["name"] for row in listed(platform, kubeconfigs[name], "daemonsets", "-A")}
        assert network in daemons
        assert ("kube-proxy" in daemons) is proxy


def listed(platform: Trilithon, kubeconfig: Path, *what: str) -> list[dict[str, Any]]:
    return list(json.loads(platform.kubectl(kubeconfig, "get", *what, "-o", "json"))["items"])
