"""Mutations of the supervisor's `config.yaml`."""

import re

from bootstrap import BootData
from domain.clusters import Distribution
from tests.bootstrap.changes import Change, add_key, both, drop, edit, put, value_of
from tests.bootstrap.mutation_rows import BOTH, FIRST, JOINING, K3S, RKE2, WORKER, Breaks, Mutation

FILE = "config.yaml"
TOKEN_DOCS = "k3s docs: cli/token"
SERVER_FLAGS = "k3s docs: cli/server"
CRITICAL = "facts 2.3; k3s-io/k3s#4579, #12745: critical configuration value mismatch"
CLUSTER_START = "k3s pkg/cluster/bootstrap.go: no server URL = initialising"
OTHER_RANGE = "10.99.0.0/16"


def row(
    key: str,
    how: str,
    change: Change,
    joins: bool,
    why: str,
    source: str,
    machine: str = FIRST,
    distributions: tuple[Distribution, ...] = BOTH,
    case: str = "",
    breaks: Breaks = Breaks.NOTHING,
) -> Mutation:
    return Mutation(FILE, key, how, change, joins, why, source, machine, distributions, case, breaks=breaks)


def other_password(token: str) -> str:
    """The same token with another password."""
    return token[:-8] + ("0" * 8 if token[-8:] != "0" * 8 else "1" * 8)


def other_hash(token: str) -> str:
    """The same token with the hash of another authority."""
    return re.sub(r"^K10[0-9a-f]{64}", "K10" + "ab" * 32, token)


def agent_token_as_server(data: BootData) -> BootData:
    """A server that comes with the workers' token."""
    old = value_of(data, FILE, "token")
    agent = value_of(data, FILE, "agent-token")
    return put(FILE, "token", old.split("::")[0] + "::node:" + agent)(data)


def not_the_hosts(address: str) -> str:
    """Another address of the same network."""
    return address.rsplit(".", 1)[0] + ".250"


def to_api_port(url: str) -> str:
    return url.rsplit(":", 1)[0] + ":6443"


JOIN = (
    row("token", "dropped", drop(FILE, "token"), True,
        "the first server draws a token of its own; workers come with theirs", TOKEN_DOCS, breaks=Breaks.SERVERS),
    row("token", "other password", edit(FILE, "token", other_password), True,
        "the first server's word is law; those who come with the old one are refused", TOKEN_DOCS,
        breaks=Breaks.SERVERS),
    row("token", "dropped", drop(FILE, "token"), False, "a token is required to join", CLUSTER_START, JOINING),
    row("token", "other password", edit(FILE, "token", other_password), False,
        "wrong token: the server refuses it", TOKEN_DOCS, JOINING),
    row("token", "other hash", edit(FILE, "token", other_hash), False,
        "foreign authority: the hash is of another certificate than /cacerts shows", "k3s-io/k3s#3727", JOINING),
    row("token", "the agents' token", agent_token_as_server, False,
        "the agents' token does not admit servers", TOKEN_DOCS, JOINING),
    row("token", "password alone", edit(FILE, "token", lambda old: old.rsplit(":", 1)[1]), True,
        "the short form joins without checking whom (a warning)", TOKEN_DOCS, JOINING),
    row("token", "dropped", drop(FILE, "token"), False, "an agent needs a token", "k3s docs: cli/agent", WORKER),
    row("token", "other password", edit(FILE, "token", other_password), False,
        "wrong token: the server refuses it", TOKEN_DOCS, WORKER),
    row("token", "other hash", edit(FILE, "token", other_hash), False,
        "foreign authority: the hash is of another certificate than /cacerts shows", "rancher/rke2#3214", WORKER),
    row("token", "half a hash", edit(FILE, "token", lambda old: old.replace(old[3:35], "", 1)), False,
        "a hash of another length is no token", "k3s pkg/clientaccess/token.go: invalid token CA hash length", WORKER),
    row("server", "dropped", drop(FILE, "server"), False,
        "two initialisers: it starts a cluster of its own", CLUSTER_START, JOINING),
    row("server", "dropped, cluster-init added", both(drop(FILE, "server"), add_key(FILE, "cluster-init", True)),
        False, "two initialisers: it starts an etcd of its own", CLUSTER_START, JOINING, K3S),
    row("server", "dropped", drop(FILE, "server"), False,
        "an agent must be told its server", "k3s docs: cli/agent", WORKER),
    row("server", "http", edit(FILE, "server", lambda old: old.replace("https:", "http:")), False,
        "only https is spoken", "k3s pkg/clientaccess/token.go: only https:// URLs", WORKER),
    row("server", "API port", edit(FILE, "server", to_api_port), False,
        "nodes register at the supervisor's port 9345", "facts 2.6; RKE2 docs: networking requirements", WORKER, RKE2),
    row("server", "an address where nobody is",
        edit(FILE, "server", lambda old: re.sub(r"//[^:]+", "//192.0.2.254", old)), False,
        "it asks for ever", "k3s docs: cli/agent", JOINING),
    row("server", "added", lambda data: add_key(FILE, "server", "https://192.0.2.254:6443")(data), False,
        "joining before the first server: nobody has begun, it waits for ever", CLUSTER_START),
    row("cluster-init", "dropped", drop(FILE, "cluster-init"), True,
        "state goes to SQLite, which no second server can join", "k3s docs: datastore/ha-embedded", FIRST, K3S,
        breaks=Breaks.SERVERS),
    row("cluster-init", "false", put(FILE, "cluster-init", False), True,
        "state goes to SQLite, which no second server can join", "k3s docs: datastore/ha-embedded", FIRST, K3S,
        breaks=Breaks.SERVERS),
    row("cluster-init", "added", add_key(FILE, "cluster-init", True), True,
        "beside a server URL it changes nothing", CLUSTER_START, JOINING, K3S),
    row("agent-token", "dropped", drop(FILE, "agent-token"), True,
        "workers then need the servers' token", TOKEN_DOCS, breaks=Breaks.WORKERS),
    row("agent-token", "altered", edit(FILE, "agent-token", other_password), True,
        "workers come with another one", TOKEN_DOCS, breaks=Breaks.WORKERS),
    row("agent-token", "altered", edit(FILE, "agent-token", other_password), False,
        "must be equal on all servers", "facts 2.3", JOINING),
)  # fmt: skip

