"""What kubeadm's boot data promises, and a real kubeadm's word about its configuration and authorities."""

import hashlib
import os
import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from bootstrap import authorities, boot_data
from bootstrap.authentication import minor
from bootstrap.bootstrap_token import secret_manifest, secret_path
from bootstrap.distributions.kubeadm import AUTHENTICATION
from bootstrap.kubeadm_node import SEED
from bootstrap.tokens import Tokens
from domain.clusters import Cni, Distribution
from tests.bootstrap.changes import WHOLE, value_of
from tests.bootstrap.examples import ROLES, VERSIONS, example_authorities, example_input, example_tokens
from tests.bootstrap.mutation_rows import Mutation
from tests.bootstrap.mutations_kubeadm import ROWS, VALIDATION
from tests.bootstrap.test_mutations import good

MADE = example_authorities(Distribution.KUBEADM)
EIGHT = {
    *("ca.crt", "ca.key", "front-proxy-ca.crt", "front-proxy-ca.key", "sa.pub", "sa.key"),
    *("etcd/ca.crt", "etcd/ca.key"),
}
FILE = "kubeadm.yaml"


def files(role: str, **given: Any) -> dict[str, str]:
    """Content of the files that cloud-init writes, by path."""
    document = yaml.safe_load(boot_data(example_input(role, Distribution.KUBEADM, **given)).user_data)
    return {entry["path"]: entry["content"] for entry in document["write_files"]}


def documents(role: str, **given: Any) -> dict[str, Any]:
    """kubeadm's configuration by kind."""
    return {document["kind"]: document for document in yaml.safe_load_all(files(role, **given)[f"{SEED}/{FILE}"])}


@pytest.mark.parametrize("role", ROLES)
def test_all_eight_authority_files_are_on_every_server_and_none_on_workers(role: str) -> None:
    found = {path.split("/pki/")[1] for path in files(role) if "/pki/" in path}
    assert found == (set() if role == "worker" else EIGHT)


def test_servers_have_the_same_authorities() -> None:
    first, joining = (
        {path: text for path, text in files(role).items() if "/pki/" in path}
        for role in ("first-server", "joining-server")
    )
    assert first == joining


def test_a_worker_holds_one_secret() -> None:
    text = boot_data(example_input("worker", Distribution.KUBEADM)).user_data
    tokens = example_tokens()
    assert "PRIVATE KEY" not in text
    assert "client-key-data" not in text
    assert tokens.server not in text
    assert tokens.agent not in text
    assert text.count(tokens.bootstrap) == 1


def test_the_first_server_does_not_know_the_join_token() -> None:
    """It comes into the cluster only when somebody is about to join, and kubeadm's own ends with its birth."""
    assert example_tokens().bootstrap not in boot_data(example_input("first-server", Distribution.KUBEADM)).user_data
    assert documents("first-server")["InitConfiguration"]["bootstrapTokens"] == [{"ttl": "1s"}]


@pytest.mark.parametrize("version", VERSIONS[Distribution.KUBEADM])
@pytest.mark.parametrize("role", ROLES)
def test_a_machine_is_named_and_waits_for_an_external_cloud_controller(role: str, version: str) -> None:
    number = ROLES.index(role) + 1
    kind = "InitConfiguration" if role == "first-server" else "JoinConfiguration"
    node = documents(role, version=version)[kind]["nodeRegistration"]
    assert node["name"] == ("prod-workers-3" if role == "worker" else f"prod-cp-{number}")
    assert node["taints"] == []
    arguments = {argument["name"]: argument["value"] for argument in node["kubeletExtraArgs"]}
    assert arguments == {"node-ip": f"192.0.2.5{number}", "cloud-provider": "external"}


def test_only_one_machine_begins_and_the_others_name_the_virtual_ip() -> None:
    assert set(documents("first-server")) == {"InitConfiguration", "ClusterConfiguration", "KubeletConfiguration"}
    for role in ROLES[1:]:
        assert set(documents(role)) == {"JoinConfiguration"}
        join = documents(role)["JoinConfiguration"]
        discovery = join["discovery"]["bootstrapToken"]
        assert discovery["apiServerEndpoint"] == "192.0.2.50:6443"
        assert discovery["token"] == example_tokens().bootstrap
        assert ("controlPlane" in join) == (role == "joining-server")
        assert "certificateKey" not in str(join)


