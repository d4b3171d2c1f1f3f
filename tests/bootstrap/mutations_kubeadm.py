"""Mutations of kubeadm's configuration, at init and at join.

`VALIDATION` as source says that kubeadm itself refuses the file: `test_kubeadm` lets a real kubeadm say so, and accept
every other row.
"""

from tests.bootstrap.changes import WHOLE, Change, drop, edit, put
from tests.bootstrap.mutation_rows import FIRST, JOINING, KUBEADM, WORKER, Breaks, Mutation

FILE = "kubeadm.yaml"
VALIDATION = "kubernetes cmd/kubeadm/app: `kubeadm config validate`"
CONFIG = "kubernetes docs: kubeadm configuration v1beta4"
DEFAULTS = "kubernetes cmd/kubeadm/app/apis/kubeadm/v1beta4/defaults.go"
DISCOVERY = "kubernetes cmd/kubeadm/app/discovery/token/token.go"
PREFLIGHT = "kubernetes cmd/kubeadm/app/preflight/checks.go"
KUBELET = "kubernetes docs: kubelet"
NOT_OURS = "192.0.2.250"
INIT, CLUSTER, KUBELET_CONFIG = "InitConfiguration/", "ClusterConfiguration/", "KubeletConfiguration/"
AUTH_ARG = "apiServer.extraArgs[authentication-config]"
AUTH_MOUNT = "apiServer.extraVolumes[authentication]"


def row(
    key: str,
    how: str,
    change: Change,
    joins: bool,
    why: str,
    source: str,
    machine: str = FIRST,
    case: str = "",
    breaks: Breaks = Breaks.NOTHING,
) -> Mutation:
    return Mutation(FILE, key, how, change, joins, why, source, machine, KUBEADM, case, breaks=breaks)


def gone(key: str, joins: bool, why: str, source: str = VALIDATION, machine: str = FIRST, case: str = "",
         breaks: Breaks = Breaks.NOTHING) -> Mutation:  # fmt: skip
    return row(key, "dropped", drop(FILE, key), joins, why, source, machine, case, breaks)


def becomes(key: str, value: object, joins: bool, why: str, source: str = VALIDATION, machine: str = FIRST,
            breaks: Breaks = Breaks.NOTHING) -> Mutation:  # fmt: skip
    return row(key, f"= {value!r}", put(FILE, key, value), joins, why, source, machine, "", breaks)


def _node(prefix: str, machine: str) -> tuple[Mutation, ...]:
    """The keys of a node's registration, which init and join have alike."""
    node = f"{prefix}nodeRegistration"
    arguments = f"{node}.kubeletExtraArgs"
    return (
        gone(f"{node}.name", True, "the host's name is the same", CONFIG, machine),
        becomes(f"{node}.name", "someone-else", False, "a node of another name is not the machine's", CONFIG, machine),
        becomes(f"{node}.name", "Prod_CP", False, "no valid name of an object", VALIDATION, machine),
        gone(f"{node}.criSocket", True, "the one socket that is there is found", CONFIG, machine),
        becomes(f"{node}.criSocket", "unix:///run/nobody.sock", False, "nobody answers there", PREFLIGHT, machine),
        gone(f"{node}.taints", True, "a server then comes with the taint, which the platform takes off or leaves",
             CONFIG, machine),
        gone(f"{arguments}[node-ip].name", False, "an argument needs a name", VALIDATION, machine),
        gone(f"{arguments}[node-ip].value", True, "an empty one: the default route's address is taken", KUBELET,
             machine),
        becomes(f"{arguments}[node-ip].value", NOT_OURS, False, "the kubelet wants an address of its host",
                "kubernetes pkg/kubelet/nodestatus: node IP not found", machine),
        gone(f"{arguments}[cloud-provider].name", False, "an argument needs a name", VALIDATION, machine),
        gone(f"{arguments}[cloud-provider].value", True,
             "without the taint the cloud controller never looks at the node", "facts/proxmox.md 3.1", machine,
             breaks=Breaks.CLOUD_CONTROLLER),
        becomes(f"{arguments}[cloud-provider].name", "cloud-supplier", False, "the kubelet ends at an unknown flag",
                KUBELET, machine),
    )  # fmt: skip


