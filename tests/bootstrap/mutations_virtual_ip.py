"""Mutations of kube-vip's files. The first server joins in any case; the question is who holds the virtual IP."""

from domain.clusters import Distribution
from tests.bootstrap.changes import WHOLE, Change, both, drop, edit, put
from tests.bootstrap.mutation_rows import BOTH, FIRST, JOINING, Breaks, Mutation

POD, CONF, ROLE = "kube-vip.yaml", "kube-vip.conf", "trilithon-kube-vip.yaml"
MEASURED = "project's facts/kube-vip.md"
POD_API = "kubernetes docs: Pod API, static pods"
RBAC_API = "kubernetes docs: RBAC"
CONFIG_API = "client-go tools/clientcmd: kubeconfig v1"
FLAGS = "kube-vip docs: flags and environment"
CONTAINER = "spec.containers[kube-vip]"
CLUSTER, USER = "clusters[local].cluster", "users[kube-vip].user"
CONTEXT = "contexts[kube-vip@local]"


def row(
    file: str,
    key: str,
    how: str,
    change: Change,
    holds: bool,
    why: str,
    source: str,
    machine: str = FIRST,
    distributions: tuple[Distribution, ...] = BOTH,
) -> Mutation:
    """A row whose machine joins; `holds`: the virtual IP stands on it and is accepted."""
    breaks = Breaks.NOTHING if holds else Breaks.VIRTUAL_IP
    return Mutation(file, key, how, change, True, why, source, machine, distributions, breaks=breaks)


def env(name: str, value: str, holds: bool, why: str, source: str = FLAGS) -> Mutation:
    key = f"{CONTAINER}.env[{name}]"
    return row(POD, key, f"= {value!r}", put(POD, key, value), holds, why, source)


def env_dropped(name: str, holds: bool, why: str, source: str = FLAGS) -> Mutation:
    key = f"{CONTAINER}.env[{name}]"
    return row(POD, key, "dropped", drop(POD, key), holds, why, source)


def dropped(file: str, key: str, holds: bool, why: str, source: str) -> Mutation:
    return row(file, key, "dropped", drop(file, key), holds, why, source)


def altered(file: str, key: str, value: object, holds: bool, why: str, source: str) -> Mutation:
    return row(file, key, f"= {value!r}", put(file, key, value), holds, why, source)


ENVIRONMENT = (
    env("vip_arp", "false", False, "nothing answers for the address"),
    env("vip_arpRate", "100", True, "below 500 counts as 3000: slower, not broken", f"{MEASURED} A1"),
    env("cp_enable", "false", False, "the control plane's address is not its task"),
    env("address", "192.0.2.251", False, "another address"),
    env_dropped("address", False, "no address"),
    env("port", "6444", True, "only services are told of it", FLAGS),
    env("vip_interface", "eth9", False, "there is no such interface"),
    env_dropped("vip_interface", True, "the default route's interface is taken", f"{MEASURED} A1.10"),
    env_dropped("vip_subnet", True, "a host route is the default", FLAGS),
    env_dropped("vip_leaderelection", False, "with several servers each would hold it", FLAGS),
    env(
        "vip_leaseduration", "3", False, "lease must be longer than renewal", f"{MEASURED} A2; client-go leaderelection"
    ),
    env("vip_renewdeadline", "20", False, "renewal must be shorter than the lease", "client-go leaderelection"),
    env("vip_retryperiod", "9", False, "renewal must be longer than 1.2 retries", "client-go leaderelection"),
    env_dropped("vip_nodename", True, "the host's name is taken", FLAGS),
    env("k8s_config_file", "/nowhere", False, "no kubeconfig, no lease", f"{MEASURED} A1.1"),
    env_dropped("k8s_config_file", False, "there is no service account in a static pod", f"{MEASURED} A1.1"),
    env_dropped("prometheus_server", True, "metrics then listen on every address", f"{MEASURED} A1.10"),
)

