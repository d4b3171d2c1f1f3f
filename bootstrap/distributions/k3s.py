"""k3s: one program, `/usr/local/bin/k3s`, whose unit and configuration file we write ourselves."""

from urllib.parse import quote

from bootstrap.boot_input import BootInput, NodeFile
from bootstrap.install import INSTALL_COMMANDS, Programs, install_files
from bootstrap.supervisor import Paths, Settings, common_settings, effective_cni, node_files
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
            *node_files(boot, PATHS, self.settings(boot), {}),
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
            # Another pod network is installed from outside once the API answers (domain.releases).
            settings["flannel-backend"] = "none"
            settings["disable-network-policy"] = True
        return settings


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
