"""What a row of the table of mutations is (the table: `mutations.py`)."""

from dataclasses import dataclass, field
from enum import StrEnum

from domain.clusters import Distribution
from tests.bootstrap.changes import Change

K3S = (Distribution.K3S,)
RKE2 = (Distribution.RKE2,)
BOTH = (Distribution.K3S, Distribution.RKE2)
KUBEADM = (Distribution.KUBEADM,)

FIRST, JOINING, WORKER = "first-server", "joining-server", "worker"


class Breaks(StrEnum):
    """What does not work although the mutated machine itself joins."""

    NOTHING = ""
    VIRTUAL_IP = "virtual-ip"
    """Nobody holds the virtual IP, or its certificate is refused: further machines cannot join."""
    SERVERS = "servers"
    """Further servers are refused."""
    WORKERS = "workers"
    """Workers are refused."""
    CLOUD_CONTROLLER = "cloud-controller"
    """The node is initialised by nobody or by the wrong controller."""
    POD_NETWORK = "pod-network"
    """The node registers and never becomes Ready, or its pods have other addresses than the spec says."""
    NAMES = "names"
    """Names of services are not resolved."""
    AUTHENTICATION = "authentication"
    """Providers added later are not seen."""
    VOLUMES = "volumes"
    AGGREGATION = "aggregation"
    """Aggregated APIs (metrics) are refused."""
    IMAGES = "images"
    """No image can be fetched, so nothing but what the template holds runs."""
    REBOOT = "reboot"
    """The machine does not come back by itself after a restart."""


@dataclass(frozen=True)
class Mutation:
    """One change of a good cluster's boot data and what a real node makes of it.

    Attributes:
        file: end of the path of the changed file.
        key: the changed key, as `changes.keys` names it.
        how: what is done, in words; with file, key and machine it names the row.
        change: does it.
        joins: the machine's node appears in the cluster that our authorities vouch for.
        why: the reason, for people.
        source: where upstream says so; `facts N.N` = the project's fact sheet of Kubernetes, which cites upstream.
        machine: whose boot data is changed; the cluster is otherwise good and as far as that machine's turn.
        distributions: where the row applies.
        case: pod network of the cluster: empty for the distribution's own, `cilium` (kube-proxy replaced), `calico`.
        in_template: the template holds the distribution's programs.
        breaks: what is broken although the machine joins.
    """

    file: str
    key: str
    how: str
    change: Change = field(repr=False)
    joins: bool
    why: str
    source: str
    machine: str = FIRST
    distributions: tuple[Distribution, ...] = BOTH
    case: str = ""
    in_template: bool = True
    breaks: Breaks = Breaks.NOTHING

    @property
    def name(self) -> str:
        """A test id."""
        where = "/".join(distribution.value for distribution in self.distributions)
        return f"{where} {self.machine} {self.file} {self.key}: {self.how}"