NODE = (
    row("node-name", "dropped", drop(FILE, "node-name"), True, "the host's name is the same", SERVER_FLAGS, WORKER),
    row("node-name", "altered", put(FILE, "node-name", "someone-else"), False,
        "a node of another name is not the machine's, and its VM is not found by the cloud controller",
        "facts/proxmox.md 3.1: VM name starts with the node's", WORKER),
    row("node-name", "capital letters", put(FILE, "node-name", "Prod_CP"), False,
        "no valid name of an object", "kubernetes docs: object names", WORKER),
    row("node-ip", "dropped", drop(FILE, "node-ip"), True,
        "the one interface's address is taken", SERVER_FLAGS, WORKER),
    row("node-ip", "not the host's", edit(FILE, "node-ip", not_the_hosts), False,
        "the kubelet wants an address of its host", "kubernetes pkg/kubelet/nodestatus: node IP not found", WORKER),
    row("node-ip", "no address", put(FILE, "node-ip", "not-an-address"), False,
        "refused at start", "k3s docs: cli/agent", WORKER),
    row("kubelet-arg", "dropped", drop(FILE, "kubelet-arg"), True,
        "without the taint the cloud controller never looks at the node", "facts/proxmox.md 3.1", WORKER,
        breaks=Breaks.CLOUD_CONTROLLER),
    row("kubelet-arg", "unknown flag", put(FILE, "kubelet-arg", ["cloud-supplier=external"]), False,
        "the kubelet ends at an unknown flag", "k3s-io/k3s#11781", WORKER),
    row("tls-san", "dropped", drop(FILE, "tls-san"), True,
        "the virtual IP is missing in the certificate, and connections to it are refused by their own side",
        SERVER_FLAGS + " (tls-san-security)", breaks=Breaks.VIRTUAL_IP),
    row("tls-san", "without the virtual IP", edit(FILE, "tls-san", lambda old: old[1:]), True,
        "the virtual IP is missing in the certificate", SERVER_FLAGS + " (tls-san-security)",
        breaks=Breaks.VIRTUAL_IP),
    row("tls-san", "without the name", edit(FILE, "tls-san", lambda old: [old[0], old[2]]), True,
        "`kubernetes` is always in the certificate", "k3s pkg/daemons/control/deps: genServerCerts"),
    row("tls-san", "without the node", edit(FILE, "tls-san", lambda old: old[:2]), True,
        "the node's address is always in the certificate", "k3s-io/k3s#11781 (list of SANs in its log)"),
    row("an-unknown-key", "added", add_key(FILE, "an-unknown-key", "x"), True,
        "a server skips what it does not know, with a warning", "k3s-io/k3s#8266", JOINING),
    row("an-unknown-key", "added", add_key(FILE, "an-unknown-key", "x"), False,
        "a k3s agent refuses a flag it does not define", "k3s-io/k3s#6565", WORKER, K3S),
    row("an-unknown-key", "added", add_key(FILE, "an-unknown-key", "x"), True,
        "an RKE2 agent skips what it does not know, with a warning",
        "rancher/rke2 pkg/cli/cmds/agent.go: registers its flags with the parser", WORKER, RKE2),
    row("disable", "added", add_key(FILE, "disable", ["local-storage"]), False,
        "a key of servers only; a k3s agent does not start with it", "k3s-io/k3s#6565", WORKER, K3S),
)  # fmt: skip

