"""Mutations of the other files of a kubeadm machine.

What all distributions have alike (cloud-init's files, kube-vip, authentication, the boot unit) is judged as in the
table of k3s and RKE2, but for the few rows that are named here.
"""

from dataclasses import replace

from domain.clusters import Distribution
from tests.bootstrap import mutations_cloud_init, mutations_files, mutations_virtual_ip
from tests.bootstrap.changes import WHOLE, Change, both, drop, edit, put
from tests.bootstrap.examples import example_authorities
from tests.bootstrap.mutation_rows import FIRST, JOINING, KUBEADM, WORKER, Breaks, Mutation

OURS = "bootstrap/kubeadm_node.py"
CERTS = "kubernetes cmd/kubeadm/app/phases/certs"
SYSTEMD = mutations_files.SYSTEMD
ENV = "kubeadm.env"
ROLE_UNIT, ROLE_SCRIPT = "trilithon-kube-vip-role.service", "kube-vip-role.sh"
FOREIGN = example_authorities(Distribution.KUBEADM, "foreign")


def row(
    file: str,
    key: str,
    how: str,
    change: Change,
    joins: bool,
    why: str,
    source: str,
    machine: str = FIRST,
    breaks: Breaks = Breaks.NOTHING,
) -> Mutation:
    return Mutation(file, key, how, change, joins, why, source, machine, KUBEADM, breaks=breaks)


def _foreign(name: str) -> Change:
    pair = {"ca": FOREIGN.server, "front-proxy-ca": FOREIGN.request_header, "etcd/ca": FOREIGN.etcd_server}[name]
    certificate, key = f"pki/{name}.crt", f"pki/{name}.key"
    return both(put(certificate, WHOLE, pair.certificate.decode()), put(key, WHOLE, pair.key.decode()))


def _missing() -> tuple[Mutation, ...]:
    names = [f"{name}.{kind}" for name in ("ca", "front-proxy-ca", "etcd/ca") for kind in ("crt", "key")]
    return tuple(
        row(f"pki/{name}", WHOLE, "dropped", drop(f"pki/{name}", WHOLE), False, "the script names the missing file",
            OURS, machine)
        for name in (*names, "sa.pub", "sa.key")
        for machine in (FIRST, JOINING)
    )  # fmt: skip


AUTHORITIES = (
    *_missing(),
    row("pki/ca.crt", WHOLE, "foreign pair", _foreign("ca"), False, "our client does not trust the server", CERTS),
    row("pki/ca.crt", WHOLE, "foreign pair", _foreign("ca"), False,
        "its own API server shows a certificate that the cluster's authority did not sign", CERTS, JOINING),
    row("pki/ca.key", WHOLE, "foreign key", put("pki/ca.key", WHOLE, FOREIGN.server.key.decode()), False,
        "the key does not belong to the certificate", CERTS),
    row("pki/front-proxy-ca.crt", WHOLE, "foreign pair", _foreign("front-proxy-ca"), True,
        "each API server tells which authority it uses", "kubernetes docs: aggregation layer"),
    row("pki/front-proxy-ca.key", WHOLE, "foreign key",
        put("pki/front-proxy-ca.key", WHOLE, FOREIGN.request_header.key.decode()), False,
        "the key does not belong to the certificate", CERTS),
    row("pki/etcd/ca.crt", WHOLE, "foreign pair", _foreign("etcd/ca"), True,
        "the machine alone agrees with itself; servers come with ours and are refused", CERTS, breaks=Breaks.SERVERS),
    row("pki/etcd/ca.crt", WHOLE, "foreign pair", _foreign("etcd/ca"), False, "etcd refuses its client's certificate",
        CERTS, JOINING),
    row("pki/etcd/ca.key", WHOLE, "foreign key", put("pki/etcd/ca.key", WHOLE, FOREIGN.etcd_server.key.decode()), False,
        "the key does not belong to the certificate", CERTS),
    row("pki/sa.key", WHOLE, "no key", put("pki/sa.key", WHOLE, "nothing\n"), False, "cannot be read", CERTS),
    row("pki/sa.pub", WHOLE, "no key", put("pki/sa.pub", WHOLE, "nothing\n"), False, "cannot be read", CERTS, JOINING),
)  # fmt: skip

