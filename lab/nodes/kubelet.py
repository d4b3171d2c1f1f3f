"""The node object that a kubelet registers and keeps alive."""

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lab.kube.api import KubeApi
from lab.kube.objects import Obj, dig, meta, micro_text, now_text
from lab.nodes.flags import as_list, split_list

if TYPE_CHECKING:
    from lab.nodes.machine import Hardware

UNINITIALISED = "node.cloudprovider.kubernetes.io/uninitialized"
_NOT_READY = "node.kubernetes.io/not-ready"
_CONDITIONS = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)


def external_cloud(config: dict[str, Any]) -> bool:
    """True when the kubelet waits for a cloud controller."""
    arguments = [item.lstrip("-") for item in as_list(config.get("kubelet-arg"))]
    return "cloud-provider=external" in arguments or config.get("cloud-provider-name") == "external"


def bad_argument(config: dict[str, Any]) -> str:
    """The first kubelet argument that no kubelet knows, "" when all are known."""
    known = {
        "cloud-provider",
        "provider-id",
        "max-pods",
        "node-status-update-frequency",
        "eviction-hard",
        "system-reserved",
        "kube-reserved",
        "feature-gates",
        "image-gc-high-threshold",
        "image-gc-low-threshold",
        "serialize-image-pulls",
        "protect-kernel-defaults",
        "resolv-conf",
        "v",
        "config",
        "root-dir",
        "cgroup-driver",
        "shutdown-grace-period",
        "topology-manager-policy",
        "cpu-manager-policy",
    }
    for item in as_list(config.get("kubelet-arg")):
        name = item.lstrip("-").split("=", 1)[0]
        if name not in known:
            return name
    return ""


@dataclass(frozen=True)
class Looks:
    """What a kubelet says of its node when it registers it."""

    name: str
    address: str
    version: str
    runtime: str
    """Container runtime as the node's status names it: `containerd://2.2.1`."""
    labels: dict[str, str] = field(default_factory=dict)
    """Beyond host name, system and architecture."""
    taints: tuple[Obj, ...] = ()
    annotations: dict[str, str] = field(default_factory=dict)
    provider_id: str = ""


def supervised(
    distribution: str, config: dict[str, Any], name: str, address: str, version: str, *, server: bool
) -> Looks:
    """The node of k3s or RKE2, by the supervisor's settings."""
    external = external_cloud(config)
    labels: dict[str, str] = {}
    if server:
        labels["node-role.kubernetes.io/control-plane"] = "true"
        labels["node-role.kubernetes.io/etcd"] = "true"
    if not external:
        labels["node.kubernetes.io/instance-type"] = labels["beta.kubernetes.io/instance-type"] = distribution
    for item in split_list(config.get("node-label")):
        key, _, value = item.partition("=")
        labels[key] = value
    taints: list[Obj] = [{"key": UNINITIALISED, "value": "true", "effect": "NoSchedule"}] if external else []
    for item in split_list(config.get("node-taint")):
        pair, _, effect = item.rpartition(":")
        key, _, value = pair.partition("=")
        taints.append({"key": key, "effect": effect, **({"value": value} if value else {})})
    return Looks(
        name,
        address,
        version,
        "containerd://2.2.1-k3s1",
        labels,
        tuple(taints),
        {"alpha.kubernetes.io/provided-node-ip": address} if config.get("node-ip") else {},
        "" if external else f"{distribution}://{name}",
    )


def register(api: KubeApi, hardware: "Hardware", looks: Looks) -> None:
    """Creates the Node, or brings an existing one of that name up to date (a reboot)."""
    name = looks.name
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": "amd64",
        **looks.labels,
    }
    spec: Obj = {"taints": [{"key": _NOT_READY, "effect": "NoSchedule"}, *looks.taints]}
    if looks.provider_id:
        spec["providerID"] = looks.provider_id
    found = api.find("nodes", "", name)
    if found is None:
        api.ensure(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "spec": spec,
                "metadata": {"name": name, "labels": labels, "annotations": dict(looks.annotations)},
            },
            "kubelet",
        )
    api.change(
        "nodes",
        ("", name),
        lambda node: node.update(status={**(node.get("status") or {}), **_status(hardware, looks, node)}),
    )
    _lease(api, name)