INIT_KEYS = (
    row(WHOLE, "dropped", drop(FILE, WHOLE), False, "the script names the missing file", "bootstrap/kubeadm_node.py"),
    gone(f"{INIT}apiVersion", False, "every document says what it is"),
    gone(f"{INIT}kind", False, "every document says what it is"),
    becomes(f"{INIT}apiVersion", "kubeadm.k8s.io/v1beta2", False, "no longer read"),
    gone(f"{INIT}bootstrapTokens[0].ttl", True, "a token for a day, that nobody knows", DEFAULTS),
    becomes(f"{INIT}bootstrapTokens[0].ttl", "soon", False, "no span of time"),
    *_node(INIT, FIRST),
    gone(f"{INIT}localAPIEndpoint.advertiseAddress", True, "the default route's address is taken", CONFIG),
    becomes(f"{INIT}localAPIEndpoint.advertiseAddress", NOT_OURS, False, "etcd cannot listen there", CONFIG),
    becomes(f"{INIT}localAPIEndpoint.advertiseAddress", "nowhere", False, "no address"),
    gone(f"{INIT}localAPIEndpoint.bindPort", True, "6443 is the default", DEFAULTS),
    becomes(f"{INIT}localAPIEndpoint.bindPort", 7443, False, "nobody looks for the API there", CONFIG),
    gone(f"{INIT}timeouts.kubernetesAPICall", True, "a minute is the default", DEFAULTS),
    gone(f"{INIT}skipPhases", True, "proxy.disabled keeps kube-proxy away too", CONFIG, FIRST, "cilium"),
)  # fmt: skip

CLUSTER_KEYS = (
    gone(f"{CLUSTER}apiVersion", False, "every document says what it is"),
    gone(f"{CLUSTER}kind", False, "every document says what it is"),
    gone(f"{CLUSTER}clusterName", True, "`kubernetes` is the default", DEFAULTS),
    gone(f"{CLUSTER}kubernetesVersion", True, "kubeadm's own is taken where upstream cannot be asked", DEFAULTS),
    becomes(f"{CLUSTER}kubernetesVersion", "v1.35.0", False, "the kubelet is newer than the control plane", PREFLIGHT),
    becomes(f"{CLUSTER}kubernetesVersion", "newest", False, "no version"),
    gone(f"{CLUSTER}controlPlaneEndpoint", True, "servers are refused where there is no address for all",
         "kubernetes cmd/kubeadm/app/cmd/phases/join/preflight.go", breaks=Breaks.SERVERS),
    becomes(f"{CLUSTER}controlPlaneEndpoint", "no end:point", False, "no address"),
    gone(f"{CLUSTER}networking.podSubnet", True, "nodes get no range, which Cilium waits for", "facts 5.1", FIRST,
         "cilium", Breaks.POD_NETWORK),
    becomes(f"{CLUSTER}networking.podSubnet", "10.52.0.0", False, "no range"),
    gone(f"{CLUSTER}networking.serviceSubnet", True, "kubeadm's own range, another than the spec's", DEFAULTS),
    becomes(f"{CLUSTER}networking.serviceSubnet", "10.53.0.0", False, "no range"),
    gone(f"{CLUSTER}encryptionAlgorithm", True, "RSA keys: slower, not weaker", DEFAULTS),
    becomes(f"{CLUSTER}encryptionAlgorithm", "DES", False, "no such algorithm"),
    # The cloud controller, which asks 127.0.0.1, is no part of the boot data and installed later.
    gone(f"{CLUSTER}apiServer.certSANs", True,
         "controlPlaneEndpoint is in the certificate anyway; the loopback address, by which the cloud controller asks, "
         "is not", "kubernetes cmd/kubeadm/app/util/pkiutil: GetAPIServerAltNames", breaks=Breaks.CLOUD_CONTROLLER),
    gone(f"{CLUSTER}{AUTH_ARG}.name", False, "an argument needs a name"),
    gone(f"{CLUSTER}{AUTH_ARG}.value", True, "an empty one: no authentication configuration", "facts 2.11",
         breaks=Breaks.AUTHENTICATION),
    becomes(f"{CLUSTER}{AUTH_ARG}.value", "/nowhere/authentication.yaml", False,
            "the file must exist before the first start", "facts 2.11"),
    becomes(f"{CLUSTER}{AUTH_ARG}.name", "authentication", False, "the API server ends at an unknown flag",
            "kubernetes docs: kube-apiserver"),
    *(
        gone(f"{CLUSTER}{AUTH_MOUNT}.{key}", False, "the kubelet refuses the API server's pod",
             "kubernetes docs: Pod API, volumes")
        for key in ("name", "hostPath", "mountPath")
    ),
    becomes(f"{CLUSTER}{AUTH_MOUNT}.mountPath", "/elsewhere", False, "the API server does not see the file",
            "facts 2.11"),
    gone(f"{CLUSTER}{AUTH_MOUNT}.pathType", True, "unchecked, the folder is there", CONFIG),
    gone(f"{CLUSTER}{AUTH_MOUNT}.readOnly", True, "it is only read", CONFIG),
    gone(f"{CLUSTER}proxy.disabled", True, "its phase is skipped; an upgrade would bring it", "kubernetes/kubeadm#3137",
         FIRST, "cilium"),
    gone(f"{KUBELET_CONFIG}apiVersion", False, "every document says what it is"),
    gone(f"{KUBELET_CONFIG}kind", False, "every document says what it is"),
    gone(f"{KUBELET_CONFIG}cgroupDriver", True, "systemd is kubeadm's default",
         "kubernetes docs: configure a cgroup driver"),
)  # fmt: skip

