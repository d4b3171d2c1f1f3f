"""The pod network: which one a cluster's settings lead to, and whether it would run. No pod network, no Ready."""

from typing import TYPE_CHECKING, Any

import yaml

from lab.kube.api import KubeApi
from lab.kube.objects import Obj, dig, meta
from lab.nodes.flags import split_list, truth
from lab.yaml_reader import read_yaml

if TYPE_CHECKING:
    from lab.nodes.cluster import SimCluster

_CHARTS = {
    "rke2-canal": "rke2-canal",
    "rke2-cilium": "cilium",
    "rke2-calico": "calico-node",
    "rke2-flannel": "kube-flannel-ds",
    "cilium": "cilium",
    "tigera-operator": "calico-node",
    "calico": "calico-node",
}
"""Chart -> name of the DaemonSet that it brings."""
_DAEMONS = set(_CHARTS.values()) | {"canal", "kube-flannel", "calico"}
_GROUP = "helm.cattle.io"
_OPERATOR = "operator.tigera.io"
_TWO = "two pod networks: flannel is on beside the chart's"


def serve_chart_kinds(api: KubeApi) -> None:
    """The two kinds of the distributions' Helm controller."""
    for kind, plural in (("HelmChart", "helmcharts"), ("HelmChartConfig", "helmchartconfigs")):
        api.ensure(
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": f"{plural}.{_GROUP}"},
                "spec": {
                    "group": _GROUP,
                    "scope": "Namespaced",
                    "names": {"plural": plural, "kind": kind, "singular": kind.lower(), "listKind": f"{kind}List"},
                    "versions": [
                        {
                            "name": "v1",
                            "served": True,
                            "storage": True,
                            "schema": {
                                "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                            },
                        }
                    ],
                },
            }
        )


def _values(text: Any) -> dict[str, Any] | None:
    """The values of a chart; None when the text is no YAML map, so that the chart's job fails."""
    if not text:
        return {}
    try:
        found = read_yaml(text)
    except yaml.YAMLError:
        return None
    return found if isinstance(found, dict) else None


def _wanted(cluster: "SimCluster") -> list[tuple[str, dict[str, Any] | None, bool]]:
    """Charts of pod networks to install: (chart, values or None, may run before nodes are ready)."""
    api, config = cluster.api, cluster.config
    if cluster.distribution == "kubeadm":
        return []  # nothing in the cluster installs charts
    found: list[tuple[str, dict[str, Any] | None, bool]] = []
    if cluster.distribution == "rke2":
        for cni in split_list(config.get("cni", "canal")):
            if cni in ("none", "multus"):
                continue
            chart = f"rke2-{cni}"
            if chart in split_list(config.get("disable")):
                continue
            override = api.find("helmchartconfigs", "kube-system", chart, _GROUP)
            found.append((chart, _values(dig(override or {}, "spec", "valuesContent")), True))
    for chart_obj in api.rows("helmcharts", "kube-system", _GROUP):
        if not dig(chart_obj, "spec", "repo"):
            continue
        space = str(dig(chart_obj, "spec", "targetNamespace", default="kube-system"))
        if api.find("namespaces", "", space) is None and not truth(dig(chart_obj, "spec", "createNamespace")):
            continue
        chart = str(dig(chart_obj, "spec", "chart", default="")).rsplit("/", 1)[-1]
        if chart in _CHARTS:
            found.append(
                (
                    chart,
                    _values(dig(chart_obj, "spec", "valuesContent")),
                    truth(dig(chart_obj, "spec", "bootstrap", default=False)),
                )
            )
    return found


def _hinders(cluster: "SimCluster", chart: str, values: dict[str, Any] | None, bootstrap: bool) -> str:
    """Why the network's pods would not work, "" when they would."""
    if values is None:
        return "the chart's values are no YAML"
    if not bootstrap:
        return "the chart's job waits for a node that is ready: bootstrap is not set"
    if cluster.distribution == "k3s" and str(cluster.config.get("flannel-backend", "vxlan")) != "none":
        return _TWO
    if cluster.distribution == "k3s" and chart in ("tigera-operator", "calico"):
        pools = dig(values, "installation", "calicoNetwork", "ipPools", default=None) or [{"cidr": "192.168.0.0/16"}]
        ranges = split_list(cluster.config.get("cluster-cidr", "10.42.0.0/16"))
        if any(pool.get("cidr") not in ranges for pool in pools):
            return "the chart's address pool is not the cluster's"
    if truth(cluster.config.get("disable-kube-proxy", False)):
        if not chart.endswith("cilium") or not truth(values.get("kubeProxyReplacement")):
            return "kube-proxy is off and nothing replaces it: the API's service address does not answer"
        host = str(values.get("k8sServiceHost", ""))
        known = {"localhost", "127.0.0.1", *cluster.api_hosts()}
        if host not in known or str(values.get("k8sServicePort", "")) not in ("6443", "6444"):
            return f"cilium cannot reach the API at {host}:{values.get('k8sServicePort', '')}"
    return ""


def reconcile(cluster: "SimCluster") -> None:
    """Installs the pod networks that can run, as DaemonSets."""
    for chart, values, bootstrap in _wanted(cluster):
        daemon = _CHARTS.get(chart)
        if daemon is None:
            continue
        hindrance = _hinders(cluster, chart, values, bootstrap)
        cluster.charts_trouble[chart] = hindrance
        if not hindrance and cluster.api.find("daemonsets", "kube-system", daemon) is None:
            cluster.api.ensure(_daemonset(daemon), "helm")
    _operate(cluster)


def _operate(cluster: "SimCluster") -> None:
    """Calico's operator: where it runs and has an Installation whose ranges are the cluster's, it makes calico-node."""
    api = cluster.api
    if not any(meta(item)["name"] == "tigera-operator" for item in api.rows("deployments")):
        return
    ranges = split_list(cluster.config.get("cluster-cidr", "10.42.0.0/16"))
    try:
        installations = api.rows("installations", group=_OPERATOR)
    except KeyError:
        return  # its definitions are not there
    for installation in installations:
        pools = dig(installation, "spec", "calicoNetwork", "ipPools", default=None) or [{"cidr": "192.168.0.0/16"}]
        if any(pool.get("cidr") not in ranges for pool in pools):
            cluster.charts_trouble["tigera-operator"] = "Calico's address pool is not the cluster's"
        elif not any(meta(item)["name"] == "calico-node" for item in api.rows("daemonsets")):
            api.ensure(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "calico-system"}}, "tigera-operator"
            )
            api.ensure(_daemonset("calico-node", "calico-system"), "tigera-operator")


def _installed(cluster: "SimCluster") -> bool:
    """A pod network's DaemonSet is there."""
    return any(meta(item)["name"] in _DAEMONS for item in cluster.api.rows("daemonsets"))


def ready(cluster: "SimCluster") -> str:
    """Why no pod network runs on the nodes, "" when one does."""
    if cluster.distribution == "k3s" and str(cluster.config.get("flannel-backend", "vxlan")) != "none":
        if _installed(cluster):
            return _TWO
        return next((text for text in cluster.charts_trouble.values() if text == _TWO), "")
    if _installed(cluster):
        return ""
    return next((text for text in cluster.charts_trouble.values() if text), "no pod network is installed")


def _daemonset(name: str, namespace: str = "kube-system") -> Obj:
    labels = {"k8s-app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "hostNetwork": True,
                    "priorityClassName": "system-node-critical",
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [{"name": name, "image": f"lab.invalid/{name}:1"}],
                },
            },
        },
    }
