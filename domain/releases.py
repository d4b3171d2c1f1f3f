"""Which Helm releases a cluster needs from us, in order, with the values that its spec gives them.

Every value was checked by hand against its chart at the very version: docs/reference/charts.md says where and when.
"""

from enum import StrEnum
from typing import Any

from domain.clusters import ClusterSpec, Cni, Distribution
from domain.frozen import Frozen
from domain.rules.network import effective_cni

API_PORT = 6443
CLOUD_CONTROLLER_SECRET = "proxmox-cloud-controller-manager"  # noqa: S105 - the Secret's name
CLOUD_CONTROLLER_KEY = "config.yaml"
"""Where in the Secret the cloud controller's configuration lies."""


class Part(StrEnum):
    """What a release is for; one step of the plan brings about all releases of one part."""

    POD_NETWORK = "pod-network"
    CLOUD_CONTROLLER = "cloud-controller"


class Chart(Frozen):
    """A chart at the version that this release of ours was made for.

    `repository` is the chart's own: `https://` for an index with archives, `oci://` for a registry, without the name.
    """

    name: str
    version: str
    repository: str

    @property
    def label(self) -> str:
        return f"{self.name} {self.version}"


class Release(Frozen):
    """One release as a cluster is to have it.

    `daemons` are the DaemonSets, by name, whose pods must be ready on every node before the part works. `definitions`
    marks a chart of nothing but CustomResourceDefinitions: its objects are applied one by one and never taken away,
    which is how its authors want it installed.
    """

    name: str
    namespace: str
    chart: Chart
    part: Part
    values: dict[str, Any]
    daemons: tuple[str, ...] = ()
    definitions: bool = False


CILIUM = Chart(name="cilium", version="1.19.6", repository="https://helm.cilium.io")
CALICO_DEFINITIONS = Chart(
    name="crd.projectcalico.org.v1", version="v3.32.1", repository="https://docs.tigera.io/calico/charts"
)
"""From 3.32 on the operator's chart brings no definitions, and fails without them."""
CALICO = Chart(name="tigera-operator", version="v3.32.1", repository="https://docs.tigera.io/calico/charts")
CLOUD_CONTROLLER = Chart(
    name="proxmox-cloud-controller-manager", version="0.2.28", repository="oci://ghcr.io/sergelogvinov/charts"
)
CHARTS = (CALICO, CALICO_DEFINITIONS, CILIUM, CLOUD_CONTROLLER)
"""Every chart that we may need, by name: what `trilithon chart pull NAME` knows."""


def chart_named(name: str) -> Chart | None:
    """The pinned chart of that name."""
    return next((chart for chart in CHARTS if chart.name == name), None)


def releases(spec: ClusterSpec) -> tuple[Release, ...]:
    """Everything that the cluster needs from us, in the order in which it is brought about."""
    return (*pod_network(spec), cloud_controller())


def releases_of(spec: ClusterSpec, part: Part) -> tuple[Release, ...]:
    """The releases of one part."""
    return tuple(release for release in releases(spec) if release.part is part)


def charts_of(spec: ClusterSpec) -> tuple[Chart, ...]:
    """The charts that must be at hand before the cluster is begun."""
    return tuple(release.chart for release in releases(spec))


def pod_network(spec: ClusterSpec) -> tuple[Release, ...]:
    """The pod network, where the distribution does not bring the chosen one: kubeadm never, k3s only flannel."""
    if spec.distribution is Distribution.RKE2:
        return ()
    match effective_cni(spec):
        case Cni.CILIUM:
            return (_cilium(spec),)
        case Cni.CALICO:
            return _calico(spec)
        case _:
            return ()


def cloud_controller() -> Release:
    """The Proxmox VE cloud controller manager: nodes get their provider id, region, zone and addresses from it.

    A DaemonSet on the host network runs before any pod network does. The control-plane label has different values in
    the distributions, so the affinity asks for its existence. The Secret is made by us beforehand. It asks the
    API server beside it: one that starts before kube-proxy has routed the Service's address waits 30 s for its first
    connection, and the virtual IP would be one thing more that can fail.
    """
    servers = [{"matchExpressions": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}]}]
    return Release(
        name=CLOUD_CONTROLLER.name,
        namespace="kube-system",
        chart=CLOUD_CONTROLLER,
        part=Part.CLOUD_CONTROLLER,
        values={
            "useDaemonSet": True,
            "existingConfigSecret": CLOUD_CONTROLLER_SECRET,
            "existingConfigSecretKey": CLOUD_CONTROLLER_KEY,
            "enabledControllers": ["cloud-node", "cloud-node-lifecycle"],
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": servers}}
            },
            "tolerations": [{"operator": "Exists"}],
            "extraEnvs": [
                {"name": "KUBERNETES_SERVICE_HOST", "value": "127.0.0.1"},
                {"name": "KUBERNETES_SERVICE_PORT", "value": str(API_PORT)},
            ],
        },
        daemons=(CLOUD_CONTROLLER.name,),
    )


def _cilium(spec: ClusterSpec) -> Release:
    return Release(
        name="cilium",
        namespace="kube-system",
        chart=CILIUM,
        part=Part.POD_NETWORK,
        values={
            "kubeProxyReplacement": spec.kube_proxy_replacement,
            # The API's service address is routed by Cilium itself once kube-proxy is away; the virtual IP always is.
            "k8sServiceHost": spec.endpoint,
            "k8sServicePort": str(API_PORT),
            # Nodes' ranges come from the cluster's own; Cilium's default overlaps nearly every private network.
            "ipam": {"mode": "kubernetes"},
            # Two of them stand on two nodes, so a cluster of one node would have one waiting for ever.
            "operator": {"replicas": 1 if spec.control_planes + spec.workers == 1 else 2},
            # As the defaults are today; said, because a default that changes would cut every node's traffic.
            "routingMode": "tunnel",
            "tunnelProtocol": "vxlan",
        },
        daemons=("cilium",),
    )


def _calico(spec: ClusterSpec) -> tuple[Release, ...]:
    network: dict[str, Any] = {
        "bgp": "Disabled",
        # The default, 192.168.0.0/16, is many people's own network; pools cannot be changed later.
        "ipPools": [{"cidr": cidr, "encapsulation": "VXLAN"} for cidr in spec.pod_cidrs],
    }
    if spec.distribution is Distribution.K3S:
        network["containerIPForwarding"] = "Enabled"
    definitions = Release(
        name="calico-crds",
        namespace="tigera-operator",
        chart=CALICO_DEFINITIONS,
        part=Part.POD_NETWORK,
        values={},
        definitions=True,
    )
    operator = Release(
        name="calico",
        namespace="tigera-operator",
        chart=CALICO,
        part=Part.POD_NETWORK,
        values={
            "installation": {"cni": {"type": "Calico"}, "calicoNetwork": network},
            # A page with everybody's traffic, and what feeds it: nobody asked for them.
            "goldmane": {"enabled": False},
            "whisker": {"enabled": False},
        },
        daemons=("calico-node",),
    )
    return definitions, operator