PROGRAMS = (
    row(ENV, "VERSION", "dropped", drop(ENV, "VERSION"), False, "an unset name ends the script", OURS, WORKER),
    row(ENV, "VERSION", "another", put(ENV, "VERSION", "'v1.35.0'"), False,
        "the template holds another one, and says which", OURS, WORKER),
    row(ENV, "TASK", "dropped", drop(ENV, "TASK"), False, "an unset name ends the script", OURS, WORKER),
    row(ENV, "TASK", "init", put(ENV, "TASK", "'init'"), False, "the authorities for it are missing", OURS, WORKER),
    row(ENV, "ADDRESS", "dropped", drop(ENV, "ADDRESS"), True, "kube-vip's role is given to nobody", OURS,
        breaks=Breaks.VIRTUAL_IP),
    row(ENV, "ADDRESS", "another", put(ENV, "ADDRESS", "'192.0.2.250'"), True, "kube-vip's role is given to nobody",
        OURS, breaks=Breaks.VIRTUAL_IP),
    row(ENV, WHOLE, "dropped", drop(ENV, WHOLE), False, "the script ends at once, every time", OURS, WORKER),
    row("install-kubeadm.sh", WHOLE, "dropped", drop("install-kubeadm.sh", WHOLE), False, "nothing to run", OURS,
        WORKER),
    row(ROLE_SCRIPT, WHOLE, "dropped", drop(ROLE_SCRIPT, WHOLE), True, "kube-vip's role is given by nobody", OURS,
        breaks=Breaks.VIRTUAL_IP),
    row(ROLE_UNIT, WHOLE, "dropped", drop(ROLE_UNIT, WHOLE), False, "the script does not begin without it", OURS),
    row(ROLE_UNIT, "Service.ExecStart", "dropped", drop(ROLE_UNIT, "Service.ExecStart"), False,
        "a unit without a program is refused, and the script does not begin without it", SYSTEMD),
    *(
        row(ROLE_UNIT, key, "dropped", drop(ROLE_UNIT, key), True, why, SYSTEMD)
        for key, why in (
            ("Unit.Description", "words for people"),
            ("Unit.Wants", "the script starts it when the network is up"),
            ("Unit.After", "the script starts it when the network is up"),
            ("Unit.ConditionPathExists", "giving the role again changes nothing"),
            ("Unit.StartLimitIntervalSec", "with five seconds between tries no limit is met"),
            ("Service.Type", "a simple unit runs the script too"),
            ("Service.Restart", "the script itself tries again"),
            ("Service.RestartSec", "the script itself tries again"),
            ("Install.WantedBy", "started now; at the next boot the boot script starts it anew"),
        )
    ),
)  # fmt: skip

MODULES, SYSCTL = "trilithon-kubernetes.conf", "91-trilithon-kubernetes.conf"
SYSTEM = (
    row(MODULES, WHOLE, "dropped", drop(MODULES, WHOLE), True, "the script loads them now; not at the next boot",
        "modules-load.d(5)", WORKER),
    row(SYSCTL, "net.ipv4.ip_forward", "dropped", drop(SYSCTL, "net.ipv4.ip_forward"), False,
        "kubeadm wants it, and a Debian machine comes without", "kubernetes cmd/kubeadm/app/preflight/checks.go",
        WORKER),
    *(
        row(SYSCTL, f"net.bridge.bridge-nf-call-{tables}", "dropped",
            drop(SYSCTL, f"net.bridge.bridge-nf-call-{tables}"), True,
            "only packets that stay on a bridge are hidden; Cilium and Calico have none",
            "kubernetes docs: container runtimes", WORKER)
        for tables in ("iptables", "ip6tables")
    ),
    *(
        row(file, WHOLE, how, change, joins, why, source, WORKER)
        for file in ("config-1.toml", "config-2.toml")
        for how, change, joins, why, source in (
            ("dropped", drop(file, WHOLE), False, "the script ends where it is chosen", OURS),
            ("no TOML", put(file, WHOLE, "version = \n"), False, "containerd does not start where it is chosen",
             "containerd docs: ops"),
            ("without the sandbox's image", edit(file, WHOLE, lambda text: "".join(
                line for line in text.splitlines(keepends=True) if "@sandbox@" not in line)), True,
             "containerd's own default is fetched", "containerd docs: cri/config"),
        )
    ),
)  # fmt: skip


def _alike(given: Mutation) -> Mutation:
    """A row of k3s and RKE2 as it is for kubeadm."""
    if given.file == mutations_virtual_ip.CONF and given.key.endswith("tls-server-name") and given.how == "dropped":
        return replace(
            given,
            distributions=KUBEADM,
            why="the cloud controller asks by the loopback address too: it is in the certificate",
            source="project's facts/kube-vip.md A1.1",
            breaks=Breaks.NOTHING,
        )
    if given.file == mutations_virtual_ip.POD and given.key == WHOLE:
        why = "the script names the missing file"
        return replace(given, distributions=KUBEADM, joins=False, why=why, source=OURS, breaks=Breaks.NOTHING)
    return replace(given, distributions=KUBEADM)


ALIKE = tuple(
    _alike(row)
    for row in (
        *mutations_virtual_ip.ROWS,
        *mutations_cloud_init.ROWS,
        *mutations_files.AUTHENTICATION,
        *mutations_files.INSTALL_UNIT,
        *mutations_files.SYSTEM,
    )
)

ROWS = (*AUTHORITIES, *PROGRAMS, *SYSTEM, *ALIKE)
