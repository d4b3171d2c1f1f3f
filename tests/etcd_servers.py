"""Real etcd servers with mutual TLS, as kubeadm runs them: on the node's address, port 2379, our authority alone.

The program is the one that the real laboratory builds (`python -m lab.programs build`); where it is missing, tests
that need it are skipped and say so.
"""

import asyncio
import ipaddress
import random
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from bootstrap import authorities
from clients.etcd import EtcdClient, EtcdError
from clients.kubernetes import Identity
from domain.clusters import Distribution

NOW = datetime.now(UTC)
LIFE = timedelta(days=1)


class Fixed:
    """Randomness that is the same every time."""

    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)  # noqa: S311 - keys of tests need not be secret

    def token_bytes(self, nbytes: int, /) -> bytes:
        return self._random.randbytes(nbytes)


def program() -> Path:
    """The etcd program, or a skip that says how to get it."""
    build = pytest.importorskip("lab.programs.build", reason="the real laboratory's programs are not part of this tree")
    found = sorted(build.cache_folder().glob("etcd-*"), key=lambda path: path.stat().st_mtime)
    if not found:
        pytest.skip("no etcd program: build it with `python -m lab.programs build` (needs Go)")
    return Path(found[-1])


def identity(made: authorities.Authorities) -> Identity:
    """Our own certificate for this etcd."""
    pair = authorities.etcd_client_certificate(
        made, "trilithon", rng=Fixed(2), not_before=NOW - LIFE, not_after=NOW + LIFE
    )
    return Identity(
        ca=made.etcd_server.certificate.decode(), certificate=pair.certificate.decode(), key=pair.key.decode()
    )


def free_addresses(count: int) -> list[str]:
    """Loopback addresses of one /24 whose ports 2379 and 2380 are free."""
    while True:
        stem = f"127.{random.randint(100, 250)}.{random.randint(1, 250)}"  # noqa: S311
        addresses = [f"{stem}.{number}" for number in range(1, count + 1)]
        try:
            for address in addresses:
                for port in (2379, 2380):
                    with socket.socket() as probe:
                        probe.bind((address, port))
        except OSError:
            continue
        return addresses


@dataclass
class Servers:
    """Up to as many servers as there are names; those beyond `first` join later, as learners."""

    folder: Path
    program: Path
    names: list[str]
    first: int
    authorities: authorities.Authorities
    addresses: dict[str, str]
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        authority = self.authorities.etcd_server
        (self.folder / "ca.crt").write_bytes(authority.certificate)
        for name, address in self.addresses.items():
            certificate, key = _server_pair(authority, name, address)
            (self.folder / f"{name}.crt").write_bytes(certificate)
            (self.folder / f"{name}.key").write_bytes(key)

    @property
    def identity(self) -> Identity:
        return identity(self.authorities)

    def client(self, name: str, **changes: float) -> EtcdClient:
        return EtcdClient(self.addresses[name], self.identity, **changes)  # type: ignore[arg-type]

    def peer_url(self, name: str) -> str:
        return f"https://{self.addresses[name]}:2380"

    def start(self, name: str, members: list[str] | None = None, *, joining: bool = False) -> None:
        """Starts a server; `members` are all of the cluster when it is not the first time of the first ones."""
        mine, pair = self.addresses[name], ("crt", "key")
        cluster = ",".join(f"{one}={self.peer_url(one)}" for one in members or self.names[: self.first])
        certificate, key = (str(self.folder / f"{name}.{end}") for end in pair)
        flags = {
            "name": name,
            "data-dir": str(self.folder / f"{name}.data"),
            "listen-client-urls": f"https://{mine}:2379",
            "advertise-client-urls": f"https://{mine}:2379",
            "listen-peer-urls": f"https://{mine}:2380",
            "initial-advertise-peer-urls": f"https://{mine}:2380",
            "initial-cluster": cluster,
            "initial-cluster-state": "existing" if joining else "new",
            "client-cert-auth": "true",
            "trusted-ca-file": str(self.folder / "ca.crt"),
            "cert-file": certificate,
            "key-file": key,
            "peer-client-cert-auth": "true",
            "peer-trusted-ca-file": str(self.folder / "ca.crt"),
            "peer-cert-file": certificate,
            "peer-key-file": key,
            "unsafe-no-fsync": "true",
            "heartbeat-interval": "50",
            "election-timeout": "500",
            "log-level": "error",
        }
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                [self.program, *(f"--{flag}={value}" for flag, value in flags.items())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def kill(self, name: str) -> None:
        """Cuts a server's power."""
        process = self.running.pop(name)
        process.kill()
        process.wait()

    async def ready(self, *names: str) -> None:
        """Returns when each of these servers can read what a majority confirms."""
        async with asyncio.timeout(30):
            for name in names or tuple(self.running):
                async with self.client(name) as client:
                    await until_healthy(client)

    async def leader(self) -> str:
        """Name of the member that leads."""
        async with self.client(next(iter(self.running))) as client:
            leader = (await client.status()).leader
            return next(one.name for one in await client.members() if one.id == leader)


async def until_healthy(client: EtcdClient) -> None:
    while True:
        try:
            if (await client.health()).good:
                return
        except EtcdError:
            pass
        await asyncio.sleep(0.05)


@asynccontextmanager
async def servers(
    folder: Path, names: list[str], first: int | None = None, addresses: list[str] | None = None
) -> AsyncIterator[Servers]:
    """Servers that form one cluster, all answering; killed at the end. `addresses` are free ones where not given."""
    found = program()
    made = authorities.make(Fixed(), NOW - LIFE, NOW + LIFE, Distribution.KUBEADM)
    given = dict(zip(names, addresses or free_addresses(len(names)), strict=True))
    here = Servers(folder, found, names, len(names) if first is None else first, made, given)
    try:
        for name in names[: here.first]:
            here.start(name)
        await here.ready()
        yield here
    finally:
        for name in list(here.running):
            here.kill(name)


def _server_pair(authority: authorities.KeyPair, name: str, address: str) -> tuple[bytes, bytes]:
    """Certificate and key of a server, as kubeadm makes them: for serving and, towards peers, for calling."""
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    signer = serialization.load_pem_private_key(authority.key, password=None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    names = [x509.DNSName(name), x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address(address))]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - LIFE)
        .not_valid_after(NOW + LIFE)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .sign(signer, hashes.SHA256())
    )
    return (
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )
