"""Mutations of the other files: authorities, authentication, install script and units, system, pod network."""

from bootstrap import BootData
from domain.clusters import Distribution
from tests.bootstrap.changes import WHOLE, Change, add_file, both, drop, edit, paths, put
from tests.bootstrap.examples import example_authorities
from tests.bootstrap.mutation_rows import BOTH, FIRST, JOINING, K3S, RKE2, WORKER, Breaks, Mutation

CUSTOM_CA = "facts 2.4; k3s docs: cli/certificate (custom CA)"
DEPS = "k3s pkg/daemons/control/deps"
AUTH = "authentication.yaml"
ENV, INSTALL = "artifacts.env", "trilithon-install.service"
OURS = "bootstrap/install.py"
SYSTEMD = "systemd.service(5), systemd.unit(5)"
FOREIGN = example_authorities(Distribution.K3S, "foreign")


def row(
    file: str,
    key: str,
    how: str,
    change: Change,
    joins: bool,
    why: str,
    source: str,
    machine: str = FIRST,
    distributions: tuple[Distribution, ...] = BOTH,
    case: str = "",
    in_template: bool = True,
    breaks: Breaks = Breaks.NOTHING,
) -> Mutation:
    return Mutation(file, key, how, change, joins, why, source, machine, distributions, case, in_template, breaks)


def tls_folder(data: BootData) -> str:
    """The server's folder of authorities, whatever the distribution."""
    name = "rke2" if any("/rke2/" in path for path in paths(data)) else "k3s"
    return f"/var/lib/rancher/{name}/server/tls"


def foreign_files_on_a_joiner(data: BootData) -> BootData:
    """A server that comes with authorities of its own."""
    folder = tls_folder(data)
    return both(
        add_file(f"{folder}/server-ca.crt", FOREIGN.server.certificate.decode()),
        add_file(f"{folder}/server-ca.key", FOREIGN.server.key.decode()),
    )(data)


def _authority(name: str, foreign_joins: bool, mismatch_joins: bool, why: str, breaks: Breaks) -> list[Mutation]:
    certificate, key = f"tls/{name}.crt", f"tls/{name}.key"
    pair = {
        "server-ca": FOREIGN.server,
        "client-ca": FOREIGN.client,
        "request-header-ca": FOREIGN.request_header,
        "etcd/peer-ca": FOREIGN.etcd_peer,
        "etcd/server-ca": FOREIGN.etcd_server,
    }[name]
    foreign = both(put(certificate, WHOLE, pair.certificate.decode()), put(key, WHOLE, pair.key.decode()))
    kept = Breaks.NOTHING
    return [
        row(certificate, WHOLE, "foreign authority", foreign, foreign_joins, why, CUSTOM_CA, breaks=kept),
        row(key, WHOLE, "foreign key", put(key, WHOLE, pair.key.decode()), mismatch_joins,
            "what the key signs does not verify with the certificate", DEPS,
            breaks=breaks if mismatch_joins else kept),
        row(certificate, WHOLE, "pair dropped", both(drop(certificate, WHOLE), drop(key, WHOLE)), foreign_joins,
            "a missing pair is made new: " + why, CUSTOM_CA, breaks=kept),
    ]  # fmt: skip


AUTHORITIES = (
    *_authority("server-ca", False, False, "our client does not trust the server", Breaks.NOTHING),
    *_authority("client-ca", False, False, "the server does not know our client", Breaks.NOTHING),
    *_authority("request-header-ca", True, True, "the cluster uses it by itself alone", Breaks.AGGREGATION),
    *_authority("etcd/peer-ca", True, True, "servers get it from the first one", Breaks.SERVERS),
    *_authority("etcd/server-ca", True, False, "the cluster uses it by itself alone", Breaks.NOTHING),
    row("tls/service.key", WHOLE, "dropped", drop("tls/service.key", WHOLE), True,
        "a missing key is made new", CUSTOM_CA),
    row("tls/service.key", WHOLE, "no key", put("tls/service.key", WHOLE, "nothing\n"), False,
        "the API server cannot read its signing key", "kubernetes docs: kube-apiserver"),
    row("tls/server-ca.crt", WHOLE, "CA files on a joining server", foreign_files_on_a_joiner, False,
        "files that differ from the cluster's are fatal", "k3s-io/k3s#11014, #3015", JOINING),
)  # fmt: skip

