"""Our kubeconfigs, certificates and TLS name, judged by a real client: kubectl, over TLS, to a server of ours.

The rows of the table of mutations about kube-vip's kubeconfig are judged by it too: kube-vip reads the file with the
same library (client-go).
"""

import ipaddress
import os
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bootstrap import BootData
from bootstrap.authorities import Authorities, KeyPair, admin_certificate, kubeconfig, make
from domain.clusters import Distribution
from tests.bootstrap.changes import WHOLE, value_of
from tests.bootstrap.examples import SeededRandomness, example_authorities, example_boot_data
from tests.bootstrap.mutations import MUTATIONS, Breaks, Mutation

KUBECTL = Path(sys.executable).parent / "kubectl"
FILE = "kube-vip.conf"
GOOD = example_boot_data()
AUTHORITIES = example_authorities(Distribution.K3S)


def serving_certificate(authorities: Authorities) -> tuple[bytes, bytes]:
    """What k3s would make with our server authority: `kubernetes` and the loopback address are in it."""
    issuer = x509.load_pem_x509_certificate(authorities.server.certificate)
    signer = serialization.load_pem_private_key(authorities.server.key, password=None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    names = [x509.DNSName("kubernetes"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(1000)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
    )
    certificate = builder.sign(signer, hashes.SHA256())
    plain = serialization.NoEncryption()
    pem = serialization.Encoding.PEM
    return certificate.public_bytes(pem), key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)


class Handler(BaseHTTPRequestHandler):
    """Says who came, by the verified certificate."""

    def do_GET(self) -> None:
        connection = self.connection
        assert isinstance(connection, ssl.SSLSocket)
        peer = connection.getpeercert() or {}
        subject = [part for group in peer["subject"] for part in group]
        text = " ".join("=".join(pair) for pair in subject).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:
        pass


class QuietServer(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A refused handshake is what some tests want."""


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A TLS server as the API server is one: it takes only clients whom the client authority signed."""
    folder = tmp_path_factory.mktemp("server")
    certificate, key = serving_certificate(AUTHORITIES)
    (folder / "tls.crt").write_bytes(certificate)
    (folder / "tls.key").write_bytes(key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    context.load_verify_locations(cadata=AUTHORITIES.client.certificate.decode())
    context.verify_mode = ssl.CERT_REQUIRED
    server = QuietServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


def ask(config: str, port: int, folder: Path) -> subprocess.CompletedProcess[str]:
    """Asks the server through a kubeconfig that names port 6443 of the loopback address."""
    path = folder / "kubeconfig"
    path.write_text(config.replace("127.0.0.1:6443", f"127.0.0.1:{port}"))
    path.chmod(0o600)
    environment = {"HOME": str(folder), "PATH": os.environ["PATH"]}
    command = [str(KUBECTL), "--kubeconfig", str(path), "--request-timeout=5s", "get", "--raw", "/livez"]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, env=environment)


def kube_vip_config(data: BootData) -> str:
    text: str = value_of(data, FILE, WHOLE)
    return text


def admin_config(authorities: Authorities, trusted: KeyPair) -> str:
    now = datetime.now(UTC)
    rng = SeededRandomness("admin")
    until = now + timedelta(hours=1)
    pair = admin_certificate(authorities, "trilithon", rng=rng, not_before=now - timedelta(hours=1), not_after=until)
    return kubeconfig("https://127.0.0.1:6443", trusted.certificate, pair, cluster="prod", user="trilithon")


def test_kube_vip_comes_as_a_user_without_a_group(port: int, tmp_path: Path) -> None:
    done = ask(kube_vip_config(GOOD), port, tmp_path)
    assert (done.returncode, done.stdout) == (0, "commonName=kube-vip"), done.stderr


def test_the_platform_comes_as_a_master(port: int, tmp_path: Path) -> None:
    done = ask(admin_config(AUTHORITIES, AUTHORITIES.server), port, tmp_path)
    assert done.stdout == "organizationName=system:masters commonName=trilithon", done.stderr


def test_a_foreign_authority_is_refused_by_both_sides(port: int, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    foreign = make(SeededRandomness("foreign"), now - timedelta(days=1), now + timedelta(days=1), Distribution.K3S)
    by_client = ask(admin_config(AUTHORITIES, foreign.server), port, tmp_path)
    assert by_client.returncode != 0
    assert "x509" in by_client.stderr
    assert ask(admin_config(foreign, AUTHORITIES.server), port, tmp_path).returncode != 0


ROWS = [row for row in MUTATIONS if row.file == FILE and row.key != WHOLE]


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_the_table_says_what_the_client_does(row: Mutation, port: int, tmp_path: Path) -> None:
    done = ask(kube_vip_config(row.change(GOOD)), port, tmp_path)
    # Without a server kubectl asks whoever listens at localhost:8080: only our server's word counts.
    answered = done.returncode == 0 and "commonName=" in done.stdout
    assert answered == (row.breaks is not Breaks.VIRTUAL_IP), done.stdout + done.stderr
