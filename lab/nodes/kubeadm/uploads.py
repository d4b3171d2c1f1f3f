"""What `kubeadm init` leaves in its cluster: configuration, cluster-info, rights of joining machines, add-ons."""

import base64
import ipaddress
import secrets
from datetime import UTC, datetime, timedelta
from typing import Any

from lab.kube.api import KubeApi
from lab.kube.objects import Obj, now_text
from lab.nodes.kubeadm.configuration import Registration, Shared
from lab.nodes.kubeadm.pki import kubeconfig_text
from lab.yaml_reader import write_yaml

_RBAC = "rbac.authorization.k8s.io"
_JOINERS = "system:bootstrappers:kubeadm:default-node-token"
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
_MANAGER = "kubeadm"


def upload_config(api: KubeApi, shared: Shared) -> None:
    """The ConfigMaps kubeadm-config and kubelet-config, readable for who joins."""
    text = write_yaml(shared.document)
    _put(api, _config_map("kube-system", "kubeadm-config", ClusterConfiguration=text))
    kubelet = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cgroupDriver": "systemd",
        "clusterDNS": [_dns(shared)],
        "clusterDomain": "cluster.local",
        "rotateCertificates": True,
        "staticPodPath": "/etc/kubernetes/manifests",
    }
    _put(api, _config_map("kube-system", "kubelet-config", kubelet=write_yaml(kubelet)))
    for role, name, groups in (
        ("kubeadm:nodes-kubeadm-config", "kubeadm-config", ("system:nodes", _JOINERS)),
        ("kubeadm:kubelet-config", "kubelet-config", ("system:nodes", _JOINERS)),
    ):
        rule = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [name], "verbs": ["get"]}
        _grant(api, role, rule, [_group(group) for group in groups], "kube-system")


def mark_control_plane(api: KubeApi, node: Registration) -> bool:
    """Labels and taints of a server's node; False while the node is not there."""
    if api.find("nodes", "", node.name) is None:
        return False
    taints = [{"key": CONTROL_PLANE, "effect": "NoSchedule"}] if node.taints is None else list(node.taints)

    def edit(found: Obj) -> None:
        found["metadata"].setdefault("labels", {}).update(
            {CONTROL_PLANE: "", "node.kubernetes.io/exclude-from-external-load-balancers": ""}
        )
        there = found["spec"].setdefault("taints", [])
        there += [taint for taint in taints if taint not in there]

    api.change("nodes", ("", node.name), edit, _MANAGER)
    return True


def bootstrap_token(api: KubeApi, endpoint: str, authority: bytes, life: timedelta) -> None:
    """A token of kubeadm's own, cluster-info, and the rights of who comes with a token."""
    identity, secret = secrets.token_hex(3), secrets.token_hex(8)
    data = {
        "token-id": identity,
        "token-secret": secret,
        "expiration": now_text(datetime.now(UTC) + life),
        "usage-bootstrap-authentication": "true",
        "usage-bootstrap-signing": "true",
        "auth-extra-groups": _JOINERS,
    }
    _put(
        api,
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": f"bootstrap-token-{identity}", "namespace": "kube-system"},
            "type": "bootstrap.kubernetes.io/token",
            "data": {name: base64.b64encode(text.encode()).decode() for name, text in data.items()},
        },
    )
    text = kubeconfig_text(f"https://{endpoint}", authority)
    _put(api, _config_map("kube-public", "cluster-info", kubeconfig=text))
    rule = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["cluster-info"], "verbs": ["get"]}
    anonymous = {"kind": "User", "apiGroup": _RBAC, "name": "system:anonymous"}
    _grant(api, "kubeadm:bootstrap-signer-clusterinfo", rule, [anonymous], "kube-public")
    get = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}
    _grant(api, "kubeadm:get-nodes", get, [_group(_JOINERS)])
    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    _grant(api, "kubeadm:cluster-admins", everything, [_group("kubeadm:cluster-admins")])


def add_ons(api: KubeApi, shared: Shared, proxy: bool) -> None:
    """CoreDNS, and kube-proxy unless something else stands in for it."""
    _put(api, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _named("coredns")})
    _put(api, _config_map("kube-system", "coredns", Corefile=".:53 {\n    kubernetes cluster.local\n}\n"))
    labels = {"k8s-app": "kube-dns"}
    tolerated = [{"key": "CriticalAddonsOnly", "operator": "Exists"}, {"key": CONTROL_PLANE, "effect": "NoSchedule"}]
    spec = _pod_spec("coredns", "registry.k8s.io/coredns/coredns:v1.14.2", tolerated)
    _put(
        api,
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {**_named("coredns"), "labels": labels},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {**spec, "serviceAccountName": "coredns"}},
            },
        },
    )
    _put(
        api,
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {**_named("kube-dns"), "labels": labels},
            "spec": {"clusterIP": _dns(shared), "selector": labels, "ports": [{"name": "dns", "port": 53}]},
        },
    )
    if not proxy:
        return
    _put(api, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _named("kube-proxy")})
    _put(api, _config_map("kube-system", "kube-proxy", **{"config.conf": f"clusterCIDR: {shared.pods}\n"}))
    labels = {"k8s-app": "kube-proxy"}
    spec = _pod_spec("kube-proxy", f"registry.k8s.io/kube-proxy:{shared.version}", [{"operator": "Exists"}])
    _put(
        api,
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {**_named("kube-proxy"), "labels": labels},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {**spec, "hostNetwork": True, "serviceAccountName": "kube-proxy"},
                },
            },
        },
    )


def _dns(shared: Shared) -> str:
    return str(ipaddress.ip_network(shared.services.split(",")[0], strict=False)[10])


def _named(name: str) -> Obj:
    return {"name": name, "namespace": "kube-system"}


def _pod_spec(name: str, image: str, tolerations: list[Obj]) -> Obj:
    return {
        "priorityClassName": "system-cluster-critical",
        "tolerations": tolerations,
        "containers": [{"name": name, "image": image}],
    }


def _config_map(namespace: str, name: str, **data: str) -> Obj:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data}


def _group(name: str) -> Obj:
    return {"kind": "Group", "apiGroup": _RBAC, "name": name}


def _grant(api: KubeApi, name: str, rule: Obj, subjects: list[Obj], namespace: str = "") -> None:
    kind, place = ("Role", {"namespace": namespace}) if namespace else ("ClusterRole", {})
    version = f"{_RBAC}/v1"
    _put(api, {"apiVersion": version, "kind": kind, "metadata": {"name": name, **place}, "rules": [rule]})
    binding: dict[str, Any] = {
        "apiVersion": version,
        "kind": f"{kind}Binding",
        "metadata": {"name": name, **place},
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": name},
        "subjects": subjects,
    }
    _put(api, binding)


def _put(api: KubeApi, obj: Obj) -> None:
    """Creates, or brings the data of an earlier try up to date."""
    found = api.ensure(obj, _MANAGER)
    changed: Obj = {key: obj[key] for key in ("data", "rules", "subjects") if key in obj and obj[key] != found.get(key)}
    if changed:
        resource = api.registry.of_kind(obj["apiVersion"], obj["kind"])
        assert resource is not None
        key = (obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
        api.change(resource.plural, key, lambda old: old.update(changed), _MANAGER, resource.group)
