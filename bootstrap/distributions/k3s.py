"""k3s: one program, `/usr/local/bin/k3s`, whose unit and configuration file we write ourselves."""

from urllib.parse import quote

from bootstrap.boot_input import BootInput, NodeFile
from bootstrap.install import INSTALL_COMMANDS, Programs, install_files
from bootstrap.supervisor import Paths, Settings, common_settings, effective_cni, node_files
from bootstrap.yaml_text import yaml_text
from domain.clusters import Cni
from domain.clusters import Distribution as DistributionName

PATHS = Paths("k3s")
JOIN_PORT = 6443
"""k3s registers nodes on the API's own port (facts 2.6)."""


class K3s:
    """Boot data of k3s."""

    name = DistributionName.K3S

    def files(self, boot: BootInput) -> tuple[NodeFile, ...]:
        """See `bootstrap.distributions.Distribution`."""
        unit = "k3s.service" if boot.machine.is_server else "k3s-agent.service"
        programs = Programs(
            distribution="k3s",
            unit=unit,
            release_url=f"https://github.com/k3s-io/k3s/releases/download/{quote(boot.machine.version, safe='')}",
            release_sums="sha256sum-@arch@.txt",
            file="k3s@-arch@",
            place=_PLACE,
        )
        return (
            *node_files(boot, PATHS, self.settings(boot), self.manifests(boot)),
            NodeFile(f"/etc/systemd/system/{unit}", _unit(boot), 0o644),
            *install_files(boot, programs),
        )

    def commands(self, boot: BootInput) -> tuple[tuple[str, ...], ...]:
        """See `bootstrap.distributions.Distribution`."""
        return INSTALL_COMMANDS

    def settings(self, boot: BootInput) -> Settings:
        """The content of `/etc/rancher/k3s/config.yaml`."""
        settings = common_settings(boot, JOIN_PORT, PATHS.authentication)
        if not boot.machine.is_server:
            return settings
        if boot.first_server:
            # Without it k3s keeps its state in SQLite, and no other server can ever join (facts 2.3).
            settings["cluster-init"] = True
        # The volumes' driver brings the default storage class; two defaults would be refused or drawn by lot.
        settings["disable"] = ["local-storage"]
        if effective_cni(boot.spec) is not Cni.FLANNEL:
            settings["flannel-backend"] = "none"
            settings["disable-network-policy"] = True
        return settings

    def manifests(self, boot: BootInput) -> dict[str, str]:
        """Manifests by file name that the first server applies: the pod network where it is not k3s's own flannel."""
        cni = effective_cni(boot.spec)
        if cni is Cni.CILIUM:
            return {"trilithon-cilium.yaml": _chart("cilium", CILIUM, _cilium_values(boot))}
        if cni is Cni.CALICO:
            return {"trilithon-calico.yaml": _chart("tigera-operator", CALICO, _calico_values(boot))}
        return {}


CILIUM = ("https://helm.cilium.io", "cilium", "1.19.6", "kube-system")
CALICO = ("https://docs.tigera.io/calico/charts", "tigera-operator", "v3.32.1", "tigera-operator")
"""Chart repository, chart, version, namespace: the versions that RKE2 ships at the same time (facts 2.7)."""


def _chart(name: str, source: tuple[str, str, str, str], values: dict[str, object]) -> str:
    repository, chart, version, namespace = source
    return yaml_text(
        {
            "apiVersion": "helm.cattle.io/v1",
            "kind": "HelmChart",
            "metadata": {"name": name, "namespace": "kube-system"},
            "spec": {
                "repo": repository,
                "chart": chart,
                "version": version,
                "targetNamespace": namespace,
                "createNamespace": True,
                # Runs on the host's network and tolerates nodes that are not ready: it makes them ready.
                "bootstrap": True,
                # The default would uninstall the pod network of a whole cluster when one upgrade fails (facts 2.7).
                "failurePolicy": "abort",
                "valuesContent": yaml_text(values),
            },
        }
    )


def _cilium_values(boot: BootInput) -> dict[str, object]:
    return {
        "kubeProxyReplacement": boot.spec.kube_proxy_replacement,
        "k8sServiceHost": boot.spec.endpoint,
        "k8sServicePort": 6443,
        # Cilium's own default range overlaps nearly every private network (facts 5.1).
        "ipam": {"mode": "kubernetes"},
        "operator": {"replicas": 1},
    }


def _calico_values(boot: BootInput) -> dict[str, object]:
    pools = [{"cidr": cidr, "encapsulation": "VXLAN"} for cidr in boot.spec.pod_cidrs]
    return {"installation": {"cni": {"type": "Calico"}, "calicoNetwork": {"bgp": "Disabled", "ipPools": pools}}}


_PLACE = """\
    mkdir -p "$root/usr/local/bin"
    cp "$fetched" "$program.new"
    chmod 755 "$program.new"
    mv "$program.new" "$program"
"""


def _unit(boot: BootInput) -> str:
    kind = "server" if boot.machine.is_server else "agent"
    # Type, KillMode and the limits are what upstream's installer writes: pods outlive a restart of the service.
    return f"""\
[Unit]
Description=k3s {kind}
Wants=network-online.target
After=network-online.target

[Service]
Type=notify
ExecStartPre=-/sbin/modprobe br_netfilter
ExecStartPre=-/sbin/modprobe overlay
ExecStart=/usr/local/bin/k3s {kind}
KillMode=process
Delegate=yes
LimitNOFILE=1048576
LimitNPROC=infinity
LimitCORE=infinity
TasksMax=infinity
TimeoutStartSec=0
Restart=always
RestartSec=5s

[Install]
WantedBy=multi-user.target
"""


DISTRIBUTION = K3s()
