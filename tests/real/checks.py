"""What a cluster on real nodes must show through the real kubectl."""

from pathlib import Path
from typing import Any

from lab.invariants import differences
from tests.lab.real.workload import NAME, web
from tests.real.running import RealTrilithon

PATIENCE = 180.0
"""Seconds for what takes a few on a quiet machine."""


def is_ready(node: dict[str, Any]) -> bool:
    return any(row["type"] == "Ready" and row["status"] == "True" for row in node["status"]["conditions"])


def nodes(platform: RealTrilithon, kubeconfig: Path) -> dict[str, dict[str, Any]]:
    """The cluster's Node objects by their names."""
    return {row["metadata"]["name"]: row for row in platform.objects(kubeconfig, "nodes")}


def assert_nodes(platform: RealTrilithon, name: str, kubeconfig: Path) -> None:
    """Every machine has a Ready node that the cloud controller has found, on the Proxmox VE node where its VM is."""
    machines = {row["name"]: row for row in platform.machines(name)}
    found = nodes(platform, kubeconfig)
    assert found.keys() == machines.keys()
    for node_name, node in found.items():
        machine, labels = machines[node_name], node["metadata"]["labels"]
        assert is_ready(node), node["status"]["conditions"]
        assert node["spec"]["providerID"] == f"proxmox://lab/{machine['vmid']}"
        assert labels["topology.kubernetes.io/region"] == "lab"
        assert labels["topology.kubernetes.io/zone"] == machine["node"]
        assert node["status"]["nodeInfo"]["kubeletVersion"] == "v1.36.3"
        addresses = {row["type"]: row["address"] for row in node["status"]["addresses"]}
        assert addresses["InternalIP"] == machine["address"]


def assert_service_answers(platform: RealTrilithon, kubeconfig: Path, *, apart: bool, client_on: str) -> None:
    """A Deployment of two answers a client by the Service's DNS name, from a node that is not the client's."""
    platform.kubectl(kubeconfig, "apply", "-f", "-", given=web(apart=apart, client_on=client_on))
    platform.kubectl(kubeconfig, "rollout", "status", "deployment/web", "--timeout=150s")
    platform.kubectl(kubeconfig, "-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=150s")
    platform.kubectl(kubeconfig, "wait", "pod/client", "--for=condition=Ready", "--timeout=150s")
    pods = {row["metadata"]["name"]: row for row in platform.objects(kubeconfig, "pods", "-l", "app=web")}
    places = {row["spec"]["nodeName"] for row in pods.values()}
    assert len(pods) == 2
    assert places - {client_on}, "a pod on another node than the client's"
    if apart:
        assert len(places) == 2
    answered: set[str] = set()

    def both() -> bool:
        said = platform.kubectl(kubeconfig, "exec", "client", "--", "wget", "-T", "3", "-qO-", f"http://{NAME}")
        answered.add(said.strip())
        return answered >= pods.keys()

    platform.look("both pods to answer by the Service's name", PATIENCE, both)


def lease(platform: RealTrilithon, kubeconfig: Path, node: str) -> str:
    """When a node's kubelet last said that it lives, as the API server wrote it."""
    rows = platform.objects(kubeconfig, "leases", "-n", "kube-node-lease")
    return next(str(row["spec"]["renewTime"]) for row in rows if row["metadata"]["name"] == node)


def assert_nothing_is_left(platform: RealTrilithon, name: str, before: dict[str, Any]) -> None:
    """After a delete: Proxmox VE as it was (but for tasks, tickets and times), no machine, no disk, no record."""
    # owner@pve has a right on prod's pool by hand, and Proxmox VE drops it with the pool.
    platform.restore_people()
    left = differences(before, platform.state())
    assert left == [], f"lab/pve/README.md names what is left out; beyond it: {left}"
    assert platform.running() == {}
    assert name not in platform.run("get", "clusters", "-o", "name").stdout
