"""TLS as an API server has it: a serving certificate of its own authority, and client certificates that are asked for
but judged later, so that a foreign one is answered with 401 as the real server does."""

import _ssl
import ctypes
import functools
import ipaddress
import ssl
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VERIFY_PEER = 1
_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p)


@_CALLBACK  # type: ignore[untyped-decorator]
def _accept_any(_ok: int, _store: int | None) -> int:
    # What failed stays in OpenSSL's queue of errors, and the next read would take it for its own.
    _library().ERR_clear_error()
    return 1


@functools.cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(_ssl.__file__)


def serving_certificate(
    ca_pem: bytes, ca_key_pem: bytes, common_name: str, names: Sequence[str]
) -> tuple[bytes, bytes]:
    """A serving certificate (PEM with its authority behind it) and its key, for DNS names and IP addresses.

    Raises ValueError when certificate and key of the authority do not belong together or cannot be read.
    """
    authority = x509.load_pem_x509_certificate(ca_pem)
    signer = serialization.load_pem_private_key(ca_key_pem, None)
    if not isinstance(signer, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey):
        raise ValueError("the authority's key is neither RSA nor EC")
    if signer.public_key() != authority.public_key():
        raise ValueError("tls: private key does not match public key")
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)]))
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(min(now + timedelta(days=365), authority.not_valid_after_utc))
        .add_extension(alternative_names(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .sign(signer, hashes.SHA256())
    )
    chain = certificate.public_bytes(serialization.Encoding.PEM) + ca_pem
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return chain, secret


def server_context(chain_pem: bytes, key_pem: bytes, client_ca_pem: bytes) -> ssl.SSLContext:
    """The TLS context of an API server.

    Client certificates are requested and passed through unverified; lab.kube.identity judges them. Where this Python's
    OpenSSL cannot be told so, a foreign certificate fails in the handshake instead.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET
    with tempfile.TemporaryDirectory() as folder:
        chain, key = Path(folder) / "chain.pem", Path(folder) / "key.pem"
        chain.write_bytes(chain_pem)
        key.touch(0o600)
        key.write_bytes(key_pem)
        context.load_cert_chain(chain, key)
    context.load_verify_locations(cadata=client_ca_pem.decode())
    context.verify_mode = ssl.CERT_OPTIONAL
    context.set_alpn_protocols(["http/1.1"])
    _judge_later(context)
    return context


def _judge_later(context: ssl.SSLContext) -> bool:
    """Replaces OpenSSL's own check of the client's chain. True when it worked.

    The address of the SSL_CTX stands right behind the object's header in CPython; reading the mode back through it
    before and after a change proves that it is the one.
    """
    try:
        library = _library()
        pointer = ctypes.c_void_p.from_address(id(context) + object.__basicsize__).value
        library.SSL_CTX_get_verify_mode.argtypes = [ctypes.c_void_p]
        library.SSL_CTX_set_verify.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]
        if pointer is None or library.SSL_CTX_get_verify_mode(pointer) != _VERIFY_PEER:
            return False
        library.SSL_CTX_set_verify(pointer, _VERIFY_PEER, ctypes.cast(_accept_any, ctypes.c_void_p))
    except (AttributeError, OSError):
        return False
    return True


def unchecked() -> ssl.SSLContext:
    """For a client that takes any certificate; unlike the default context it reads no authorities of the machine."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def alternative_names(names: Sequence[str]) -> x509.SubjectAlternativeName:
    """DNS names and IP addresses, each once, as a certificate lists them."""
    listed: list[x509.GeneralName] = []
    for name in dict.fromkeys(names):
        try:
            listed.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            listed.append(x509.DNSName(name))
    return x509.SubjectAlternativeName(listed)


def new_authority(common_name: str) -> tuple[bytes, ec.EllipticCurvePrivateKey]:
    """An authority as the distributions make one for themselves: its certificate (PEM) and its key."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=3650))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(True, False, True, False, False, True, False, False, False), critical=True)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM), key