def _status(hardware: "Hardware", looks: Looks, node: Obj) -> Obj:
    capacity = {
        "cpu": str(hardware.cores),
        "memory": f"{hardware.memory_mib * 1024}Ki",
        "pods": "110",
        "ephemeral-storage": "30Gi",
    }
    now = now_text()
    before = {item["type"]: item for item in dig(node, "status", "conditions", default=[]) or []}
    conditions = [
        {
            "type": kind,
            "status": "False",
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": now,
            "lastTransitionTime": dig(before, kind, "lastTransitionTime", default=now),
        }
        for kind, reason, message in _CONDITIONS
    ]
    conditions.append(
        {
            "type": "Ready",
            "status": "False",
            "reason": "KubeletNotReady",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
            "message": "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady "
            "message:Network plugin returns error: cni plugin not initialized",
        }
    )
    return {
        "addresses": [{"type": "InternalIP", "address": looks.address}, {"type": "Hostname", "address": looks.name}],
        "capacity": capacity,
        "allocatable": dict(capacity),
        "conditions": conditions,
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "architecture": "amd64",
            "bootID": "",
            "containerRuntimeVersion": looks.runtime,
            "kernelVersion": "6.1.0-lab",
            "kubeProxyVersion": looks.version,
            "kubeletVersion": looks.version,
            "machineID": hashlib.sha256(hardware.uuid.lower().encode()).hexdigest()[:32],
            "operatingSystem": "linux",
            "osImage": "Debian GNU/Linux 12 (lab)",
            "systemUUID": hardware.uuid.lower(),
        },
    }


def set_ready(api: KubeApi, name: str, trouble: str, voter: bool | None) -> None:
    """Writes the Ready condition (and EtcdIsVoter on servers); `trouble` is why not, "" for ready."""

    def edit(node: Obj) -> None:
        now = now_text()
        conditions = node["status"].setdefault("conditions", [])
        wanted = [
            (
                "Ready",
                not trouble,
                "KubeletNotReady" if trouble else "KubeletReady",
                "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady "
                "message:Network plugin returns error: cni plugin not initialized"
                if trouble
                else "kubelet is posting ready status",
            )
        ]
        if voter is not None:
            wanted.append(("EtcdIsVoter", voter, "MemberNotLearner", "Node is a voting member of the etcd cluster"))
        for kind, state, reason, message in wanted:
            text = "True" if state else "False"
            item = next((entry for entry in conditions if entry["type"] == kind), None)
            if item is None:
                conditions.append(
                    {
                        "type": kind,
                        "status": text,
                        "reason": reason,
                        "message": message,
                        "lastHeartbeatTime": now,
                        "lastTransitionTime": now,
                    }
                )
            elif item["status"] != text:
                item.update(status=text, reason=reason, message=message, lastHeartbeatTime=now, lastTransitionTime=now)
        for item in conditions:
            if item["status"] == "Unknown":
                item.update(status="False", lastTransitionTime=now)
        taints = [
            item
            for item in node["spec"].get("taints") or []
            if item["key"] not in (_NOT_READY, "node.kubernetes.io/unreachable")
        ]
        if trouble:
            taints.append({"key": _NOT_READY, "effect": "NoSchedule"})
        if taints:
            node["spec"]["taints"] = taints
        else:
            node["spec"].pop("taints", None)

    api.change("nodes", ("", name), edit)


def _lease(api: KubeApi, name: str) -> None:
    node = api.find("nodes", "", name)
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": meta(node or {}).get("uid", "")}
    api.ensure(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": "kube-node-lease", "ownerReferences": [owner]},
            "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": micro_text()},
        },
        "kubelet",
    )


def beat(api: KubeApi, name: str) -> None:
    """Renews the kubelet's lease."""
    api.change("leases", ("kube-node-lease", name), lambda lease: lease["spec"].update(renewTime=micro_text()))