AUTHENTICATION = (
    row(AUTH, WHOLE, "dropped", drop(AUTH, WHOLE), False, "the file must exist before the first start", "facts 2.11"),
    row(AUTH, WHOLE, "dropped", drop(AUTH, WHOLE), False, "each server needs it", "facts 2.11", JOINING),
    row(AUTH, "apiVersion", "dropped", drop(AUTH, "apiVersion"), False, "cannot be decoded", "facts 4.1"),
    row(AUTH, "apiVersion", "another", put(AUTH, "apiVersion", "apiserver.config.k8s.io/v2"), False,
        "no such version", "facts 4.1"),
    row(AUTH, "apiVersion", "v1beta1", put(AUTH, "apiVersion", "apiserver.config.k8s.io/v1beta1"), True,
        "still accepted", "facts 4.1"),
    row(AUTH, "kind", "dropped", drop(AUTH, "kind"), False, "cannot be decoded", "facts 4.1"),
    row(AUTH, "jwt", "dropped", drop(AUTH, "jwt"), True, "no provider is allowed", "facts 0 (3)"),
    row(AUTH, "jwt", "http issuer",
        put(AUTH, "jwt", [{"issuer": {"url": "http://id.example.org", "audiences": ["x"]},
                           "claimMappings": {"username": {"claim": "sub", "prefix": "x:"}}}]), False,
        "an issuer must be https", "facts 4.3"),
)  # fmt: skip

PROGRAMS = (
    row(ENV, WHOLE, "dropped", drop(ENV, WHOLE), False, "the script ends at once, every time", OURS, WORKER),
    row(ENV, "DISTRIBUTION", "dropped", drop(ENV, "DISTRIBUTION"), False, "an unset name ends the script", OURS,
        WORKER),
    row(ENV, "VERSION", "another", put(ENV, "VERSION", "'v1.0.0'"), False,
        "neither the template nor the address has it", OURS, WORKER),
    row(ENV, "URL", "nobody", put(ENV, "URL", "'http://127.0.0.1:9/none'"), True,
        "the template has the programs", OURS, WORKER),
    row(ENV, "URL", "nobody", put(ENV, "URL", "'http://127.0.0.1:9/none'"), False,
        "the programs cannot be fetched; it tries for ever", OURS, WORKER, in_template=False),
    row(ENV, "SHA256_FILE", "another", put(ENV, "SHA256_FILE", "'none'"), False,
        "without a checksum nothing is run", OURS, WORKER, in_template=False),
    row(ENV, "UNIT", "another", put(ENV, "UNIT", "'none.service'"), False, "there is no such unit", OURS, WORKER),
    row(ENV, "IN_TEMPLATE", "altered", edit(ENV, "IN_TEMPLATE", lambda old: "'perhaps'"), True,
        "only a line of the log", OURS, WORKER),
    row("install-k3s.sh", WHOLE, "dropped", drop("install-k3s.sh", WHOLE), False, "nothing to run", OURS, WORKER, K3S),
    row("install-rke2.sh", WHOLE, "dropped", drop("install-rke2.sh", WHOLE), False, "nothing to run", OURS, WORKER,
        RKE2),
)  # fmt: skip


def _unit(file: str, key: str, joins: bool, why: str, distributions: tuple[Distribution, ...] = BOTH,
          machine: str = WORKER, breaks: Breaks = Breaks.NOTHING) -> Mutation:  # fmt: skip
    return row(file, key, "dropped", drop(file, key), joins, why, SYSTEMD, machine, distributions, breaks=breaks)


INSTALL_UNIT = (
    row(INSTALL, WHOLE, "dropped", drop(INSTALL, WHOLE), False, "no unit to start", SYSTEMD, WORKER),
    _unit(INSTALL, "Unit.Description", True, "words for people"),
    _unit(INSTALL, "Unit.Wants", True, "cloud-init starts it when the network is up"),
    _unit(INSTALL, "Unit.After", True, "cloud-init starts it when the network is up"),
    _unit(INSTALL, "Unit.ConditionPathExists", True, "running it again is harmless"),
    _unit(INSTALL, "Unit.StartLimitIntervalSec", True, "with ten seconds between tries no limit is met"),
    _unit(INSTALL, "Service.Type", True, "a simple unit runs the script too"),
    _unit(INSTALL, "Service.ExecStart", False, "a unit without a program is refused"),
    _unit(INSTALL, "Service.Restart", True, "it succeeds at the first try"),
    _unit(INSTALL, "Service.RestartSec", True, "it succeeds at the first try"),
    _unit(INSTALL, "Install.WantedBy", True, "started now; not at the next boot", breaks=Breaks.REBOOT),
)


