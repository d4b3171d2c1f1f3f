"""What k3s and RKE2 have in common: both are a supervisor that reads one configuration file.

Key names and rules: facts/kubernetes.md 2.3 to 2.7 and 2.11.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass

from bootstrap import tokens
from bootstrap.authentication import authentication_configuration
from bootstrap.authorities import Authorities
from bootstrap.boot_input import BootInput, NodeFile
from bootstrap.kube_vip import kube_vip_files, kube_vip_role
from bootstrap.node_system import SYSTEM_FILES
from bootstrap.yaml_text import Quoted, yaml_text
from domain.clusters import ClusterSpec, Cni, Distribution

Settings = dict[str, object]
AUTHENTICATION_FILE = "authentication.yaml"
_OWN_CNI = {Distribution.RKE2: Cni.CANAL, Distribution.K3S: Cni.FLANNEL}


@dataclass(frozen=True)
class Paths:
    """Where a supervisor keeps its things."""

    name: str

    @property
    def config(self) -> str:
        return f"/etc/rancher/{self.name}/config.yaml"

    @property
    def authentication_folder(self) -> str:
        return f"/etc/rancher/{self.name}/auth"

    @property
    def authentication(self) -> str:
        return f"{self.authentication_folder}/{AUTHENTICATION_FILE}"

    @property
    def tls(self) -> str:
        return f"/var/lib/rancher/{self.name}/server/tls"

    @property
    def manifests(self) -> str:
        return f"/var/lib/rancher/{self.name}/server/manifests"

    @property
    def static_pods(self) -> str:
        return f"/var/lib/rancher/{self.name}/agent/pod-manifests"


def node_files(boot: BootInput, paths: Paths, settings: Settings, manifests: Mapping[str, str]) -> tuple[NodeFile, ...]:
    """The files of a k3s or RKE2 machine, apart from its programs.

    Args:
        boot: the machine and its cluster.
        paths: the supervisor's folders.
        settings: content of its configuration file.
        manifests: what the first server applies besides kube-vip's role, by file name.
    """
    files = [NodeFile(paths.config, yaml_text(settings)), *SYSTEM_FILES]
    if boot.machine.is_server:
        files.append(NodeFile(paths.authentication, authentication_configuration(boot.machine.version)))
        files += kube_vip_files(boot.authorities, boot.spec.endpoint, boot.kube_vip_image, paths.static_pods)
    if boot.first_server:
        # Joining servers get the authorities from the first one; files of their own would be fatal (k3s #11014).
        files += _authority_files(boot.authorities, paths.tls)
        files.append(NodeFile(f"{paths.manifests}/trilithon-kube-vip.yaml", kube_vip_role()))
        files += [NodeFile(f"{paths.manifests}/{name}", text) for name, text in manifests.items()]
    return tuple(files)


def common_settings(boot: BootInput, join_port: int, authentication: str) -> Settings:
    """Configuration keys that both supervisors read alike; a worker's configuration is complete with them.

    Args:
        boot: the machine and its cluster.
        join_port: port at the virtual IP where nodes register.
        authentication: path of the AuthenticationConfiguration as the API server sees it.
    """
    machine, spec = boot.machine, boot.spec
    authority = boot.authorities.server.certificate
    settings: Settings = {}
    if not boot.first_server:
        settings["server"] = f"https://{spec.endpoint}:{join_port}"
    if boot.first_server:
        # The server that begins has no other to check, and takes the text as the password itself.
        settings["token"] = Quoted(boot.tokens.server)
    elif machine.is_server:
        settings["token"] = tokens.k10(authority, boot.tokens.server)
    else:
        settings["token"] = tokens.k10(authority, boot.tokens.agent, user="node")
    settings["node-name"] = Quoted(machine.name)
    settings["node-ip"] = machine.address
    settings["kubelet-arg"] = ["cloud-provider=external"]
    if not machine.is_server:
        return settings
    settings["agent-token"] = Quoted(boot.tokens.agent)
    settings["tls-san"] = [spec.endpoint, "kubernetes", machine.address]
    settings["cluster-cidr"] = ",".join(spec.pod_cidrs)
    settings["service-cidr"] = ",".join(spec.service_cidrs)
    settings["cluster-dns"] = ",".join(_dns_address(cidr) for cidr in spec.service_cidrs)
    settings["disable-cloud-controller"] = True
    if spec.kube_proxy_replacement:
        # A key of servers only: agents ask the server, and a change later would need every agent restarted (2.3).
        settings["disable-kube-proxy"] = True
    settings["kube-apiserver-arg"] = [f"authentication-config={authentication}"]
    return settings


def effective_cni(spec: ClusterSpec) -> Cni:
    """The chosen pod network, or the distribution's own."""
    return spec.cni or _OWN_CNI[spec.distribution]


def _dns_address(service_cidr: str) -> str:
    # The tenth address, as the distributions' own default of 10.43.0.10 is in 10.43.0.0/16.
    return str(ipaddress.ip_network(service_cidr)[10])


def _authority_files(authorities: Authorities, folder: str) -> list[NodeFile]:
    pairs = {
        "server-ca": authorities.server,
        "client-ca": authorities.client,
        "request-header-ca": authorities.request_header,
        "etcd/peer-ca": authorities.etcd_peer,
        "etcd/server-ca": authorities.etcd_server,
    }
    files: list[NodeFile] = []
    for name, pair in pairs.items():
        files.append(NodeFile(f"{folder}/{name}.crt", pair.certificate.decode()))
        files.append(NodeFile(f"{folder}/{name}.key", pair.key.decode()))
    files.append(NodeFile(f"{folder}/service.key", authorities.service_key.decode()))
    return files
