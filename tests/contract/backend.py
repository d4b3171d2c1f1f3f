"""What a contract case runs against: the protocol of a backend, the double as one, and how cases speak to it."""

import asyncio
import ssl
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import httpx
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from lab.kube import standalone

Obj = dict[str, Any]
Json = {"Content-Type": "application/json"}
MERGE = {"Content-Type": "application/merge-patch+json"}
STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}
JSON_PATCH = {"Content-Type": "application/json-patch+json"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}
PATIENCE = 30.0
"""Seconds that a case waits for what the server does by itself; generous, since it only costs where a case fails."""


def pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def public_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


@dataclass(frozen=True)
class Authority:
    """A certificate authority of the test's own."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def make(cls, name: str) -> "Authority":
        key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=2))
            .not_valid_after(now + timedelta(days=30))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(x509.KeyUsage(True, False, True, False, False, True, True, False, False), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(certificate, key)

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def issue(
        self, name: str, groups: tuple[str, ...] = (), *, ends: timedelta = timedelta(hours=1), server: bool = False
    ) -> bytes:
        """Certificate and key in one PEM. A negative `ends` gives one that is over; `server` one not for clients."""
        key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
        subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        usage = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
        certificate = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([*subject, x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(self.certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + ends)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        return certificate.public_bytes(serialization.Encoding.PEM) + pem(key)


class Backend(Protocol):
    """A control plane to test, its controllers for accounts, tokens, namespaces, garbage and budgets included."""

    url: str
    server_ca: bytes
    clients: Authority
    service_key: ec.EllipticCurvePrivateKey
    """Signs the tokens of service accounts."""
    version: str

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def forget(self) -> None:
        """Forgets the history of all objects up to now, as a server does after some minutes."""


class Double:
    """The lab's double."""

    def __init__(self) -> None:
        self.clients = Authority.make("clients")
        self.service_key = ec.generate_private_key(ec.SECP256R1())
        self._servers = Authority.make("servers")
        self.server_ca = self._servers.pem
        self.version = "v1.36.5"
        self.url = ""
        self._running: standalone.Standalone | None = None

    async def start(self) -> None:
        pair = (self._servers.pem, pem(self._servers.key))
        self._running = await standalone.start(self.version, pair, self.clients.pem, pem(self.service_key))
        self.url = self._running.url

    async def stop(self) -> None:
        if self._running is not None:
            await self._running.close()

    async def forget(self) -> None:
        assert self._running is not None
        self._running.api.store.compact()


class Api:
    """What a case speaks through: clients of any identity, and an administrator's ready one."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._stack = AsyncExitStack()
        self.admin: httpx.AsyncClient

    async def open(self) -> None:
        self.admin = await self.client("admin", ("system:masters",))

    async def close(self) -> None:
        await self._stack.aclose()

    async def client(self, name: str = "", groups: tuple[str, ...] = (), **how: Any) -> httpx.AsyncClient:
        """A client with a certificate of that name and groups; without a name an anonymous one."""
        return await self.with_certificate(self.backend.clients.issue(name, groups, **how) if name else b"")

    async def with_certificate(self, both: bytes, token: str = "") -> httpx.AsyncClient:
        context = ssl.create_default_context(cadata=self.backend.server_ca.decode())
        if both:
            with tempfile.NamedTemporaryFile() as file:
                file.write(both)
                file.flush()
                context.load_cert_chain(file.name)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        made = httpx.AsyncClient(verify=context, base_url=self.backend.url, headers=headers, timeout=30)
        return await self._stack.enter_async_context(made)

    async def bearer(self, token: str) -> httpx.AsyncClient:
        return await self.with_certificate(b"", token)


async def eventually(look: Callable[[], Awaitable[Any]]) -> Any:
    """Waits until `look` gives something true, and returns that; PATIENCE limits it."""
    async with asyncio.timeout(PATIENCE):
        while True:
            if found := await look():
                return found
            await asyncio.sleep(0.05)


def ok(answer: httpx.Response, code: int = 200) -> Obj:
    """The answer's object; fails the case with the server's words when it is another code."""
    assert answer.status_code == code, f"{answer.status_code} instead of {code}: {answer.text[:600]}"
    found: Obj = answer.json()
    return found


def refused(answer: httpx.Response, code: int, reason: str, words: str = "") -> Obj:
    """The Status of a refusal."""
    status = ok(answer, code)
    assert status["kind"] == "Status"
    assert status["status"] == "Failure"
    assert status["reason"] == reason, status
    assert status["code"] == code
    assert words in status["message"], status["message"]
    return status


def config_map(name: str, **data: str) -> Obj:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def pod(name: str, **labels: str) -> Obj:
    box = {"name": "main", "image": "registry.invalid/main:1"}
    # No account token: a control plane without a controller manager has none to give.
    spec = {"containers": [box], "automountServiceAccountToken": False}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


def deployment(name: str, image: str = "registry.invalid/main:1", replicas: int | None = 1) -> Obj:
    labels = {"app": name}
    spec: Obj = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": image}]}},
    }
    if replicas is not None:
        spec["replicas"] = replicas
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}