POD_KEYS = (
    row(POD, WHOLE, "file dropped", drop(POD, WHOLE), False, "no kube-vip", MEASURED),
    row(POD, WHOLE, "file dropped", drop(POD, WHOLE), True, "another server holds it", MEASURED, JOINING),
    dropped(POD, "apiVersion", False, "the kubelet cannot read the file", POD_API),
    dropped(POD, "kind", False, "the kubelet cannot read the file", POD_API),
    dropped(POD, "metadata.name", False, "a pod needs a name", POD_API),
    dropped(POD, "metadata.namespace", True, "the namespace is then `default`; only its mirror moves", POD_API),
    dropped(POD, "spec.hostNetwork", False, "the address would be the pod's own", MEASURED),
    dropped(POD, "spec.priorityClassName", True, "only eviction order changes", f"{MEASURED} A1.7"),
    dropped(POD, f"{CONTAINER}.name", False, "a container needs a name", POD_API),
    dropped(POD, f"{CONTAINER}.image", False, "a container needs an image", POD_API),
    altered(POD, f"{CONTAINER}.image", "ghcr.io/kube-vip/kube-vip:v1.2.0", False,
            "k8s_config_file is honoured only from v1.2.2 on", f"{MEASURED} A1.1"),
    dropped(POD, f"{CONTAINER}.imagePullPolicy", True, "the same is the default for a tag", POD_API),
    dropped(POD, f"{CONTAINER}.args", False, "without a command it prints its help", FLAGS),
    dropped(POD, f"{CONTAINER}.securityContext.capabilities.drop", True, "only more rights than needed", MEASURED),
    dropped(POD, f"{CONTAINER}.securityContext.capabilities.add", False,
            "no address without NET_ADMIN, though it holds the lease", f"{MEASURED} A1.9"),
    dropped(POD, f"{CONTAINER}.securityContext.readOnlyRootFilesystem", True, "only more rights than needed", MEASURED),
    dropped(POD, f"{CONTAINER}.securityContext.allowPrivilegeEscalation", True, "only more rights", MEASURED),
    dropped(POD, f"{CONTAINER}.volumeMounts[conf].name", False, "a mount needs its volume", POD_API),
    dropped(POD, f"{CONTAINER}.volumeMounts[conf].mountPath", False, "a mount needs a path", POD_API),
    dropped(POD, f"{CONTAINER}.volumeMounts[conf].readOnly", True, "it is only read", POD_API),
    dropped(POD, "spec.volumes[conf].name", False, "a volume needs a name", POD_API),
    altered(POD, "spec.volumes[conf].hostPath.path", "/nowhere.conf", False,
            "the mount waits for a file for ever", f"{MEASURED} A1.8"),
    dropped(POD, "spec.volumes[conf].hostPath.type", True, "unchecked, the file is there", POD_API),
)  # fmt: skip

KUBECONFIG = (
    row(CONF, WHOLE, "file dropped", drop(CONF, WHOLE), False, "the mount waits for ever", f"{MEASURED} A1.8"),
    dropped(CONF, "apiVersion", True, "v1 is assumed", CONFIG_API),
    altered(CONF, "apiVersion", "v2", False, "no such version", CONFIG_API),
    dropped(CONF, "kind", True, "Config is assumed", CONFIG_API),
    dropped(CONF, "clusters[local].name", False, "the context's cluster is not found", CONFIG_API),
    altered(CONF, f"{CLUSTER}.server", "https://127.0.0.1:7443", False, "nobody listens there", f"{MEASURED} A1.1"),
    dropped(CONF, f"{CLUSTER}.certificate-authority-data", False, "the authority is unknown", f"{MEASURED} A1.1"),
    dropped(CONF, f"{CLUSTER}.tls-server-name", True,
            "k3s and RKE2 have the loopback address in the certificate (kubeadm has not)", "k3s-io/k3s#11781 (SANs)"),
    altered(CONF, f"{CLUSTER}.tls-server-name", "kubernetes.example", False,
            "not in the certificate", f"{MEASURED} A1.1"),
    dropped(CONF, "users[kube-vip].name", False, "the context's user is not found", CONFIG_API),
    dropped(CONF, f"{USER}.client-certificate-data", False, "no user: 401 for ever", f"{MEASURED} A1.2"),
    dropped(CONF, f"{USER}.client-key-data", False, "a certificate needs its key", CONFIG_API),
    dropped(CONF, f"{CONTEXT}.name", False, "the current context is not found", CONFIG_API),
    dropped(CONF, f"{CONTEXT}.context.cluster", False, "a context needs a cluster", CONFIG_API),
    dropped(CONF, f"{CONTEXT}.context.user", False, "anonymous: refused", CONFIG_API),
    dropped(CONF, "current-context", False, "no server is known", CONFIG_API),
)  # fmt: skip

