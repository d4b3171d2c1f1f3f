"""RKE2: a tarball with the program and its two units; the control plane runs as static pods."""

from urllib.parse import quote

from bootstrap.boot_input import BootInput, NodeFile
from bootstrap.install import INSTALL_COMMANDS, Programs, install_files
from bootstrap.supervisor import AUTHENTICATION_FILE, Paths, Settings, common_settings, effective_cni, node_files
from bootstrap.yaml_text import yaml_text
from domain.clusters import Cni
from domain.clusters import Distribution as DistributionName

PATHS = Paths("rke2")
JOIN_PORT = 9345
"""The supervisor's port; the API's 6443 does not register nodes (facts 2.6)."""
AUTHENTICATION_MOUNT = "/etc/kubernetes/authentication"
"""Where the API server's pod sees the folder of the AuthenticationConfiguration.

On purpose no path of the host: RKE2 mounts every argument that names a file of the host as that one file (rancher/rke2
pkg/podtemplate), which would cover the folder and hide every later replacement of the file from the API server.
"""


class Rke2:
    """Boot data of RKE2."""

    name = DistributionName.RKE2

    def files(self, boot: BootInput) -> tuple[NodeFile, ...]:
        """See `bootstrap.distributions.Distribution`."""
        programs = Programs(
            distribution="rke2",
            unit="rke2-server.service" if boot.machine.is_server else "rke2-agent.service",
            release_url=f"https://github.com/rancher/rke2/releases/download/{quote(boot.machine.version, safe='')}",
            release_sums="sha256sum-@arch@.txt",
            file="rke2.linux-@arch@.tar.gz",
            place=_PLACE,
        )
        return (
            *node_files(boot, PATHS, self.settings(boot), self.manifests(boot)),
            *install_files(boot, programs),
        )

    def commands(self, boot: BootInput) -> tuple[tuple[str, ...], ...]:
        """See `bootstrap.distributions.Distribution`."""
        return INSTALL_COMMANDS

    def settings(self, boot: BootInput) -> Settings:
        """The content of `/etc/rancher/rke2/config.yaml`."""
        # Embedded etcd is the default; the server without `server:` starts it (facts 2.3).
        settings = common_settings(boot, JOIN_PORT, f"{AUTHENTICATION_MOUNT}/{AUTHENTICATION_FILE}")
        if not boot.machine.is_server:
            return settings
        settings["kube-apiserver-extra-mount"] = [f"{PATHS.authentication_folder}:{AUTHENTICATION_MOUNT}:ro"]
        settings["cni"] = effective_cni(boot.spec).value
        return settings

    def manifests(self, boot: BootInput) -> dict[str, str]:
        """Manifests by file name that the first server applies: how RKE2 installs the pod network it brings."""
        cni = effective_cni(boot.spec)
        spec: dict[str, object] = {
            # The default would uninstall the pod network of a whole cluster when one upgrade fails (facts 2.7).
            "failurePolicy": "abort"
        }
        if cni is Cni.CILIUM and boot.spec.kube_proxy_replacement:
            # Without kube-proxy the service address of the API does not exist yet; every node has it on loopback.
            values = {"kubeProxyReplacement": True, "k8sServiceHost": "localhost", "k8sServicePort": "6443"}
            spec["valuesContent"] = yaml_text(values)
        config = {
            "apiVersion": "helm.cattle.io/v1",
            "kind": "HelmChartConfig",
            "metadata": {"name": f"rke2-{cni.value}", "namespace": "kube-system"},
            "spec": spec,
        }
        return {f"rke2-{cni.value}-config.yaml": yaml_text(config)}


_PLACE = """\
    mkdir -p "$work/unpacked"
    tar -xzf "$fetched" -C "$work/unpacked"
    # The program comes last, so that an interrupted run is seen as unfinished and begins again.
    mv "$work/unpacked/bin/rke2" "$work/program"
    cp -R "$work/unpacked/." "$root/usr/local/"
    cp "$work/program" "$program.new"
    chmod 755 "$program.new"
    mv "$program.new" "$program"
"""

DISTRIBUTION = Rke2()
