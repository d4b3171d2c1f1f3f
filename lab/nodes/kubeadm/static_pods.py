"""Static pods: the manifests that kubeadm writes, and what the kubelet refuses of them."""

from typing import Any

import yaml

from lab.kube.objects import Obj, dig
from lab.nodes.disk import Disk
from lab.nodes.kubeadm.configuration import Endpoint, Shared
from lab.yaml_reader import read_yaml, write_yaml

FOLDER = "/etc/kubernetes/manifests"
_PKI = "/etc/kubernetes/pki"
CLIENT_URLS = "kubeadm.kubernetes.io/etcd.advertise-client-urls"
ETCD_IMAGE = "registry.k8s.io/etcd:3.6.8-0"
COMPONENTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")


def images(version: str) -> list[str]:
    """What a server needs before it begins."""
    listed = [f"registry.k8s.io/{name}:{version}" for name in (*COMPONENTS, "kube-proxy")]
    return [*listed, "registry.k8s.io/coredns/coredns:v1.14.2", "registry.k8s.io/pause:3.10.2", ETCD_IMAGE]


def write_etcd(disk: Disk, local: Endpoint, node: str, members: dict[str, str]) -> None:
    """Writes etcd's manifest; `members` are the names and addresses of a cluster that it joins, itself among them."""
    client, peer = f"https://{local.address}:2379", f"https://{local.address}:2380"
    initial = ",".join(f"{name}=https://{address}:2380" for name, address in members.items())
    arguments = {
        "name": node,
        "listen-client-urls": f"https://127.0.0.1:2379,{client}",
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "data-dir": "/var/lib/etcd",
        "cert-file": f"{_PKI}/etcd/server.crt",
        "key-file": f"{_PKI}/etcd/server.key",
        "trusted-ca-file": f"{_PKI}/etcd/ca.crt",
        "client-cert-auth": "true",
        "initial-cluster": initial or f"{node}={peer}",
        **({"initial-cluster-state": "existing"} if members else {}),
    }
    volumes = [("etcd-certs", f"{_PKI}/etcd"), ("etcd-data", "/var/lib/etcd")]
    _write(disk, "etcd", ETCD_IMAGE, arguments, volumes, annotations={CLIENT_URLS: client})


def write_control_plane(disk: Disk, shared: Shared, local: Endpoint) -> None:
    """Writes the manifests of API server, controller manager and scheduler."""
    server = {
        "advertise-address": local.address,
        "allow-privileged": "true",
        "authorization-mode": "Node,RBAC",
        "client-ca-file": f"{_PKI}/ca.crt",
        "enable-admission-plugins": "NodeRestriction",
        "enable-bootstrap-token-auth": "true",
        "etcd-cafile": f"{_PKI}/etcd/ca.crt",
        "etcd-certfile": f"{_PKI}/apiserver-etcd-client.crt",
        "etcd-servers": "https://127.0.0.1:2379",
        "secure-port": str(local.port),
        "service-account-signing-key-file": f"{_PKI}/sa.key",
        "service-cluster-ip-range": shared.services,
        "tls-cert-file": f"{_PKI}/apiserver.crt",
        "tls-private-key-file": f"{_PKI}/apiserver.key",
        **dict(shared.api_arguments),
    }
    manager = {"bind-address": "127.0.0.1", "cluster-name": shared.name, "use-service-account-credentials": "true"}
    if shared.pods:
        manager |= {"allocate-node-cidrs": "true", "cluster-cidr": shared.pods}
    image = f"registry.k8s.io/{{}}:{shared.version}"
    _write(disk, "kube-apiserver", image, server, [("k8s-certs", _PKI)], extra=shared.api_volumes)
    _write(disk, "kube-controller-manager", image, manager, [("k8s-certs", _PKI)])
    _write(disk, "kube-scheduler", image, {"bind-address": "127.0.0.1", "leader-elect": "true"}, [])


def _write(
    disk: Disk,
    name: str,
    image: str,
    arguments: dict[str, str],
    volumes: list[tuple[str, str]],
    extra: tuple[Obj, ...] = (),
    annotations: dict[str, str] | None = None,
) -> None:
    mounts: list[Obj] = [{"name": title, "mountPath": path, "readOnly": True} for title, path in volumes]
    sources: list[Obj] = [
        {"name": title, "hostPath": {"path": path, "type": "DirectoryOrCreate"}} for title, path in volumes
    ]
    for volume in extra:
        title = str(volume.get("name") or "")
        mounts.append({"name": title, "mountPath": str(volume.get("mountPath") or "")})
        sources.append({"name": title, "hostPath": {"path": str(volume.get("hostPath") or "")}})
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "kube-system",
            "labels": {"component": name, "tier": "control-plane"},
            "annotations": annotations or {},
        },
        "spec": {
            "containers": [
                {
                    "name": name,
                    "image": image.format(name),
                    "command": [name, *(f"--{key}={value}" for key, value in sorted(arguments.items()))],
                    "volumeMounts": mounts,
                }
            ],
            "hostNetwork": True,
            "priorityClassName": "system-node-critical",
            "volumes": sources,
        },
    }
    disk.write(f"{FOLDER}/{name}.yaml", write_yaml(pod), 0o600)


def read(text: str) -> tuple[Obj, str]:
    """A manifest, and why the kubelet refuses it ("" when it does not)."""
    try:
        pod = read_yaml(text)
    except yaml.YAMLError as error:
        return {}, f"Could not process manifest file: {str(error).splitlines()[0]}"
    if not isinstance(pod, dict) or pod.get("kind") != "Pod" or pod.get("apiVersion") != "v1":
        return {}, "Could not process manifest file: no Pod"
    spec = pod.get("spec") or {}
    if not dig(pod, "metadata", "name"):
        return pod, "Pod is invalid: metadata.name: Required value"
    if not spec.get("containers"):
        return pod, "Pod is invalid: spec.containers: Required value"
    for index, box in enumerate(spec["containers"]):
        for key in ("name", "image"):
            if not box.get(key):
                return pod, f"Pod is invalid: spec.containers[{index}].{key}: Required value"
    for index, volume in enumerate(spec.get("volumes") or []):
        if not volume.get("name"):
            return pod, f"Pod is invalid: spec.volumes[{index}].name: Required value"
        if "hostPath" in volume and not dig(volume, "hostPath", "path"):
            return pod, f"Pod is invalid: spec.volumes[{index}].hostPath.path: Required value"
    for index, mount in enumerate(dig(spec, "containers", 0, "volumeMounts", default=[]) or []):
        for key in ("name", "mountPath"):
            if not mount.get(key):
                return pod, f"Pod is invalid: spec.containers[0].volumeMounts[{index}].{key}: Required value"
    return pod, ""


def arguments_of(pod: Obj) -> dict[str, str]:
    """The flags of a pod's first container."""
    found: dict[str, str] = {}
    for word in (dig(pod, "spec", "containers", 0, "command", default=[]) or [])[1:]:
        name, _, value = str(word).lstrip("-").partition("=")
        found[name] = value
    return found


def seen_from(pod: Obj, path: str) -> str:
    """The path on the host of what a pod sees at `path`; "" when it sees nothing there."""
    volumes = {item["name"]: item for item in dig(pod, "spec", "volumes", default=[]) or []}
    for mount in dig(pod, "spec", "containers", 0, "volumeMounts", default=[]) or []:
        inside = str(mount["mountPath"]).rstrip("/")
        if path == inside or path.startswith(f"{inside}/"):
            host: Any = dig(volumes.get(mount["name"], {}), "hostPath", "path", default="")
            return str(host).rstrip("/") + path[len(inside) :]
    return ""
