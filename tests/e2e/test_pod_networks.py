"""A pod network that the distribution does not bring: by Helm, through the platform, until the cluster is Available."""

import json
from pathlib import Path

import pytest

from tests.e2e.running import Trilithon

pytestmark = pytest.mark.lab
STORAGE = "      - name: storage\n        value: shared\n"


def chosen(platform: Trilithon, cni: str, *, replaced: bool) -> Path:
    """The example with another pod network, under its name."""
    more = f"{STORAGE}      - name: cni\n        value: {cni}\n"
    more += "      - name: kubeProxyReplacement\n        value: true\n" if replaced else ""
    return platform.manifest("edge-k3s.yaml", **{STORAGE: more, "name: edge": f"name: {cni}"})


@pytest.mark.parametrize(("cni", "daemon", "replaced"), [("cilium", "cilium", True), ("calico", "calico-node", False)])
def test_k3s_becomes_available_with_the_chosen_pod_network(
    platform: Trilithon, tmp_path: Path, cni: str, daemon: str, replaced: bool
) -> None:
    platform.run("apply", "-f", str(chosen(platform, cni, replaced=replaced)))
    platform.run("wait", f"cluster/{cni}", "--for=condition=Available", "--timeout=3m")
    conditions = {one["type"]: one["status"] for one in platform.cluster(cni)["conditions"]}
    assert conditions["PodNetworkReady"] is True
    assert conditions.get("KubeProxyReplacementReady") is (True if replaced else None)

    kubeconfig = tmp_path / f"{cni}.kubeconfig"
    platform.run("kubeconfig", cni, "-f", str(kubeconfig))
    daemons = json.loads(platform.kubectl(kubeconfig, "get", "daemonsets", "-A", "-o", "json"))["items"]
    (found,) = [one for one in daemons if one["metadata"]["name"] == daemon]
    assert found["status"]["numberReady"] == 1
    platform.run("delete", f"cluster/{cni}", "--yes", "--wait")


def test_the_cache_is_filled_from_the_command_line(platform: Trilithon) -> None:
    listed = platform.run("chart", "list")
    assert (listed.stdout, "The cache holds no charts" in listed.stderr) == ("", True)
    repository = f"{platform.lab['artifacts']}/charts"
    pulled = platform.run("chart", "pull", "cilium", "--repository", repository)
    assert "chart/cilium-1.19.6 kept" in pulled.stdout
    assert "cilium" in platform.run("chart", "list").stdout
    platform.run("chart", "delete", "cilium", "1.19.6", "--yes")