@pytest.mark.parametrize("replaces", [False, True])
def test_kube_proxy_is_left_out_where_cilium_takes_its_place(replaces: bool) -> None:
    found = documents("first-server", cni=Cni.CILIUM, kube_proxy_replacement=replaces)
    assert found["InitConfiguration"].get("skipPhases", []) == (["addon/kube-proxy"] if replaces else [])
    assert found["ClusterConfiguration"].get("proxy", {}).get("disabled", False) is replaces


def test_the_api_server_reads_a_folder_of_providers_from_day_one() -> None:
    server = documents("first-server")["ClusterConfiguration"]["apiServer"]
    assert {"name": "authentication-config", "value": AUTHENTICATION} in server["extraArgs"]
    mount = server["extraVolumes"][0]
    assert AUTHENTICATION.startswith(mount["mountPath"] + "/")
    assert mount["hostPath"] == mount["mountPath"]
    for role in ("first-server", "joining-server"):
        assert yaml.safe_load(files(role)[AUTHENTICATION])["jwt"] == []
    assert AUTHENTICATION not in files("worker")


def test_kubes_vips_role_travels_with_the_first_server_only() -> None:
    for role in ROLES:
        written = files(role)
        assert (f"{SEED}/manifests/kube-vip.yaml" in written) == (role != "worker")
        assert any(path.endswith("trilithon-kube-vip.yaml") for path in written) == (role == "first-server")


def test_nothing_of_the_laboratorys_kernel_is_in_it() -> None:
    for role in ROLES:
        text = boot_data(example_input(role, Distribution.KUBEADM)).user_data
        for word in ("failCgroupV1", "fail-cgroupv1", "ignorePreflightErrors", "SystemVerification", "oom_score"):
            assert word not in text


def test_what_cannot_be_rendered_is_refused() -> None:
    given = example_input("worker", Distribution.KUBEADM)
    with pytest.raises(ValueError, match="no bootstrap token"):
        boot_data(replace(given, tokens=Tokens(server="a", agent="b")))
    old = given.machine.model_copy(update={"version": "v1.33.9"})
    with pytest.raises(ValueError, match="too old"):
        boot_data(replace(given, machine=old))


def test_kubeadm_has_three_authorities() -> None:
    assert MADE.client == MADE.server
    assert MADE.etcd_peer == MADE.etcd_server
    assert len({MADE.server, MADE.etcd_server, MADE.request_header}) == 3
    assert authorities.Authorities.from_json(MADE.to_json()) == MADE


def test_the_public_key_of_service_accounts_belongs_to_the_private_one() -> None:
    key = serialization.load_pem_private_key(MADE.service_key, password=None)
    assert serialization.load_pem_public_key(authorities.public_key(MADE.service_key)) == key.public_key()


def test_the_hash_is_of_the_authoritys_public_key() -> None:
    """As upstream's recipe with openssl has it."""
    key = subprocess.run(
        ["openssl", "x509", "-pubkey", "-noout"], input=MADE.server.certificate, capture_output=True, check=True
    ).stdout
    der = subprocess.run(["openssl", "pkey", "-pubin", "-outform", "der"], input=key, capture_output=True, check=True)
    assert authorities.public_key_hash(MADE.server.certificate) == f"sha256:{hashlib.sha256(der.stdout).hexdigest()}"


def test_the_secret_of_a_join_token() -> None:
    token = "abcdef.0123456789abcdef"
    moment = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)
    secret = secret_manifest(token, moment)
    assert secret_path(token) == "/api/v1/namespaces/kube-system/secrets/bootstrap-token-abcdef"
    assert secret["type"] == "bootstrap.kubernetes.io/token"
    data = secret["stringData"]
    assert isinstance(data, dict)
    assert (data["token-id"], data["token-secret"]) == ("abcdef", "0123456789abcdef")
    assert data["expiration"] == "2026-01-01T12:30:00Z"
    assert data["usage-bootstrap-authentication"] == data["usage-bootstrap-signing"] == "true"


