"""A fake of Proxmox VE's HTTP side, for what the simulated datacenter cannot show: lost answers, foreign certificates.

It is a fake: it knows no rules of Proxmox VE, a test scripts every answer.
"""

import datetime
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

CUT = "cut"
"""Answer that is none: the connection is closed after the request was read."""


@dataclass
class Seen:
    method: str
    path: str
    query: dict[str, str]
    form: dict[str, str]
    body: bytes
    headers: dict[str, str]


@dataclass
class FakeHttps:
    """One scripted endpoint: (method, path) -> (status, reason, data), CUT, or a function of the request."""

    answers: dict[tuple[str, str], Any] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    port: int = 0
    certificate: bytes = b""
    pem: str = ""

    @property
    def endpoint(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def fingerprint(self) -> str:
        return x509.load_der_x509_certificate(self.certificate).fingerprint(hashes.SHA256()).hex(":")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fake: FakeHttps

    def log_message(self, *args: Any) -> None:
        pass

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        form = "urlencoded" in (self.headers.get("Content-Type") or "")
        seen = Seen(
            self.command,
            parts.path.removeprefix("/api2/json"),
            {key: value[0] for key, value in parse_qs(parts.query).items()},
            {key: value[0] for key, value in parse_qs(body.decode()).items()} if form else {},
            body,
            {key.lower(): value for key, value in self.headers.items()},
        )
        self.fake.seen.append(seen)
        answer = self.fake.answers.get((seen.method, seen.path), (404, "no script for this", None))
        if callable(answer):
            answer = answer(seen)
        if answer == CUT:
            self.close_connection = True
            return
        status, reason, data = answer
        if isinstance(data, bytes):
            payload = data
        else:
            payload = json.dumps(data if status >= 400 and data else {"data": data}).encode()
        self.send_response(status, reason)
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    do_GET = do_POST = do_PUT = do_DELETE = _serve


def _certificate(folder: Path) -> tuple[Path, bytes, str]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fake")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file = folder / "both.pem"
    file.write_bytes(secret + pem)
    return file, certificate.public_bytes(serialization.Encoding.DER), pem.decode()


@pytest.fixture
def fake_https(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], FakeHttps]]:
    """Makes endpoints, each with a certificate of its own."""
    servers: list[ThreadingHTTPServer] = []

    def make() -> FakeHttps:
        fake = FakeHttps()
        file, fake.certificate, fake.pem = _certificate(tmp_path_factory.mktemp("tls"))
        server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"fake": fake}))
        server.handle_error = lambda *_: None  # type: ignore[method-assign]  # refused handshakes are the test
        server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        fake.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return fake

    yield make
    for server in servers:
        server.shutdown()
        server.server_close()
