"""Which releases a spec leads to, and that their values are the spec's own."""

from pathlib import Path
from typing import Any

import pytest

from domain.clusters import Cni, Distribution
from domain.releases import CHARTS, Part, chart_named, charts_of, pod_network, releases, releases_of
from tests.domain.builders import spec

KUBEADM = {"distribution": Distribution.KUBEADM, "version": "v1.36.3"}
K3S = {"distribution": Distribution.K3S, "version": "v1.36.5+k3s1"}
PODS = {"pod_cidrs": ("10.60.0.0/16",)}


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({}, []),
        ({"cni": Cni.CALICO}, []),
        ({"cni": Cni.CILIUM}, []),
        (K3S, []),
        (K3S | {"cni": Cni.FLANNEL}, []),
        (K3S | {"cni": Cni.CILIUM}, ["cilium"]),
        (K3S | {"cni": Cni.CALICO}, ["calico-crds", "calico"]),
        (KUBEADM | {"cni": Cni.CILIUM}, ["cilium"]),
        (KUBEADM | {"cni": Cni.CALICO}, ["calico-crds", "calico"]),
    ],
)
def test_the_pod_network_is_ours_where_the_distribution_brings_another(changes, names) -> None:
    wanted = spec(**(PODS | changes))
    assert [one.name for one in pod_network(wanted)] == names
    assert [one.name for one in releases(wanted)] == [*names, "proxmox-cloud-controller-manager"]
    assert [one.name for one in releases_of(wanted, Part.POD_NETWORK)] == names
    assert set(charts_of(wanted)) <= set(CHARTS)


@pytest.mark.parametrize("replaced", [True, False])
def test_cilium_reaches_the_api_by_the_virtual_ip(replaced: bool) -> None:
    (cilium,) = pod_network(spec(**KUBEADM, cni=Cni.CILIUM, kube_proxy_replacement=replaced))
    assert cilium.values["kubeProxyReplacement"] is replaced
    assert (cilium.values["k8sServiceHost"], cilium.values["k8sServicePort"]) == ("192.0.2.50", "6443")
    assert cilium.values["ipam"] == {"mode": "kubernetes"}


@pytest.mark.parametrize(("servers", "workers", "operators"), [(1, (), 1), (1, (1,), 2), (3, (), 2)])
def test_a_second_operator_needs_a_second_node(servers, workers, operators) -> None:
    (cilium,) = pod_network(spec(servers, workers, **KUBEADM, cni=Cni.CILIUM))
    assert cilium.values["operator"] == {"replicas": operators}


def test_calico_gets_the_clusters_own_ranges_and_no_bgp() -> None:
    definitions, operator = pod_network(spec(**KUBEADM, cni=Cni.CALICO, **PODS))
    assert definitions.definitions
    assert not operator.definitions
    network = operator.values["installation"]["calicoNetwork"]
    assert network == {"bgp": "Disabled", "ipPools": [{"cidr": "10.60.0.0/16", "encapsulation": "VXLAN"}]}
    assert (
        "containerIPForwarding" in pod_network(spec(**K3S, cni=Cni.CALICO))[1].values["installation"]["calicoNetwork"]
    )


@pytest.mark.parametrize("distribution", [{}, K3S, KUBEADM])
def test_the_cloud_controller_does_not_wait_for_kube_proxy(distribution) -> None:
    (controller,) = releases_of(spec(**(PODS | distribution)), Part.CLOUD_CONTROLLER)
    way = {row["name"]: row["value"] for row in controller.values["extraEnvs"]}
    assert way == {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"}


@pytest.mark.parametrize("cni", [Cni.CILIUM, Cni.CALICO])
def test_every_value_and_version_has_its_place_in_the_documents(cni: Cni) -> None:
    """docs/reference/charts.md says of each value where it was looked up: one that is set and not there fails."""
    page = (Path(__file__).parents[2] / "docs" / "reference" / "charts.md").read_text()
    for release in releases(spec(**(K3S | PODS), cni=cni)):
        _, _, section = page.partition(f"## {release.chart.name}\n")
        section, _, _ = section.partition("\n## ")
        for path in paths(release.values):
            assert f"`{path}`" in section, f"{path} of {release.chart.name}"
        assert f"{release.chart.name} {release.chart.version}" in page


ONE_VALUE = ("extraEnvs", "affinity", "tolerations", "enabledControllers")
"""Lists and maps that are one value to the chart, whatever is in them."""


def paths(values: dict[str, Any], before: str = "") -> list[str]:
    """The values by their dotted paths."""
    found = []
    for key, value in values.items():
        if isinstance(value, dict) and key not in ONE_VALUE:
            found += paths(value, f"{before}{key}.")
        elif isinstance(value, list) and value and isinstance(value[0], dict) and key not in ONE_VALUE:
            found += paths(value[0], f"{before}{key}[].")
        else:
            found.append(f"{before}{key}")
    return found


def test_a_chart_is_known_by_its_name() -> None:
    assert all(chart_named(chart.name) is chart for chart in CHARTS)
    assert chart_named("wordpress") is None
    assert all(chart.repository.startswith(("https://", "oci://")) for chart in CHARTS)