def _k3s_unit(file: str, machine: str) -> tuple[Mutation, ...]:
    def unit(key: str, joins: bool, why: str, breaks: Breaks = Breaks.NOTHING) -> Mutation:
        return _unit(file, key, joins, why, K3S, machine, breaks)

    return (
        row(file, WHOLE, "dropped", drop(file, WHOLE), False, "no unit to start", SYSTEMD, machine, K3S),
        unit("Unit.Description", True, "words for people"),
        unit("Unit.Wants", True, "the network is up by then"),
        unit("Unit.After", True, "the network is up by then"),
        unit("Service.Type", True, "nobody waits for its word"),
        unit("Service.ExecStartPre", True, "k3s loads the modules itself"),
        unit("Service.ExecStart", False, "a unit without a program is refused"),
        unit("Service.KillMode", True, "pods end with the service, nothing more"),
        unit("Service.Delegate", True, "containerd makes its groups nevertheless"),
        unit("Service.LimitNOFILE", True, "systemd's own limit is enough to start"),
        unit("Service.LimitNPROC", True, "systemd's own limit is enough to start"),
        unit("Service.LimitCORE", True, "only for dumps"),
        unit("Service.TasksMax", True, "systemd's own limit is enough to start"),
        unit("Service.TimeoutStartSec", True, "a good start takes less than 90 s"),
        unit("Service.Restart", True, "nothing fails in a good start"),
        unit("Service.RestartSec", True, "only the pause between tries"),
        unit("Install.WantedBy", True, "started now; not at the next boot", Breaks.REBOOT),
    )


UNITS = (
    *INSTALL_UNIT,
    *_k3s_unit("k3s.service", FIRST),
    *_k3s_unit("k3s-agent.service", WORKER),
    row("k3s-agent.service", "Service.ExecStart", "server", put(
        "k3s-agent.service", "Service.ExecStart", "/usr/local/bin/k3s server"), False,
        "the agents' token does not admit servers", "k3s docs: cli/token", WORKER, K3S),
)  # fmt: skip

SYSCTL, NETWORK_MANAGER = "90-trilithon.conf", "90-trilithon-pods.conf"
SYSTEM = (
    row(SYSCTL, "fs.inotify.max_user_instances", "dropped", drop(SYSCTL, "fs.inotify.max_user_instances"), True,
        "enough for a node with few pods", "facts 2.10", WORKER),
    row(SYSCTL, "fs.inotify.max_user_watches", "dropped", drop(SYSCTL, "fs.inotify.max_user_watches"), True,
        "enough for a node with few pods", "facts 2.10", WORKER),
    row(NETWORK_MANAGER, "keyfile.unmanaged-devices", "dropped",
        drop(NETWORK_MANAGER, "keyfile.unmanaged-devices"), True, "matters only where NetworkManager runs",
        "facts 2.7", WORKER),
)  # fmt: skip

HELM = "RKE2 docs: Helm integration; k3s docs: helm"


def _chart_config(cni: str, case: str) -> tuple[Mutation, ...]:
    file = f"rke2-{cni}-config.yaml"

    def key(name: str, joins_fully: bool, why: str) -> Mutation:
        breaks = Breaks.NOTHING if joins_fully else Breaks.POD_NETWORK
        return row(file, name, "dropped", drop(file, name), True, why, HELM, FIRST, RKE2, case, breaks=breaks)

    # Cilium stands in for kube-proxy there, and finds the API by our values alone.
    own_values_do = cni != "cilium"
    return (
        key("apiVersion", own_values_do, "not applied, so the chart's own values count"),
        key("kind", own_values_do, "not applied, so the chart's own values count"),
        key("metadata.name", own_values_do, "not applied, so the chart's own values count"),
        key("metadata.namespace", own_values_do, "applied elsewhere, so the chart's own values count"),
        key("spec.failurePolicy", True, "matters when an upgrade of the chart fails: rancher/rancher#50921"),
    )


POD_NETWORK = (
    *_chart_config("canal", ""),
    *_chart_config("cilium", "cilium"),
    row("rke2-cilium-config.yaml", "spec.valuesContent", "dropped",
        drop("rke2-cilium-config.yaml", "spec.valuesContent"), True,
        "without kube-proxy Cilium never reaches the API", "facts 2.7", FIRST, RKE2, "cilium",
        breaks=Breaks.POD_NETWORK),
    *_chart_config("calico", "calico"),
)  # fmt: skip

ROWS = (*AUTHORITIES, *AUTHENTICATION, *PROGRAMS, *UNITS, *SYSTEM, *POD_NETWORK)