TOKEN = "discovery.bootstrapToken"


def another_secret(token: str) -> str:
    """The same token with another secret half."""
    return token[:7] + ("0" * 16 if not token.endswith("0" * 16) else "1" * 16)


def another_token(token: str) -> str:
    """A token that no Secret makes valid."""
    return "zzzzzz" + token[6:]


def _join(machine: str) -> tuple[Mutation, ...]:
    return (
        gone("apiVersion", False, "every document says what it is", VALIDATION, machine),
        gone("kind", False, "every document says what it is", VALIDATION, machine),
        gone(f"{TOKEN}.token", False, "a token is required to join", VALIDATION, machine),
        becomes(f"{TOKEN}.token", "secret", False, "no bootstrap token", VALIDATION, machine),
        row(f"{TOKEN}.token", "another secret", edit(FILE, f"{TOKEN}.token", another_secret), False,
            "the cluster's signature is by another secret", DISCOVERY, machine),
        row(f"{TOKEN}.token", "another token", edit(FILE, f"{TOKEN}.token", another_token), False,
            "the cluster signs nothing for it: it asks for an hour, then anew", DISCOVERY, machine),
        gone(f"{TOKEN}.apiServerEndpoint", False, "somebody must be asked", VALIDATION, machine),
        becomes(f"{TOKEN}.apiServerEndpoint", "192.0.2.254:6443", False, "nobody is there: it asks on and on",
                DISCOVERY, machine),
        gone(f"{TOKEN}.caCertHashes", False, "an unchecked cluster must be asked for in so many words", VALIDATION,
             machine),
        becomes(f"{TOKEN}.caCertHashes", ["sha256:" + "ab" * 32], False, "foreign authority", DISCOVERY, machine),
        becomes(f"{TOKEN}.caCertHashes", ["md5:abcd"], False, "no known kind of hash", DISCOVERY, machine),
        *_node("", machine),
        gone("timeouts.discovery", True, "five minutes a try, and then anew", DEFAULTS, machine),
    )  # fmt: skip


LOCAL = "controlPlane.localAPIEndpoint"
JOIN_KEYS = (
    *_join(JOINING),
    *_join(WORKER),
    gone(f"{LOCAL}.advertiseAddress", True, "the default route's address is taken", CONFIG, JOINING),
    becomes(f"{LOCAL}.advertiseAddress", NOT_OURS, False, "etcd cannot listen there", CONFIG, JOINING),
    gone(f"{LOCAL}.bindPort", True, "6443 is the default", DEFAULTS, JOINING),
    row("controlPlane.localAPIEndpoint.bindPort", "a word", put(FILE, f"{LOCAL}.bindPort", "six"), False, "no number",
        VALIDATION, JOINING),
)  # fmt: skip

ROWS = (*INIT_KEYS, *CLUSTER_KEYS, *JOIN_KEYS)