@pytest.mark.parametrize("token", ["", "abcdef", "ABCDEF.0123456789abcdef", "abcdef.0123456789abcdef\n", "a.b"])
def test_what_is_no_token_is_refused_without_saying_it(token: str) -> None:
    with pytest.raises(ValueError, match="not a bootstrap token") as refused:
        secret_path(token)
    assert not token or token not in str(refused.value)


def test_a_moment_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="zone"):
        secret_manifest(example_tokens().bootstrap, datetime(2026, 1, 1))


def test_tokens_of_before_kubeadm_are_read() -> None:
    assert Tokens.from_json('{"format": 1, "server": "a", "agent": "b"}') == Tokens(server="a", agent="b")
    assert Tokens.from_json(example_tokens().to_json()) == example_tokens()
    assert secret_path(example_tokens().bootstrap)


# From here on a real kubeadm is the judge. `make` of the real laboratory builds it (lab/programs).


def _programs() -> list[Path]:
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trilithon/programs"
    folder = Path(os.environ.get("TRILITHON_PROGRAMS") or home)
    return sorted(path for path in folder.glob("kube-v1.*") if path.is_file() and os.access(path, os.X_OK))


@pytest.fixture(scope="module")
def kubeadm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The newest kubeadm that was built; it knows itself by the name that it is called by."""
    programs = _programs()
    if not programs:
        pytest.skip("no kubeadm was built on this machine: python -m lab.programs")
    link = tmp_path_factory.mktemp("programs") / "kubeadm"
    link.symlink_to(programs[-1])
    return link


def validate(kubeadm: Path, text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = folder / FILE
    path.write_text(text)
    command = [str(kubeadm), "config", "validate", "--config", str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("version", VERSIONS[Distribution.KUBEADM])
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("cni", [Cni.CALICO, Cni.CILIUM])
def test_kubeadm_accepts_its_configuration(kubeadm: Path, role: str, cni: Cni, version: str, tmp_path: Path) -> None:
    if minor(version) < minor(VERSIONS[Distribution.KUBEADM][0]) - 1:
        version = VERSIONS[Distribution.KUBEADM][0]  # kubeadm makes clusters of its own minor and the one before
    given = files(role, cni=cni, kube_proxy_replacement=cni is Cni.CILIUM, version=version)
    done = validate(kubeadm, given[f"{SEED}/{FILE}"], tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


CHECKED = [row for row in ROWS if row.key != WHOLE]


@pytest.mark.parametrize("row", CHECKED, ids=[row.name for row in CHECKED])
def test_the_table_says_what_kubeadm_says(kubeadm: Path, row: Mutation, tmp_path: Path) -> None:
    changed = row.change(good(Distribution.KUBEADM, row.machine, row.case))
    done = validate(kubeadm, value_of(changed, FILE, WHOLE), tmp_path)
    assert (done.returncode != 0) == (row.source == VALIDATION), done.stdout + done.stderr


def test_kubeadm_signs_with_our_authorities(kubeadm: Path, tmp_path: Path) -> None:
    written = files("first-server")
    for path, text in written.items():
        if "/pki/" in path:
            place = tmp_path / "pki" / path.split("/pki/")[1]
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
            place.chmod(0o600)
    config = written[f"{SEED}/{FILE}"].replace("clusterName:", f"certificatesDir: {tmp_path}/pki\nclusterName:")
    (tmp_path / FILE).write_text(config)
    command = [str(kubeadm), "init", "phase", "certs", "all", "--config", str(tmp_path / FILE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    for name in ("ca", "etcd/ca", "front-proxy-ca"):
        assert f"Using existing {name} certificate authority" in done.stdout
    assert 'Using the existing "sa" key' in done.stdout
    serving = x509.load_pem_x509_certificate((tmp_path / "pki/apiserver.crt").read_bytes())
    serving.verify_directly_issued_by(x509.load_pem_x509_certificate(MADE.server.certificate))
    names = serving.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {"kubernetes", "prod-cp-1"} <= set(names.get_values_for_type(x509.DNSName))
    assert {"192.0.2.50", "192.0.2.51"} <= {str(address) for address in names.get_values_for_type(x509.IPAddress)}
