"""kube-vip: the control plane's virtual IP, as a static pod on every server.

It speaks to the API server of its own machine with a client certificate of its own, so it needs neither the virtual
IP nor a service account. The recipe and its numbers were measured: facts/kube-vip.md A1 and A2.
"""

from bootstrap.authorities import Authorities, kubeconfig
from bootstrap.boot_input import NodeFile
from bootstrap.yaml_text import yaml_text, yaml_texts

API_PORT = 6443
INTERFACE = "eth0"
"""The name that the network-config gives to the machine's one NIC."""
KUBECONFIG = "/etc/trilithon/kube-vip.conf"
_MOUNTED = "/etc/kubernetes/kube-vip.conf"
_LEASE = "plndr-cp-lock"
_USER = "kube-vip"

LEASE_SECONDS, RENEW_SECONDS, RETRY_SECONDS = 10, 4, 1
"""Lease > 2 x renew + retry: otherwise two servers hold the address when an API server hangs (A2)."""
ARP_MILLISECONDS = 500
"""How often neighbours are told; what is below 500 is read as 3000 (A1)."""


def kube_vip_files(authorities: Authorities, address: str, image: str, pod_folder: str) -> tuple[NodeFile, ...]:
    """The static pod and its kubeconfig, for every server.

    Args:
        authorities: give the client certificate and the authority to trust.
        address: the virtual IP.
        image: kube-vip's image with its tag.
        pod_folder: the kubelet's folder of static pods.
    """
    return (
        NodeFile(KUBECONFIG, _kubeconfig(authorities)),
        NodeFile(f"{pod_folder}/kube-vip.yaml", _static_pod(address, image)),
    )


def kube_vip_role() -> str:
    """The manifest that lets the certificate's user hold its one lease. Nothing else is needed (A1.2)."""
    role = {"name": _USER, "namespace": "kube-system"}
    group = "coordination.k8s.io"
    return yaml_texts(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": role,
            "rules": [
                {"apiGroups": [group], "resources": ["leases"], "verbs": ["create"]},
                {"apiGroups": [group], "resources": ["leases"], "resourceNames": [_LEASE], "verbs": ["get", "update"]},
            ],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": role,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": _USER},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": _USER}],
        },
    )


def _kubeconfig(authorities: Authorities) -> str:
    # The loopback address is not in every distribution's serving certificate, the name `kubernetes` is (A1.1).
    return kubeconfig(
        f"https://127.0.0.1:{API_PORT}",
        authorities.server.certificate,
        authorities.kube_vip,
        cluster="local",
        user=_USER,
        tls_server_name="kubernetes",
    )


def _static_pod(address: str, image: str) -> str:
    settings = {
        "vip_arp": "true",
        "vip_arpRate": str(ARP_MILLISECONDS),
        "cp_enable": "true",
        "address": address,
        "port": str(API_PORT),
        "vip_interface": INTERFACE,
        "vip_subnet": "32",
        "vip_leaderelection": "true",
        "vip_leaseduration": str(LEASE_SECONDS),
        "vip_renewdeadline": str(RENEW_SECONDS),
        "vip_retryperiod": str(RETRY_SECONDS),
        "k8s_config_file": _MOUNTED,
        "prometheus_server": "127.0.0.1:2112",
    }
    environment: list[dict[str, object]] = [{"name": name, "value": value} for name, value in settings.items()]
    environment.append({"name": "vip_nodename", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}})
    container = {
        "name": "kube-vip",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["manager"],
        "env": environment,
        "securityContext": {
            # Without NET_RAW a failover is not announced, without NET_ADMIN the lease is held for nothing (A1.9).
            "capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN", "NET_RAW"]},
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
        },
        "volumeMounts": [{"name": "conf", "mountPath": _MOUNTED, "readOnly": True}],
    }
    return yaml_text(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "kube-vip", "namespace": "kube-system"},
            "spec": {
                "hostNetwork": True,
                "priorityClassName": "system-node-critical",
                "containers": [container],
                "volumes": [{"name": "conf", "hostPath": {"path": KUBECONFIG, "type": "File"}}],
            },
        }
    )
