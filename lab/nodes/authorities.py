"""The authorities in a server's `tls` folder: read, and made where they are missing."""

import time

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from lab.kube.tls import new_authority
from lab.nodes.disk import Disk

NAMES = ("server-ca", "client-ca", "request-header-ca", "etcd/peer-ca", "etcd/server-ca")


def from_disk(disk: Disk, folder: str) -> dict[str, str]:
    """Authority files that are there, by their name below the folder."""
    wanted = [f"{name}.{end}" for name in NAMES for end in ("crt", "key")] + ["service.key"]
    return {name: file.text for name in wanted if (file := disk.read(f"{folder}/{name}")) is not None}


def pair_fits(certificate: str, key: str) -> bool:
    """True when the key is the certificate's; False also for what cannot be read."""
    try:
        private = serialization.load_pem_private_key(key.encode(), None)
        return private.public_key() == x509.load_pem_x509_certificate(certificate.encode()).public_key()
    except (ValueError, TypeError):
        return False


def _pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    ).decode()


def generate(distribution: str, have: set[str]) -> dict[str, str]:
    """Makes every pair of which a half or all is missing; the supervisor then works with its own, not with ours."""
    made: dict[str, str] = {}
    for name in NAMES:
        if f"{name}.crt" in have and f"{name}.key" in have:
            continue
        certificate, key = new_authority(f"{distribution}-{name}@{int(time.time())}")
        made[f"{name}.crt"] = certificate.decode()
        made[f"{name}.key"] = _pem(key)
    if "service.key" not in have:
        made["service.key"] = _pem(ec.generate_private_key(ec.SECP256R1()))
    return made
