"""Keys of the supervisors' configuration file, and the flags of kube-apiserver that we meet (facts 2.3)."""

import ipaddress
from typing import Any

_AGENT = {
    "config",
    "debug",
    "v",
    "vmodule",
    "log",
    "alsologtostderr",
    "token",
    "token-file",
    "server",
    "data-dir",
    "node-name",
    "with-node-id",
    "node-label",
    "node-taint",
    "image-credential-provider-bin-dir",
    "image-credential-provider-config",
    "selinux",
    "lb-server-port",
    "protect-kernel-defaults",
    "private-registry",
    "disable-default-registry-endpoint",
    "node-ip",
    "node-external-ip",
    "node-internal-dns",
    "node-external-dns",
    "resolv-conf",
    "kubelet-arg",
    "kube-proxy-arg",
    "container-runtime-endpoint",
    "default-runtime",
    "snapshotter",
    "disable-apiserver-lb",
    "bind-address",
    "enable-pprof",
    "nonroot-devices",
    "prefer-bundled-bin",
}
_SERVER = {
    "advertise-address",
    "advertise-port",
    "tls-san",
    "tls-san-security",
    "cluster-cidr",
    "service-cidr",
    "service-node-port-range",
    "cluster-dns",
    "cluster-domain",
    "egress-selector-mode",
    "servicelb-namespace",
    "write-kubeconfig",
    "write-kubeconfig-mode",
    "write-kubeconfig-group",
    "helm-job-image",
    "agent-token",
    "agent-token-file",
    "cluster-init",
    "cluster-reset",
    "cluster-reset-restore-path",
    "kube-apiserver-arg",
    "etcd-arg",
    "kube-controller-manager-arg",
    "kube-scheduler-arg",
    "kube-cloud-controller-manager-arg",
    "datastore-endpoint",
    "datastore-cafile",
    "datastore-certfile",
    "datastore-keyfile",
    "etcd-expose-metrics",
    "etcd-disable-snapshots",
    "etcd-snapshot-name",
    "etcd-snapshot-schedule-cron",
    "etcd-snapshot-retention",
    "etcd-snapshot-dir",
    "etcd-snapshot-compress",
    "etcd-s3",
    "etcd-s3-endpoint",
    "etcd-s3-bucket",
    "etcd-s3-region",
    "etcd-s3-folder",
    "etcd-s3-access-key",
    "etcd-s3-secret-key",
    "disable",
    "disable-scheduler",
    "disable-cloud-controller",
    "disable-kube-proxy",
    "disable-apiserver",
    "disable-controller-manager",
    "disable-etcd",
    "secrets-encryption",
    "embedded-registry",
    "supervisor-metrics",
    "system-default-registry",
    "rotate-certificates",
    "kine-tls",
}
_K3S_SERVER = {
    "https-listen-port",
    "flannel-backend",
    "flannel-ipv6-masq",
    "flannel-external-ip",
    "flannel-iface",
    "flannel-conf",
    "flannel-cni-conf",
    "disable-network-policy",
    "disable-helm-controller",
    "default-local-storage-path",
    "docker",
    "rootless",
    "pause-image",
    "airgap-extra-registry",
    "multi-cluster-cidr",
    "vpn-auth",
    "vpn-auth-file",
}
_K3S_AGENT = {
    "flannel-iface",
    "flannel-conf",
    "flannel-cni-conf",
    "docker",
    "rootless",
    "pause-image",
    "vpn-auth",
    "vpn-auth-file",
    "airgap-extra-registry",
}
_RKE2 = {
    "cloud-provider-name",
    "cloud-provider-config",
    "profile",
    "audit-policy-file",
    "pod-security-admission-config-file",
    "control-plane-resource-requests",
    "control-plane-resource-limits",
    "control-plane-probe-configuration",
    "kube-apiserver-image",
    "kube-apiserver-extra-mount",
    "kube-apiserver-extra-env",
    "etcd-image",
    "etcd-extra-mount",
    "etcd-extra-env",
    "kube-proxy-extra-mount",
    "kube-scheduler-extra-mount",
    "kube-controller-manager-extra-mount",
    "kubelet-path",
    "runtime-image",
    "pause-image",
    "cloud-controller-manager-extra-mount",
    "enable-servicelb",
}
_RKE2_SERVER = {"cni", "ingress-controller"}

