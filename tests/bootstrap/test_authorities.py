"""Authorities, certificates, tokens and kubeconfigs hold what a real peer checks."""

import base64
import hashlib
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from cryptography.x509.verification import ExtensionPolicy, PolicyBuilder, Store, VerificationError

from bootstrap import authorities, tokens
from bootstrap.authorities import Authorities, KeyPair
from domain.clusters import Distribution
from tests.bootstrap.examples import END, START, SeededRandomness, example_authorities, example_tokens

MADE = example_authorities(Distribution.K3S)
AUTHORITIES = ("server", "client", "request_header", "etcd_peer", "etcd_server")
NOW = START + timedelta(days=30)


def admin() -> KeyPair:
    rng = SeededRandomness("admin")
    return authorities.admin_certificate(MADE, "trilithon", rng=rng, not_before=NOW, not_after=NOW + timedelta(hours=1))


def accepted(authority: KeyPair, client: KeyPair) -> None:
    """Raises unless `authority` vouches for `client` as a TLS client, by path validation as RFC 5280 has it."""
    trusted = Store([x509.load_pem_x509_certificate(authority.certificate)])
    policy = PolicyBuilder().store(trusted).time(NOW + timedelta(minutes=1))
    policy = policy.extension_policies(
        ca_policy=ExtensionPolicy.webpki_defaults_ca(),
        # Kubernetes' clients are known by their subject, not by an alternative name.
        ee_policy=ExtensionPolicy.permit_all(),
    )
    policy.build_client_verifier().verify(x509.load_pem_x509_certificate(client.certificate), [])


def test_the_same_randomness_makes_the_same_bytes() -> None:
    again = authorities.make(SeededRandomness("authorities"), START, END, Distribution.K3S)
    assert again == MADE
    assert authorities.make(SeededRandomness("another"), START, END, Distribution.K3S) != MADE


def test_the_standard_library_is_a_source_of_randomness() -> None:
    import secrets

    made = authorities.make(secrets, START, END, Distribution.RKE2)
    assert made.server.key != made.client.key
    assert tokens.make(secrets).server != tokens.make(secrets).server


def test_one_secret_holds_all() -> None:
    assert Authorities.from_json(MADE.to_json()) == MADE
    assert tokens.Tokens.from_json(example_tokens().to_json()) == example_tokens()
    with pytest.raises(ValueError, match="newer"):
        Authorities.from_json(MADE.to_json().replace('"format": 1', '"format": 2'))


def test_no_key_shows_in_a_representation() -> None:
    shown = repr(MADE) + repr(example_tokens())
    assert "PRIVATE KEY" not in shown
    assert example_tokens().server not in shown


@pytest.mark.parametrize("name", AUTHORITIES)
def test_an_authority_may_sign_and_stands_for_itself(name: str) -> None:
    pair: KeyPair = getattr(MADE, name)
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    key = serialization.load_pem_private_key(pair.key, password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert certificate.public_key() == key.public_key()
    certificate.verify_directly_issued_by(certificate)
    assert certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert certificate.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    assert certificate.not_valid_after_utc == END
    assert pair.certificate.count(b"BEGIN CERTIFICATE") == 1


def test_authorities_and_their_names_differ() -> None:
    certificates = [x509.load_pem_x509_certificate(getattr(MADE, name).certificate) for name in AUTHORITIES]
    assert len({certificate.subject for certificate in certificates}) == len(AUTHORITIES)
    assert len({certificate.serial_number for certificate in certificates}) == len(AUTHORITIES)
    assert all(0 < certificate.serial_number < 2**159 for certificate in certificates)


def test_an_administrator_is_accepted_by_the_client_authority_alone() -> None:
    accepted(MADE.client, admin())
    for name in AUTHORITIES:
        if name != "client":
            with pytest.raises(VerificationError):
                accepted(getattr(MADE, name), admin())
    foreign = example_authorities(Distribution.K3S, "foreign")
    with pytest.raises(VerificationError):
        accepted(foreign.client, admin())


def test_an_administrator_is_in_the_masters_group_and_for_an_hour() -> None:
    certificate = x509.load_pem_x509_certificate(admin().certificate)
    groups = [part.value for part in certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    assert groups == ["system:masters"]
    assert certificate.not_valid_after_utc - certificate.not_valid_before_utc == timedelta(hours=1)
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]


def test_kube_vip_is_a_user_without_a_group() -> None:
    accepted(MADE.client, MADE.kube_vip)
    subject = x509.load_pem_x509_certificate(MADE.kube_vip.certificate).subject
    assert subject.rfc4514_string() == "CN=kube-vip"


def test_a_certificate_never_outlives_its_authority() -> None:
    late = authorities.client_certificate(
        MADE.client, "late", (), rng=SeededRandomness("x"), not_before=NOW, not_after=END + timedelta(days=1)
    )
    assert x509.load_pem_x509_certificate(late.certificate).not_valid_after_utc == END


def test_an_etcd_client_is_accepted_by_etcd_only() -> None:
    rng = SeededRandomness("etcd")
    client = authorities.etcd_client_certificate(
        MADE, "trilithon", rng=rng, not_before=NOW, not_after=NOW + timedelta(hours=1)
    )
    accepted(MADE.etcd_server, client)
    with pytest.raises(VerificationError):
        accepted(MADE.client, client)


@pytest.mark.parametrize("client", ["admin", "kube_vip"])
def test_openssl_accepts_the_chain(tmp_path: Path, client: str) -> None:
    pair = admin() if client == "admin" else MADE.kube_vip
    (tmp_path / "ca.crt").write_bytes(MADE.client.certificate)
    (tmp_path / "client.crt").write_bytes(pair.certificate)
    moment = str(int((NOW + timedelta(minutes=1)).timestamp()))
    command = ["openssl", "verify", "-x509_strict", "-purpose", "sslclient", "-attime", moment, "-CAfile", "ca.crt"]
    done = subprocess.run([*command, "client.crt"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_secure_token_names_the_exact_bytes_of_the_authority() -> None:
    digest = hashlib.sha256(MADE.server.certificate).hexdigest()
    assert tokens.k10(MADE.server.certificate, "secret") == f"K10{digest}::server:secret"
    assert tokens.k10(MADE.server.certificate, "secret", user="node") == f"K10{digest}::node:secret"


def test_a_kubeconfig_names_server_user_and_tls_name() -> None:
    pair = admin()
    text = authorities.kubeconfig(
        "https://192.0.2.50:6443",
        MADE.server.certificate,
        pair,
        cluster="prod",
        user="admin",
        tls_server_name="kubernetes",
    )
    config = yaml.safe_load(text)
    cluster = config["clusters"][0]["cluster"]
    assert cluster["server"] == "https://192.0.2.50:6443"
    assert cluster["tls-server-name"] == "kubernetes"
    assert base64.b64decode(cluster["certificate-authority-data"]) == MADE.server.certificate
    assert base64.b64decode(config["users"][0]["user"]["client-key-data"]) == pair.key
    assert config["current-context"] == config["contexts"][0]["name"] == "admin@prod"
