"""What the boot data of every distribution promises (docs/contracts/distribution.md)."""

import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from bootstrap import UnsupportedDistribution, boot_data
from bootstrap.distributions import distribution as find
from domain.clusters import Cni, Distribution
from tests.bootstrap.examples import BUILT, ROLES, SUPERVISORS, VERSIONS, example_input, example_spec, example_tokens

SERVERS = ROLES[:2]
JOINERS = ROLES[1:]
CRITICAL = (
    *("agent-token", "cluster-cidr", "service-cidr", "cluster-dns", "cluster-domain", "disable-cloud-controller"),
    *("disable-kube-proxy", "egress-selector-mode", "disable-helm-controller", "disable-network-policy", "disable"),
    *("embedded-registry", "flannel-backend", "flannel-external-ip", "flannel-ipv6-masq", "secrets-encryption"),
)
"""Values that must be equal on all servers (facts 2.3)."""


def files(role: str, distribution: Distribution, **given: Any) -> dict[str, dict[str, Any]]:
    """The files that cloud-init writes, by path."""
    document = yaml.safe_load(boot_data(example_input(role, distribution, **given)).user_data)
    return {entry["path"]: entry for entry in document["write_files"]}


def config(role: str, distribution: Distribution, **given: Any) -> dict[str, Any]:
    path = f"/etc/rancher/{distribution.value}/config.yaml"
    content: dict[str, Any] = yaml.safe_load(files(role, distribution, **given)[path]["content"])
    return content


@pytest.mark.parametrize("distribution", SUPERVISORS)
@pytest.mark.parametrize("cni", [None, Cni.CILIUM, Cni.CALICO])
def test_servers_agree_on_critical_values(distribution: Distribution, cni: Cni | None) -> None:
    first, joining = (config(role, distribution, cni=cni, kube_proxy_replacement=cni is Cni.CILIUM) for role in SERVERS)
    for key in CRITICAL:
        assert first.get(key) == joining.get(key), key


@pytest.mark.parametrize("distribution", SUPERVISORS)
def test_one_machine_starts_the_cluster_and_the_others_name_the_virtual_ip(distribution: Distribution) -> None:
    assert "server" not in config("first-server", distribution)
    port = {Distribution.K3S: 6443, Distribution.RKE2: 9345}[distribution]
    for role in JOINERS:
        assert config(role, distribution)["server"] == f"https://192.0.2.50:{port}"
        assert "cluster-init" not in config(role, distribution)


@pytest.mark.parametrize("distribution", SUPERVISORS)
def test_authorities_are_on_the_first_server_only(distribution: Distribution) -> None:
    def tls(role: str) -> set[str]:
        return {path.split("/tls/")[1] for path in files(role, distribution) if "/server/tls/" in path}

    pairs = ("server-ca", "client-ca", "request-header-ca", "etcd/peer-ca", "etcd/server-ca")
    wanted = {f"{name}.{kind}" for name in pairs for kind in ("crt", "key")} | {"service.key"}
    assert tls("first-server") == wanted
    assert tls("joining-server") == tls("worker") == set()


@pytest.mark.parametrize("distribution", SUPERVISORS)
def test_a_worker_holds_one_secret(distribution: Distribution) -> None:
    data = boot_data(example_input("worker", distribution))
    tokens = example_tokens()
    assert "PRIVATE KEY" not in data.user_data
    assert "client-key-data" not in data.user_data
    assert tokens.server not in data.user_data
    assert data.user_data.count(tokens.agent) == 1


@pytest.mark.parametrize("distribution", BUILT)
@pytest.mark.parametrize("role", ROLES)
def test_files_with_secrets_are_for_root_only(distribution: Distribution, role: str) -> None:
    given = example_input(role, distribution)
    secrets = ("PRIVATE KEY", "client-key-data", given.tokens.server, given.tokens.agent, given.tokens.bootstrap)
    for path, entry in files(role, distribution).items():
        assert entry["owner"] == "root:root"
        if any(secret in entry["content"] for secret in secrets):
            assert entry["permissions"] == "0600", path