CLUSTER = (
    row("cluster-cidr", "dropped", drop(FILE, "cluster-cidr"), True,
        "the distribution's own range", SERVER_FLAGS, breaks=Breaks.POD_NETWORK),
    row("cluster-cidr", "no range", put(FILE, "cluster-cidr", "10.52.0.0"), False, "refused at start", SERVER_FLAGS),
    row("cluster-cidr", "another", put(FILE, "cluster-cidr", OTHER_RANGE), False,
        "differing cluster-cidr", CRITICAL, JOINING),
    row("service-cidr", "dropped", drop(FILE, "service-cidr"), True,
        "the own range does not hold the given DNS address, so its service cannot be made",
        "vitobotta/hetzner-k3s#351 (the same seen from the other side)", breaks=Breaks.NAMES),
    row("service-cidr", "another", put(FILE, "service-cidr", OTHER_RANGE), False,
        "differing service-cidr", CRITICAL, JOINING),
    row("cluster-dns", "dropped", drop(FILE, "cluster-dns"), True,
        "the tenth address of the service range is the default", SERVER_FLAGS),
    row("cluster-dns", "another", edit(FILE, "cluster-dns", lambda old: old + "1"), False,
        "differing cluster-dns", CRITICAL, JOINING),
    row("disable-cloud-controller", "dropped", drop(FILE, "disable-cloud-controller"), True,
        "the built-in controller initialises the nodes with an id that is not Proxmox's", "facts 2.3; CAPK3s",
        breaks=Breaks.CLOUD_CONTROLLER),
    row("disable-cloud-controller", "dropped", drop(FILE, "disable-cloud-controller"), False,
        "must be equal on all servers", CRITICAL, JOINING),
    row("kube-apiserver-arg", "dropped", drop(FILE, "kube-apiserver-arg"), True,
        "no authentication configuration", "facts 2.11", breaks=Breaks.AUTHENTICATION),
    row("kube-apiserver-arg", "unknown flag", put(FILE, "kube-apiserver-arg", ["authentication=/x"]), False,
        "the API server ends at an unknown flag", "kubernetes docs: kube-apiserver"),
    row("kube-apiserver-arg", "a file that is not there",
        put(FILE, "kube-apiserver-arg", ["authentication-config=/nowhere/authentication.yaml"]), False,
        "the file must exist before the first start", "facts 2.11"),
    row("kube-apiserver-arg", "OIDC flag beside",
        edit(FILE, "kube-apiserver-arg", lambda old: [*old, "oidc-issuer-url=https://id.example.org"]), False,
        "both kinds together end the API server", "facts 4.1"),
    row("disable", "dropped", drop(FILE, "disable"), True,
        "k3s brings a default storage class of its own", "k3s docs: storage", FIRST, K3S, breaks=Breaks.VOLUMES),
    row("disable", "servicelb beside", edit(FILE, "disable", lambda old: [*old, "servicelb"]), False,
        "must be equal on all servers", CRITICAL, JOINING, K3S),
    row("flannel-backend", "dropped", drop(FILE, "flannel-backend"), False,
        "differs from the first server's", "k3s-io/k3s#12745", JOINING, K3S, "cilium"),
    row("flannel-backend", "dropped", drop(FILE, "flannel-backend"), True,
        "two pod networks on one node", "facts 2.7", FIRST, K3S, "cilium", Breaks.POD_NETWORK),
    row("disable-network-policy", "dropped", drop(FILE, "disable-network-policy"), False,
        "differs from the first server's", "k3s-io/k3s#12745", JOINING, K3S, "cilium"),
    row("disable-kube-proxy", "dropped", drop(FILE, "disable-kube-proxy"), False,
        "must be equal on all servers", CRITICAL, JOINING, BOTH, "cilium"),
    row("disable-kube-proxy", "added", add_key(FILE, "disable-kube-proxy", True), False,
        "a key of servers only", "facts 2.3", WORKER, K3S),
    row("kube-apiserver-extra-mount", "dropped", drop(FILE, "kube-apiserver-extra-mount"), False,
        "the API server's pod does not see the file", "rancher/rke2 pkg/podtemplate: ReadFiles", FIRST, RKE2),
    row("kube-apiserver-extra-mount", "no target", put(FILE, "kube-apiserver-extra-mount", ["/etc/rancher/rke2/auth"]),
        False, "logged as not valid and left out", "rancher/rke2 pkg/podtemplate: addExtraMounts", FIRST, RKE2),
    row("cni", "dropped", drop(FILE, "cni"), True, "canal is the default", "RKE2 docs: network options", FIRST, RKE2),
    row("cni", "none", put(FILE, "cni", "none"), True,
        "no pod network: the node is never Ready", "RKE2 docs: network options", FIRST, RKE2,
        breaks=Breaks.POD_NETWORK),
)  # fmt: skip

ROWS = (*JOIN, *NODE, *CLUSTER)
