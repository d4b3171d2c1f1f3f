"""What a distribution adds to its cluster by itself: DNS, a storage class, its own cloud controller, node ranges."""

import ipaddress
from typing import TYPE_CHECKING

from lab.kube.objects import Obj, dig, meta
from lab.nodes.flags import split_list, truth
from lab.nodes.kubelet import UNINITIALISED

if TYPE_CHECKING:
    from lab.nodes.cluster import SimCluster


def reconcile(cluster: "SimCluster") -> None:
    """One look; does nothing when everything is there."""
    if cluster.distribution == "kubeadm":
        # Its add-ons are objects of its own; ranges are given by a controller manager that was told which.
        if cluster.config.get("cluster-cidr"):
            _node_ranges(cluster)
        return
    disabled = split_list(cluster.config.get("disable"))
    _dns(cluster, disabled)
    if cluster.distribution == "k3s" and "local-storage" not in disabled:
        cluster.api.ensure(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {
                    "name": "local-path",
                    "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
                },
                "provisioner": "rancher.io/local-path",
            },
            "deploy",
        )
    _node_ranges(cluster)
    if not truth(cluster.config.get("disable-cloud-controller", False)):
        _initialise(cluster)


def _dns(cluster: "SimCluster", disabled: list[str]) -> None:
    name = "kube-dns" if cluster.distribution == "k3s" else "rke2-coredns-rke2-coredns"
    if "coredns" in disabled or "rke2-coredns" in disabled or cluster.api.find("services", "kube-system", name):
        return
    ranges = [ipaddress.ip_network(item) for item in split_list(cluster.config.get("service-cidr", "10.43.0.0/16"))]
    wanted = split_list(cluster.config.get("cluster-dns")) or [str(ranges[0][10])]
    if ipaddress.ip_address(wanted[0]) not in ranges[0]:
        return  # the API refuses a Service whose address is not in the range: names are not resolved
    cluster.api.ensure(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "namespace": "kube-system"},
            "spec": {"clusterIP": wanted[0], "selector": {"k8s-app": "kube-dns"}, "ports": [{"port": 53}]},
        },
        "deploy",
    )


def _node_ranges(cluster: "SimCluster") -> None:
    """Every node gets its /24 of the pod range, as the controller manager hands them out."""
    nodes = cluster.api.rows("nodes")
    missing = [node for node in nodes if not dig(node, "spec", "podCIDR")]
    if not missing:
        return
    taken = {dig(node, "spec", "podCIDR") for node in nodes}
    wide = ipaddress.ip_network(split_list(cluster.config.get("cluster-cidr", "10.42.0.0/16"))[0])
    free = (str(item) for item in (wide.subnets(new_prefix=24) if wide.prefixlen < 24 else iter([wide])))
    for node in missing:
        chosen = next((item for item in free if item not in taken), None)
        if chosen is None:
            return

        def give(item: Obj, cidr: str = chosen) -> None:
            item["spec"].update(podCIDR=cidr, podCIDRs=[cidr])

        cluster.api.change("nodes", ("", meta(node)["name"]), give)


def _initialise(cluster: "SimCluster") -> None:
    """The distribution's built-in cloud controller: an id of its own, and the taint goes."""
    for node in cluster.api.rows("nodes"):
        taints = dig(node, "spec", "taints", default=[]) or []
        if not any(item["key"] == UNINITIALISED for item in taints):
            continue
        name = meta(node)["name"]

        def edit(item: Obj, title: str = name) -> None:
            item["spec"].setdefault("providerID", f"{cluster.distribution}://{title}")
            item["spec"]["taints"] = [taint for taint in item["spec"]["taints"] if taint["key"] != UNINITIALISED]

        cluster.api.change("nodes", ("", name), edit)
