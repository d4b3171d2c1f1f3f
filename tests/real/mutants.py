"""Twelve ways in which a real kubeadm machine, or what lies around it, is not as it should be; and what must be told.

The faults are laid into machines by the laboratory (lab/real/faults.py) or done by hand, as an administrator or a
stranger would: the product knows nothing of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lab.invariants import account_of
from tests.real.running import RealTrilithon

CONFIG = "/etc/trilithon/kubernetes/kubeadm.yaml"
SEED = "/etc/trilithon/kubernetes"
CONTAINERD = "/etc/systemd/system/containerd.service.d/fault.conf"
SQUATTER = "/etc/systemd/system/squatter.service"
EXPIRED = "expird.0123456789abcdef"
"""A join token whose Secret has expired; stands in the cluster when the machine asks."""


@dataclass(frozen=True)
class Mutant:
    """One fault and the words that the job must say.

    `fault`: what the laboratory does to the machines of `pool`. `by_hand`: what is done while the cluster is made.
    `told`: words of the job's error, or of what it waits for when `waits`. `condition`: one that must say so too, as
    (type, reason, words).
    """

    name: str
    told: tuple[str, ...]
    fault: dict[str, Any] = field(default_factory=dict)
    pool: str = "cp"
    by_hand: Callable[[RealTrilithon, str, str], None] | None = None
    waits: bool = False
    condition: tuple[str, str, str] | None = None


def _without_image(image: str) -> dict[str, Any]:
    """An image is taken out of containerd's store whenever it starts; no registry is reachable from here."""
    remove = f"[Service]\nExecStartPost=-/usr/bin/ctr --namespace k8s.io images rm {image}\n"
    return {"files": {CONTAINERD: remove}}


def revoke_token(platform: RealTrilithon, name: str, network: str) -> None:
    """An administrator deletes the cluster's own token as soon as its first machine runs."""
    (vmid,) = platform.look(f"the machine of {name}", 200, lambda: vmids(platform, name))
    platform.look(f"{name} to run", 200, lambda: platform.running().get(vmid, {}).get("on"))
    platform.proxmox("DELETE", f"/access/users/{account_of(platform.cluster(name)['id'])}/token/cluster")


def take_address(platform: RealTrilithon, name: str, network: str) -> None:
    """Somebody's machine already has the first address of the range, and takes SSH."""
    platform.nodes_call("POST", "/strangers", {"address": f"{network}1", "port": 22})


def vmids(platform: RealTrilithon, name: str) -> list[int]:
    """VM ids of a cluster's machines that have one."""
    return [int(row["vmid"]) for row in platform.machines(name) if row["vmid"]]


SINGLE = (
    Mutant(
        "etcd-key",
        ("A file that the machine needs is missing in its boot data", "the boot data lacks pki/etcd/ca.key"),
        {"drop": [f"{SEED}/pki/etcd/ca.key"]},
    ),
    Mutant(
        "version",
        ("template does not fit the version", "the template holds kubelet v1.35.4, wanted is v1.36.3"),
        {"files": {"/usr/bin/kubelet": "#!/bin/sh\necho Kubernetes v1.35.4\n"}},
    ),
    Mutant(
        "port",
        ("Another program on the machine holds a port that Kubernetes needs", "[ERROR Port-6443]: Port 6443 is in use"),
        {
            "files": {
                SQUATTER: "[Service]\nExecStart=/usr/bin/python3 -m http.server 6443\n"
                "[Install]\nWantedBy=multi-user.target\n"
            },
            "links": {"/etc/systemd/system/sysinit.target.wants/squatter.service": SQUATTER},
        },
    ),
    Mutant(
        "containerd",
        ("containerd does not run on the machine", "`journalctl -u containerd`", "containerd does not start"),
        {"files": {CONTAINERD: "[Service]\nExecStartPre=/bin/false\n"}},
    ),
    Mutant(
        "image",
        ("An image cannot be fetched", "[ERROR ImagePull]", "registry.k8s.io/kube-apiserver:v1.36.3"),
        _without_image("registry.k8s.io/kube-apiserver:v1.36.3"),
    ),
    Mutant(
        "virtual-ip",
        ("nobody holds the cluster's virtual IP", "does not answer", "kube-vip says there: ", "Link not found"),
        {"edit": {f"{SEED}/manifests/kube-vip.yaml": [[r"^(\s+value: )\"?eth0\"?$", r"\1ens18"]]}},
    ),
    Mutant(
        "no-cni",
        ("is not Ready", "cni plugin not initialized", "calico-node", "quay.io/calico/node:v3.32.1"),
        _without_image("quay.io/calico/node:v3.32.1"),
        condition=("PodNetworkReady", "Waiting", "quay.io/calico/node:v3.32.1"),
    ),
    Mutant(
        "revoked",
        ("is Ready and not initialised", "Proxmox VE refuses the cluster's own token", "deleted or changed by hand"),
        by_hand=revoke_token,
        condition=("CloudControllerReady", "TokenRefused", "Proxmox VE refuses the cluster's own token"),
    ),
    Mutant(
        "address",
        ("is to be the address of address-cp", "another device takes connections there (port 22)", "powered on"),
        by_hand=take_address,
        waits=True,
    ),
)
"""Clusters of one server each."""

JOINS = (
    Mutant(
        "secret",
        ("The machine's join token is another one than the cluster's", "failed to verify JWS signature"),
        {"edit": {CONFIG: [[r"(token: \"?[a-z0-9]{6}\.)[a-z0-9]{16}", r"\g<1>0123456789abcdef"]]}},
        pool="secret",
    ),
    Mutant(
        "expired",
        ("The cluster does not know the machine's join token", "has expired", "could not find a JWS signature"),
        {"edit": {CONFIG: [[r"token: \"?[a-z0-9]{6}\.[a-z0-9]{16}\"?", f"token: {EXPIRED}"]]}},
        pool="expired",
    ),
    Mutant(
        "authority",
        (
            "The machine does not trust the server it joins: its boot data name another authority",
            "none of the public keys",
        ),
        {"edit": {CONFIG: [[r"sha256:[0-9a-f]{64}", f"sha256:{'0' * 64}"]]}},
        pool="authority",
    ),
)
"""Workers that a sound server does not take in; one cluster has all three."""


def expired_secret() -> dict[str, Any]:
    """The Secret of a join token that was valid until yesteryear."""
    token_id, _, secret = EXPIRED.partition(".")
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"bootstrap-token-{token_id}", "namespace": "kube-system"},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": {
            "token-id": token_id,
            "token-secret": secret,
            "expiration": "2025-01-01T00:00:00Z",
            "usage-bootstrap-authentication": "true",
            "usage-bootstrap-signing": "true",
        },
    }
