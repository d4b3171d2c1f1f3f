"""What the README promises: apply, wait, kubectl, delete; and nothing stays behind."""

import json
from pathlib import Path

import pytest

from tests.e2e.running import Trilithon

pytestmark = pytest.mark.lab
EXCLUDED = "tasks, tickets and times; lab/pve/README.md lists them"


def test_edge_comes_up_alone_and_goes_without_a_trace(platform: Trilithon, tmp_path: Path) -> None:
    before = platform.state()
    platform.run("apply", "-f", str(platform.manifest("edge-k3s.yaml")))
    platform.run("wait", "cluster/edge", "--for=condition=Available", "--timeout=3m")

    kubeconfig = tmp_path / "edge.kubeconfig"
    platform.run("kubeconfig", "edge", "-f", str(kubeconfig))
    assert kubeconfig.stat().st_mode & 0o077 == 0
    nodes = json.loads(platform.kubectl(kubeconfig, "get", "nodes", "-o", "json"))["items"]
    assert len(nodes) == 1
    assert _ready(nodes[0])
    assert nodes[0]["spec"]["providerID"].startswith("proxmox://lab/")
    assert nodes[0]["metadata"]["labels"]["topology.kubernetes.io/region"] == "lab"
    assert nodes[0]["metadata"]["labels"]["topology.kubernetes.io/zone"].startswith("pve")
    assert not nodes[0]["spec"].get("taints"), "a cluster without workers carries its workloads on its server"

    platform.run("delete", "cluster/edge", "--yes", "--wait")
    assert platform.state() == before, EXCLUDED


def test_prod_has_three_servers_and_three_workers(platform: Trilithon, tmp_path: Path) -> None:
    platform.run("apply", "-f", str(platform.manifest("prod-rke2.yaml")))
    platform.run("wait", "cluster/prod", "--for=condition=Available", "--timeout=4m")

    kubeconfig = tmp_path / "prod.kubeconfig"
    platform.run("kubeconfig", "prod", "-f", str(kubeconfig))
    nodes = json.loads(platform.kubectl(kubeconfig, "get", "nodes", "-o", "json"))["items"]
    servers = [n for n in nodes if "node-role.kubernetes.io/control-plane" in n["metadata"]["labels"]]
    workers = [n for n in nodes if n not in servers]
    assert (len(servers), len(workers)) == (3, 3)
    assert all(_ready(node) for node in nodes)
    zones = {n["metadata"]["labels"]["topology.kubernetes.io/zone"] for n in servers}
    assert zones == {"pve1", "pve2", "pve3"}, "one server to a Proxmox VE node"
    assert all(_tainted(node) for node in servers)
    assert not any(_tainted(node) for node in workers)

    conditions = {c["type"]: c for c in platform.cluster("prod")["conditions"]}
    assert conditions["VolumesReady"]["reason"] == "NotBuiltYet"
    assert conditions["UpgradesReady"]["reason"] == "NotBuiltYet"

    platform.run("delete", "cluster/prod", "--yes", "--wait")
    assert not [vm for vm in platform.state()["vms"] if "prod" in json.dumps(vm)]


def _ready(node: dict) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"]["conditions"])


def _tainted(node: dict) -> bool:
    taints = node["spec"].get("taints") or []
    return any(t["key"] == "node-role.kubernetes.io/control-plane" and t["effect"] == "NoSchedule" for t in taints)
