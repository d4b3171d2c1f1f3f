"""kubeadm: upstream's own way. Programs come with the template; what `kubeadm init` or `join` is told is written here.

Rules and names: facts/kubernetes.md 1 with its corrections, facts/kube-vip.md A1. Configuration is `v1beta4`, which
kubeadm reads strictly: a key that it does not know is an error.
"""

from bootstrap.authentication import authentication_configuration, minor
from bootstrap.authorities import Authorities, public_key, public_key_hash
from bootstrap.boot_input import BootInput, NodeFile
from bootstrap.install import INSTALL_COMMANDS
from bootstrap.kube_vip import API_PORT, kube_vip_files, kube_vip_role
from bootstrap.kubeadm_node import CRI_SOCKET, ROLE_MANIFEST, SEED, Task, node_files
from bootstrap.yaml_text import Quoted, yaml_text, yaml_texts
from domain.clusters import Distribution as DistributionName

API = "kubeadm.k8s.io/v1beta4"
OLDEST_MINOR = 34
"""Older ones speak v1beta4 too, but nothing of ours was ever run with them."""
AUTHENTICATION_FOLDER = "/etc/kubernetes/auth"
AUTHENTICATION = f"{AUTHENTICATION_FOLDER}/authentication.yaml"
Document = dict[str, object]


class Kubeadm:
    """Boot data of kubeadm."""

    name = DistributionName.KUBEADM

    def files(self, boot: BootInput) -> tuple[NodeFile, ...]:
        """See `bootstrap.distributions.Distribution`.

        Raises:
            ValueError: the version is too old, or the cluster's secrets hold no bootstrap token.
        """
        if minor(boot.machine.version) < OLDEST_MINOR:
            raise ValueError(f"{boot.machine.version} is too old for kubeadm clusters; v1.{OLDEST_MINOR} is the oldest")
        if not boot.tokens.bootstrap:
            raise ValueError("the cluster's tokens hold no bootstrap token")
        if boot.first_server:
            task, config = Task.INIT, _init(boot)
        else:
            task, config = Task.JOIN_SERVER if boot.machine.is_server else Task.JOIN_WORKER, _join(boot)
        files = [NodeFile(f"{SEED}/kubeadm.yaml", config)]
        if boot.machine.is_server:
            files += _authority_files(boot.authorities)
            files.append(NodeFile(AUTHENTICATION, authentication_configuration(boot.machine.version)))
            files += kube_vip_files(boot.authorities, boot.spec.endpoint, boot.kube_vip_image, f"{SEED}/manifests")
        if boot.first_server:
            files.append(NodeFile(ROLE_MANIFEST, kube_vip_role(), 0o644))
        return (*files, *node_files(boot.machine, task))

    def commands(self, boot: BootInput) -> tuple[tuple[str, ...], ...]:
        """See `bootstrap.distributions.Distribution`."""
        return INSTALL_COMMANDS


def _init(boot: BootInput) -> str:
    init: Document = {
        "apiVersion": API,
        "kind": "InitConfiguration",
        # An empty list means one for a day. Joining machines have another one, whose Secret comes and goes with them;
        # this one is drawn by kubeadm and is over before it can be read in the log.
        "bootstrapTokens": [{"ttl": "1s"}],
        "nodeRegistration": _node(boot),
        "localAPIEndpoint": _local_endpoint(boot),
        # Up to 1.35.4 and 1.36.0 init itself speaks through the virtual IP, which stands only after some seconds.
        "timeouts": {"kubernetesAPICall": "4m0s"},
    }
    if boot.spec.kube_proxy_replacement:
        init["skipPhases"] = ["addon/kube-proxy"]
    kubelet: Document = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cgroupDriver": "systemd",
    }
    return yaml_texts(init, _cluster(boot), kubelet)


def _cluster(boot: BootInput) -> Document:
    """What all servers share; it lives on in the ConfigMap kubeadm-config, from where joining servers read it."""
    spec = boot.spec
    mount = {
        "name": "authentication",
        "hostPath": AUTHENTICATION_FOLDER,
        "mountPath": AUTHENTICATION_FOLDER,
        # The folder, not the file: a file that is replaced would stay the old one in the pod (facts 2.11).
        "pathType": "DirectoryOrCreate",
        "readOnly": True,
    }
    cluster: Document = {
        "apiVersion": API,
        "kind": "ClusterConfiguration",
        "clusterName": spec.name,
        "kubernetesVersion": boot.machine.version,
        "controlPlaneEndpoint": f"{spec.endpoint}:{API_PORT}",
        "networking": {"podSubnet": ",".join(spec.pod_cidrs), "serviceSubnet": ",".join(spec.service_cidrs)},
        # As our authorities are; the default would draw RSA keys, which take a node seconds.
        "encryptionAlgorithm": "ECDSA-P256",
        "apiServer": {
            # kubeadm adds the machine's own address, and the name `kubernetes` that kube-vip looks for. By 127.0.0.1
            # the cloud controller asks the API server beside it (domain/releases.py).
            "certSANs": [spec.endpoint, "127.0.0.1"],
            "extraArgs": [{"name": "authentication-config", "value": AUTHENTICATION}],
            "extraVolumes": [mount],
        },
    }
    if spec.kube_proxy_replacement:
        # Kept in the cluster, so that an upgrade does not bring kube-proxy back (kubeadm #3137).
        cluster["proxy"] = {"disabled": True}
    return cluster


def _join(boot: BootInput) -> str:
    discovery = {
        "token": Quoted(boot.tokens.bootstrap),
        "apiServerEndpoint": f"{boot.spec.endpoint}:{API_PORT}",
        "caCertHashes": [public_key_hash(boot.authorities.server.certificate)],
    }
    join: Document = {
        "apiVersion": API,
        "kind": "JoinConfiguration",
        "discovery": {"bootstrapToken": discovery},
        "nodeRegistration": _node(boot),
        # Waits by itself for the first server, and needs nobody who powers it on at the right moment.
        "timeouts": {"discovery": "1h0m0s"},
    }
    if boot.machine.is_server:
        join["controlPlane"] = {"localAPIEndpoint": _local_endpoint(boot)}
    return yaml_text(join)


def _node(boot: BootInput) -> Document:
    return {
        "name": Quoted(boot.machine.name),
        "criSocket": CRI_SOCKET,
        # Without the control plane's taint, which the platform sets once there are workers (F-049).
        "taints": [],
        "kubeletExtraArgs": [
            {"name": "node-ip", "value": boot.machine.address},
            {"name": "cloud-provider", "value": "external"},
        ],
    }


def _local_endpoint(boot: BootInput) -> Document:
    return {"advertiseAddress": boot.machine.address, "bindPort": API_PORT}


def _authority_files(authorities: Authorities) -> list[NodeFile]:
    """The eight files that kubeadm wants alike on every server, at init and at join (facts 1.2)."""
    pairs = {
        "ca": authorities.server,
        "front-proxy-ca": authorities.request_header,
        "etcd/ca": authorities.etcd_server,
    }
    folder = f"{SEED}/pki"
    files: list[NodeFile] = []
    for name, pair in pairs.items():
        files.append(NodeFile(f"{folder}/{name}.crt", pair.certificate.decode()))
        files.append(NodeFile(f"{folder}/{name}.key", pair.key.decode()))
    files.append(NodeFile(f"{folder}/sa.pub", public_key(authorities.service_key).decode()))
    files.append(NodeFile(f"{folder}/sa.key", authorities.service_key.decode()))
    return files


DISTRIBUTION = Kubeadm()