_APISERVER = {
    "authentication-config",
    "audit-log-path",
    "audit-policy-file",
    "audit-log-maxage",
    "audit-log-maxbackup",
    "audit-log-maxsize",
    "enable-admission-plugins",
    "disable-admission-plugins",
    "oidc-issuer-url",
    "oidc-client-id",
    "oidc-username-claim",
    "oidc-groups-claim",
    "oidc-ca-file",
    "feature-gates",
    "anonymous-auth",
    "admission-control-config-file",
    "encryption-provider-config",
    "event-ttl",
    "request-timeout",
    "v",
    "max-requests-inflight",
    "max-mutating-requests-inflight",
    "service-account-issuer",
    "tls-min-version",
    "tls-cipher-suites",
    "authorization-config",
    "default-not-ready-toleration-seconds",
    "default-unreachable-toleration-seconds",
    "profiling",
    "watch-cache-sizes",
    "service-node-port-range",
}

CRITICAL = (
    "agent-token",
    "cluster-cidr",
    "service-cidr",
    "cluster-dns",
    "cluster-domain",
    "disable-cloud-controller",
    "disable-kube-proxy",
    "egress-selector-mode",
)
CRITICAL_K3S = (
    "disable-helm-controller",
    "disable-network-policy",
    "embedded-registry",
    "flannel-backend",
    "flannel-external-ip",
    "flannel-ipv6-masq",
    "secrets-encryption",
)
_DEFAULTS: dict[str, Any] = {
    "cluster-cidr": "10.42.0.0/16",
    "service-cidr": "10.43.0.0/16",
    "cluster-domain": "cluster.local",
    "egress-selector-mode": "agent",
    "flannel-backend": "vxlan",
}


def known_keys(distribution: str, role: str) -> set[str]:
    """Every key that `<distribution> <role>` accepts."""
    keys = set(_AGENT)
    if role == "server":
        keys |= _SERVER
    if distribution == "k3s":
        keys |= _K3S_SERVER if role == "server" else _K3S_AGENT
    else:
        keys |= _RKE2 | (_RKE2_SERVER if role == "server" else set())
    return keys


def unknown_apiserver_flag(arguments: list[str]) -> str:
    """The first argument that kube-apiserver does not know, "" when it knows all."""
    for argument in arguments:
        name = argument.lstrip("-").split("=", 1)[0]
        if name not in _APISERVER:
            return name
    return ""


def as_list(value: Any) -> list[str]:
    """A key that may be given once or as a list, comma-separated or not."""
    if value is None:
        return []
    items = value if isinstance(value, list) else [value]
    return [str(item) for item in items]


def split_list(value: Any) -> list[str]:
    """Like `as_list`, with commas taken apart."""
    return [part.strip() for item in as_list(value) for part in item.split(",") if part.strip()]


def truth(value: Any) -> bool:
    return value is True or str(value).lower() in ("true", "1")


def _tenth(ranges: list[str]) -> str:
    """The default of cluster-dns: the tenth address of each service range."""
    return ",".join(str(ipaddress.ip_network(item)[10]) for item in ranges)


def critical(distribution: str, config: dict[str, Any]) -> dict[str, Any]:
    """The values that must be the same on all servers of a cluster, defaults filled in."""
    names = CRITICAL + (CRITICAL_K3S if distribution == "k3s" else ())
    found: dict[str, Any] = {}
    for name in names:
        value = config.get(name, _DEFAULTS.get(name))
        if name in ("cluster-cidr", "service-cidr", "cluster-dns"):
            value = ",".join(split_list(value))
        elif name.startswith(("disable-", "embedded", "secrets", "flannel-ext", "flannel-ipv6")):
            value = truth(value)
        if name == "cluster-dns" and not value:
            value = _tenth(split_list(config.get("service-cidr", _DEFAULTS["service-cidr"])))
        found[name] = "" if value is None else value
    if distribution == "k3s":
        found["disable: servicelb"] = "servicelb" in split_list(config.get("disable"))
    return found
