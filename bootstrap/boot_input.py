"""What is put in (`BootInput`), the files in between (`NodeFile`) and what comes out (`BootData`)."""

from dataclasses import dataclass

from bootstrap.authorities import Authorities
from bootstrap.tokens import Tokens
from domain.clusters import ClusterSpec
from domain.machines import Machine

KUBE_VIP_IMAGE = "ghcr.io/kube-vip/kube-vip:v1.2.3"
"""Pinned; `k8s_config_file` is honoured only from v1.2.2 on (facts/kube-vip.md A1)."""


@dataclass(frozen=True)
class BootInput:
    """Everything that decides a machine's boot data.

    `first_server` is true for the machine that starts the cluster's etcd, and for no other. `artifact_url` is the
    site's own address of the distributions' programs (`<url>/<distribution>/<version>/<file>`), None for upstream's
    releases. `has_programs` says that the template should hold them already; the machine looks itself.
    """

    spec: ClusterSpec
    machine: Machine
    first_server: bool
    authorities: Authorities
    tokens: Tokens
    artifact_url: str | None = None
    has_programs: bool = True
    kube_vip_image: str = KUBE_VIP_IMAGE


@dataclass(frozen=True)
class BootData:
    """The three files of a NoCloud data source."""

    user_data: str
    network_config: str
    meta_data: str


@dataclass(frozen=True)
class NodeFile:
    """One file on the machine. Secrets are 0600, which is the default."""

    path: str
    content: str
    mode: int = 0o600


class UnsupportedDistribution(Exception):
    """No module of `bootstrap.distributions` renders this distribution yet."""