_R, _B = "Role", "RoleBinding"
ROLE_KEYS = (
    row(ROLE, WHOLE, "file dropped", drop(ROLE, WHOLE), False,
        "the lease is forbidden for ever, and kube-vip waits for ever", f"{MEASURED} A1.4"),
    *(
        dropped(ROLE, f"{kind}/{key}", False, "refused by the API, so nothing is granted", RBAC_API)
        for kind in (_R, _B)
        for key in ("apiVersion", "kind", "metadata.name")
    ),
    *(
        altered(ROLE, f"{kind}/metadata.namespace", "default", False, "the lease is in kube-system", RBAC_API)
        for kind in (_R, _B)
    ),
    dropped(ROLE, f"{_R}/rules[0].apiGroups", False, "a rule without a group is refused", RBAC_API),
    dropped(ROLE, f"{_R}/rules[0].resources", False, "a rule without a resource is refused", RBAC_API),
    dropped(ROLE, f"{_R}/rules[0].verbs", False, "a rule without a verb is refused", RBAC_API),
    altered(ROLE, f"{_R}/rules[0].verbs", ["get"], False, "the lease cannot be made", f"{MEASURED} A1.2"),
    dropped(ROLE, f"{_R}/rules[1].apiGroups", False, "a rule without a group is refused", RBAC_API),
    dropped(ROLE, f"{_R}/rules[1].resources", False, "a rule without a resource is refused", RBAC_API),
    dropped(ROLE, f"{_R}/rules[1].resourceNames", True, "only more leases than needed", RBAC_API),
    altered(ROLE, f"{_R}/rules[1].resourceNames", ["another"], False, "its own lease is forbidden", f"{MEASURED} A1.4"),
    altered(ROLE, f"{_R}/rules[1].verbs", ["get"], False, "the lease cannot be renewed", f"{MEASURED} A1.2"),
    dropped(ROLE, f"{_B}/roleRef.apiGroup", True, "it has only one group to be: filled in", RBAC_API),
    dropped(ROLE, f"{_B}/roleRef.kind", False, "refused by the API", RBAC_API),
    altered(ROLE, f"{_B}/roleRef.name", "another", False, "a role that is not there grants nothing", RBAC_API),
    dropped(ROLE, f"{_B}/subjects[kube-vip].apiGroup", True, "the group of users is filled in", RBAC_API),
    dropped(ROLE, f"{_B}/subjects[kube-vip].kind", False, "refused by the API", RBAC_API),
    altered(ROLE, f"{_B}/subjects[kube-vip].name", None, False, "a binding to nobody", RBAC_API),
)  # fmt: skip


def another_name(data_key: str) -> Change:
    return edit(CONF, data_key, lambda old: f"{old}-2")


RENAMED = (
    row(CONF, "current-context", "all names changed together",
        both(another_name("current-context"), another_name(f"{CONTEXT}.name")), True,
        "names inside a kubeconfig mean nothing outside", CONFIG_API),
)  # fmt: skip

ROWS = (*ENVIRONMENT, *POD_KEYS, *KUBECONFIG, *ROLE_KEYS, *RENAMED)
