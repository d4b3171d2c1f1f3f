"""A cluster's certificate authorities and the certificates that we sign with them.

We make every authority before the first machine exists. So the platform can sign its own kubeconfig, knows the hash
that joining nodes check, and never has to read a secret back from a node. Everything random comes from the caller's
`Randomness`, every date is an argument: the same input gives the same bytes (ECDSA signatures are deterministic,
RFC 6979), so a boot ISO that is rendered again is the same ISO.
"""

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from bootstrap.yaml_text import yaml_text
from domain.clusters import Distribution

AUTHORITY_LIFE = timedelta(days=3653)
CLOCK_SKEW = timedelta(hours=1)
"""How much earlier than now a certificate begins: the clocks of nodes and people differ."""
"""Ten years, as the distributions' own authorities live (facts: leaf 365 d, CA 10 y)."""

_CURVE = ec.SECP256R1()
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Number of points of P-256: private keys are 1 .. order-1 (FIPS 186-5, A.2.1)."""
_FORMAT = 1


class Randomness(Protocol):
    """Where fresh bytes come from. The standard library's module `secrets` is one; tests give a seeded one."""

    def token_bytes(self, nbytes: int, /) -> bytes:
        """Returns `nbytes` unpredictable bytes."""
        ...


@dataclass(frozen=True)
class KeyPair:
    """A certificate and its private key, both PEM. The bytes are kept exactly: joining nodes hash the file."""

    certificate: bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True)
class Authorities:
    """Everything that signs for one cluster; kept as one secret (`to_json`).

    `server` signs what the API server and the kubelets show, `client` the clients' certificates, `request_header` the
    aggregation layer's proxy, `etcd_peer` and `etcd_server` etcd's members and its clients. `service_key` signs
    ServiceAccount tokens. kubeadm knows three authorities: there `client` is `server` and `etcd_peer` is `etcd_server`.
    `kube_vip` is the client certificate of kube-vip (CN=kube-vip, no group): it stands here so that rendering a
    machine's boot data again gives the same bytes.
    """

    distribution: Distribution
    server: KeyPair
    client: KeyPair
    request_header: KeyPair
    etcd_peer: KeyPair
    etcd_server: KeyPair
    kube_vip: KeyPair
    service_key: bytes = field(repr=False)

    def to_json(self) -> str:
        """One JSON text for the secret box; `from_json` gives an equal object back."""
        pairs = {
            name: {"certificate": pair.certificate.decode(), "key": pair.key.decode()}
            for name, pair in self._pairs().items()
        }
        content = {
            "format": _FORMAT,
            "distribution": self.distribution.value,
            "pairs": pairs,
            "service_key": self.service_key.decode(),
        }
        return json.dumps(content, sort_keys=True)

    @classmethod
    def from_json(cls, text: str | bytes) -> "Authorities":
        """Reads what `to_json` wrote.

        Raises:
            ValueError: the text is of a newer format than this release knows.
        """
        content = json.loads(text)
        if content["format"] != _FORMAT:
            raise ValueError(f"authorities of format {content['format']} are newer than this release")
        pairs = {
            name: KeyPair(pair["certificate"].encode(), pair["key"].encode()) for name, pair in content["pairs"].items()
        }
        return cls(
            distribution=Distribution(content["distribution"]),
            service_key=content["service_key"].encode(),
            **pairs,
        )

    def _pairs(self) -> dict[str, KeyPair]:
        return {
            "server": self.server,
            "client": self.client,
            "request_header": self.request_header,
            "etcd_peer": self.etcd_peer,
            "etcd_server": self.etcd_server,
            "kube_vip": self.kube_vip,
        }


def make(rng: Randomness, not_before: datetime, not_after: datetime, distribution: Distribution) -> Authorities:
    """Makes a cluster's authorities, each with a key of its own.

    Args:
        rng: source of the keys and serial numbers.
        not_before: start of validity, timezone-aware; take an hour off the clock, since nodes' clocks differ.
        not_after: end of validity; usually `not_before + AUTHORITY_LIFE`.
        distribution: names the authorities as its own would be named (`k3s-server-ca@<start>`), and says whether
            there are five of them or kubeadm's three.
    """
    start = int(not_before.timestamp())

    def authority(name: str) -> KeyPair:
        return _authority(rng, name, not_before, not_after)

    if distribution is Distribution.KUBEADM:
        client = server = authority("kubernetes")
        request_header = authority("front-proxy-ca")
        etcd_peer = etcd_server = authority("etcd-ca")
    else:
        named = f"{distribution.value}-{{}}@{start}".format
        client = authority(named("client-ca"))
        server = authority(named("server-ca"))
        request_header = authority(named("request-header-ca"))
        etcd_peer = authority(named("etcd-peer-ca"))
        etcd_server = authority(named("etcd-server-ca"))
    return Authorities(
        distribution=distribution,
        server=server,
        client=client,
        request_header=request_header,
        etcd_peer=etcd_peer,
        etcd_server=etcd_server,
        service_key=_key_pem(_fresh_key(rng)),
        # As long-lived as its authority: kube-vip reads it only at start, and it opens nothing but one lease.
        kube_vip=client_certificate(client, "kube-vip", (), rng=rng, not_before=not_before, not_after=not_after),
    )