@pytest.mark.parametrize("distribution", SUPERVISORS)
@pytest.mark.parametrize("role", SERVERS)
def test_a_server_shows_the_virtual_ip_and_serves_it(distribution: Distribution, role: str) -> None:
    number = ROLES.index(role) + 1
    assert config(role, distribution)["tls-san"] == ["192.0.2.50", "kubernetes", f"192.0.2.5{number}"]
    written = files(role, distribution)
    pod = yaml.safe_load(written[f"/var/lib/rancher/{distribution.value}/agent/pod-manifests/kube-vip.yaml"]["content"])
    environment = {entry["name"]: entry.get("value") for entry in pod["spec"]["containers"][0]["env"]}
    assert environment["address"] == "192.0.2.50"
    lease, renew, retry = (
        int(environment[name] or 0) for name in ("vip_leaseduration", "vip_renewdeadline", "vip_retryperiod")
    )
    assert lease > 2 * renew + retry
    assert int(environment["vip_arpRate"] or 0) >= 500
    access = yaml.safe_load(written["/etc/trilithon/kube-vip.conf"]["content"])["clusters"][0]["cluster"]
    assert (access["server"], access["tls-server-name"]) == ("https://127.0.0.1:6443", "kubernetes")


@pytest.mark.parametrize("distribution", SUPERVISORS)
@pytest.mark.parametrize("role", SERVERS)
@pytest.mark.parametrize(("index", "group"), [(0, "v1"), (1, "v1beta1")])
def test_the_api_server_reads_an_empty_list_of_providers(
    distribution: Distribution, role: str, index: int, group: str
) -> None:
    version = VERSIONS[distribution][index]
    path = f"/etc/rancher/{distribution.value}/auth/authentication.yaml"
    document = yaml.safe_load(files(role, distribution, version=version)[path]["content"])
    assert document == {
        "apiVersion": f"apiserver.config.k8s.io/{group}",
        "kind": "AuthenticationConfiguration",
        "jwt": [],
    }
    settings = config(role, distribution, version=version)
    seen = settings["kube-apiserver-arg"][0].removeprefix("authentication-config=")
    for mount in settings.get("kube-apiserver-extra-mount", ()):
        host, inside, _ = mount.split(":")
        seen = seen.replace(inside, host)
    assert seen == path


@pytest.mark.parametrize("distribution", SUPERVISORS)
def test_the_dns_address_lies_in_the_service_range(distribution: Distribution) -> None:
    assert config("first-server", distribution)["cluster-dns"] == "10.53.0.10"


@pytest.mark.parametrize("role", ROLES)
def test_upstream_is_asked_where_the_site_has_no_address(role: str) -> None:
    for distribution, owner in ((Distribution.K3S, "k3s-io/k3s"), (Distribution.RKE2, "rancher/rke2")):
        text = files(role, distribution)["/etc/trilithon/artifacts.env"]["content"]
        version = VERSIONS[distribution][0].replace("+", "%2B")
        assert f"/{owner}/releases/download/{version}'\n" in text
        mirrored = files(role, distribution, artifact_url="http://mirror.example/x/")["/etc/trilithon/artifacts.env"]
        assert f"URL='http://mirror.example/x/{distribution.value}/{version}'\n" in mirrored["content"]


def test_a_distribution_is_found_by_its_name() -> None:
    for name in BUILT:
        assert find(name).name is name
    with pytest.raises(UnsupportedDistribution, match="not built yet"):
        find(SimpleNamespace(value="k0s"))  # type: ignore[arg-type]


def test_contradictions_are_refused() -> None:
    given = example_input("worker")
    with pytest.raises(ValueError, match="cannot be the first server"):
        boot_data(replace(given, first_server=True))
    with pytest.raises(ValueError, match="ranges"):
        boot_data(replace(given, spec=example_spec().model_copy(update={"pod_cidrs": ()})))
    server = example_input("first-server")
    with pytest.raises(ValueError, match="not a Kubernetes version"):
        boot_data(replace(server, machine=server.machine.model_copy(update={"version": "latest"})))


@pytest.mark.parametrize(
    ("distribution", "role"),
    [(Distribution.K3S, "first-server"), (Distribution.K3S, "worker"), (Distribution.KUBEADM, "first-server")],
)
def test_systemd_accepts_the_units(distribution: Distribution, role: str, tmp_path: Path) -> None:
    units = {path: entry for path, entry in files(role, distribution).items() if path.endswith(".service")}
    for path, entry in units.items():
        (tmp_path / Path(path).name).write_text(entry["content"])
    command = ["systemd-analyze", "verify", "--man=no", *map(str, tmp_path.iterdir())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    # The programs themselves are not on this machine; nothing else may be complained of.
    complaints = [line for line in done.stderr.splitlines() if str(tmp_path) in line or ".service" in line]
    assert [line for line in complaints if "is not executable" not in line] == []
    assert len(units) == 2