def client_certificate(
    authority: KeyPair,
    common_name: str,
    organizations: Sequence[str],
    *,
    rng: Randomness,
    not_before: datetime,
    not_after: datetime,
) -> KeyPair:
    """Signs a certificate for a client of the API server (or of etcd).

    Args:
        authority: `Authorities.client` for the API server.
        common_name: the user's name for Kubernetes.
        organizations: the user's groups for Kubernetes; `system:masters` may do everything.
        rng: source of the key and the serial number.
        not_before: start of validity, timezone-aware.
        not_after: end of validity; cut to the authority's own end, beyond which nothing would accept it.
    """
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    signer = serialization.load_pem_private_key(authority.key, password=None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise ValueError("the authority's key is not an elliptic-curve key")
    key = _fresh_key(rng)
    subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization) for organization in organizations]
    subject.append(x509.NameAttribute(NameOID.COMMON_NAME, common_name))
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name(subject))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(_serial(rng))
        .not_valid_before(not_before)
        .not_valid_after(min(not_after, issuer.not_valid_after_utc))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(usage, critical=False)
        .add_extension(_key_identifier_of(signer), critical=False)
    )
    certificate = builder.sign(signer, hashes.SHA256(), ecdsa_deterministic=True)
    return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), _key_pem(key))


def admin_certificate(
    authorities: Authorities, name: str, *, rng: Randomness, not_before: datetime, not_after: datetime
) -> KeyPair:
    """Signs a certificate of a cluster administrator (`O=system:masters`). Nothing can revoke it: keep it short."""
    return client_certificate(
        authorities.client, name, ("system:masters",), rng=rng, not_before=not_before, not_after=not_after
    )


def etcd_client_certificate(
    authorities: Authorities, name: str, *, rng: Randomness, not_before: datetime, not_after: datetime
) -> KeyPair:
    """Signs a certificate with which etcd's client port (2379) is reached: etcd trusts its server authority there."""
    return client_certificate(authorities.etcd_server, name, (), rng=rng, not_before=not_before, not_after=not_after)


def kubeconfig(
    server: str,
    authority_certificate: bytes,
    client: KeyPair,
    *,
    cluster: str,
    user: str,
    tls_server_name: str | None = None,
) -> str:
    """Renders a kubeconfig with a client certificate.

    Args:
        server: base address, `https://<virtual IP>:6443`.
        authority_certificate: PEM of `Authorities.server`.
        client: certificate and key of the user.
        cluster: name of the cluster entry and, with the user, of the context.
        user: name of the user entry.
        tls_server_name: the name to look for in the server's certificate when it is not the address's host.
    """
    target: dict[str, str] = {"server": server, "certificate-authority-data": _base64(authority_certificate)}
    if tls_server_name is not None:
        target["tls-server-name"] = tls_server_name
    credentials = {"client-certificate-data": _base64(client.certificate), "client-key-data": _base64(client.key)}
    context = f"{user}@{cluster}"
    return yaml_text(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": cluster, "cluster": target}],
            "users": [{"name": user, "user": credentials}],
            "contexts": [{"name": context, "context": {"cluster": cluster, "user": user}}],
            "current-context": context,
        }
    )


def _authority(rng: Randomness, name: str, not_before: datetime, not_after: datetime) -> KeyPair:
    key = _fresh_key(rng)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(_serial(rng))
        .not_valid_before(not_before)
        .not_valid_after(not_after)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(_key_identifier_of(key), critical=False)
    )
    certificate = builder.sign(key, hashes.SHA256(), ecdsa_deterministic=True)
    return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), _key_pem(key))


def _fresh_key(rng: Randomness) -> ec.EllipticCurvePrivateKey:
    # 128 bits more than the order has: the remainder's bias is then beyond notice (FIPS 186-5, A.2.1).
    drawn = int.from_bytes(rng.token_bytes(48), "big")
    return ec.derive_private_key(drawn % (_ORDER - 1) + 1, _CURVE)


def _serial(rng: Randomness) -> int:
    # At most 159 bits, so that the DER number is positive within 20 octets (RFC 5280, 4.1.2.2).
    return (int.from_bytes(rng.token_bytes(20), "big") >> 1) | 1


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_encipherment=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _key_identifier_of(key: ec.EllipticCurvePrivateKey) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def fingerprint(pem: bytes) -> str:
    """SHA-256 of the PEM bytes themselves, hex: what a joining k3s or RKE2 node compares (facts 2.5)."""
    return hashlib.sha256(pem).hexdigest()


def public_key_hash(certificate: bytes) -> str:
    """What a joining kubeadm node compares: `sha256:` and the digest of the authority's public key (facts 1.2).

    Args:
        certificate: PEM of the authority.
    """
    key = x509.load_pem_x509_certificate(certificate).public_key()
    return "sha256:" + hashlib.sha256(_public_der(key)).hexdigest()


def public_key(private_key: bytes) -> bytes:
    """The public half of a private key, both PEM."""
    key = serialization.load_pem_private_key(private_key, password=None).public_key()
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def _public_der(key: CertificatePublicKeyTypes) -> bytes:
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
