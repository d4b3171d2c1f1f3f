"""kubeadm's certificates: what is on the disk is used or refused, the leaves are signed anew."""

import base64
import datetime
import hashlib
import ipaddress
from collections.abc import Sequence

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from lab.kube.tls import alternative_names, new_authority
from lab.nodes.disk import Disk
from lab.nodes.kubeadm.configuration import Endpoint, Refused, Shared
from lab.yaml_reader import write_yaml

FOLDER = "/etc/kubernetes/pki"
AUTHORITIES = ("ca", "front-proxy-ca", "etcd/ca")
_NAMES = {"ca": "CA", "front-proxy-ca": "front-proxy CA", "etcd/ca": "etcd CA"}
_SERVER, _CLIENT = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH
_LEAVES = (
    ("apiserver", "ca", "kube-apiserver", (), (_SERVER,)),
    ("apiserver-kubelet-client", "ca", "kube-apiserver-kubelet-client", ("kubeadm:cluster-admins",), (_CLIENT,)),
    ("front-proxy-client", "front-proxy-ca", "front-proxy-client", (), (_CLIENT,)),
    ("etcd/server", "etcd/ca", "", (), (_SERVER, _CLIENT)),
    ("etcd/peer", "etcd/ca", "", (), (_SERVER, _CLIENT)),
    ("etcd/healthcheck-client", "etcd/ca", "kube-etcd-healthcheck-client", (), (_CLIENT,)),
    ("apiserver-etcd-client", "etcd/ca", "kube-apiserver-etcd-client", (), (_CLIENT,)),
)
"""Name, authority, common name ("" for the node's), organisations, usage."""
Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


def public_key_hash(pem: bytes) -> str:
    """`sha256:` and the hash of the certificate's public key, as `caCertHashes` pins it."""
    key = x509.load_pem_x509_certificate(pem).public_key()
    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return f"sha256:{hashlib.sha256(der).hexdigest()}"


def signed_by(certificate: bytes, authority: bytes) -> bool:
    """True when the authority signed the certificate (both PEM)."""
    try:
        x509.load_pem_x509_certificate(certificate).verify_directly_issued_by(x509.load_pem_x509_certificate(authority))
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def check_shared(disk: Disk) -> None:
    """What a joining server must bring along; raises Refused. A missing private key is a warning only there."""
    problems: list[str] = []
    for name in AUTHORITIES:
        try:
            _authority(disk, name)
        except Refused as refused:
            problems.append(f"failure loading certificate for {_NAMES[name]}: {refused}")
    for end in ("key", "pub"):
        try:
            _service_key(disk, end)
        except Refused as refused:
            problems.append(f"failure loading key for service account: {refused}")
            break
    if problems:
        listed = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
        raise Refused(
            f"\nOne or more conditions for hosting a new control plane instance is not satisfied.\n\n{listed}\n\n"
            "Please ensure that:\n* The cluster has a stable controlPlaneEndpoint address.\n"
            "* The certificates that must be shared among control plane instances are provided.\n\n"
        )


def write(disk: Disk, shared: Shared, local: Endpoint, node: str, phase: str) -> list[str]:
    """The phase `certs`: existing authorities are used, missing ones made, all leaves signed.

    Args:
        disk: the machine's disk.
        shared: gives the names in the API server's certificate.
        local: the server's own address.
        node: its name.
        phase: kubeadm's word for it, in refusals: `certs` or `control-plane-prepare/certs`.

    Returns:
        What kubeadm prints.

    Raises:
        Refused: a certificate or key is missing, cannot be read or does not fit.
    """
    said = [f'[certs] Using certificateDir folder "{FOLDER}"']
    for name in AUTHORITIES:
        if disk.exists(f"{FOLDER}/{name}.crt") or disk.exists(f"{FOLDER}/{name}.key"):
            try:
                _authority(disk, name)
                _key(disk, name)
            except Refused as refused:
                raise Refused(f"error execution phase {phase}/{name.replace('/', '-')}: failure loading {name} "
                              f"certificate: {refused}") from refused  # fmt: skip
            said.append(f"[certs] Using existing {name} certificate authority")
        else:
            _make_authority(disk, name)
            said.append(f'[certs] Generating "{name}" certificate and key')
    names = _server_names(shared, local, node)
    for leaf, authority, common, groups, usage in _LEAVES:
        listed = names if leaf == "apiserver" else [node, "localhost", local.address, "127.0.0.1"]
        try:
            _sign(disk, leaf, authority, common or node, groups, usage, listed if _SERVER in usage else [])
        except Refused as refused:
            where = f"{phase}/{leaf.replace('/', '-')}" if phase == "certs" else phase
            raise Refused(f"error execution phase {where}: {refused}") from refused
        said.append(f'[certs] Generating "{leaf}" certificate and key')
    try:
        _service_key(disk, "key")
    except Refused as refused:
        if disk.exists(f"{FOLDER}/sa.key"):
            raise Refused(
                f"error execution phase {phase}/sa: file sa.key existed but it could not be loaded properly: {refused}"
            ) from refused
        _make_service_key(disk)
    said.append('[certs] Using the existing "sa" key')
    return said


def kubeconfig(disk: Disk, name: str, server: str) -> None:
    """Writes `/etc/kubernetes/<name>.conf` with the authority of the disk and a server; only what is read here."""
    file = disk.read(f"{FOLDER}/ca.crt")
    disk.write(f"/etc/kubernetes/{name}.conf", kubeconfig_text(server, file.data if file else b"", name), 0o600)


def kubeconfig_text(server: str, authority: bytes, user: str = "", token: str = "") -> str:
    """A kubeconfig with a server, its authority (PEM), and a token where one is given."""
    cluster = {"certificate-authority-data": base64.b64encode(authority).decode(), "server": server}
    found: dict[str, object] = {
        "apiVersion": "v1",
        "clusters": [{"cluster": cluster, "name": "kubernetes" if user else ""}],
        "kind": "Config",
    }
    if user:
        found["contexts"] = [{"context": {"cluster": "kubernetes", "user": user}, "name": f"{user}@kubernetes"}]
        found["current-context"] = f"{user}@kubernetes"
        found["users"] = [{"name": user, "user": {"token": token} if token else {}}]
    return write_yaml(found)


def _server_names(shared: Shared, local: Endpoint, node: str) -> list[str]:
    first = ipaddress.ip_network(shared.services.split(",")[0], strict=False)[1]
    endpoint = shared.endpoint.rpartition(":")[0] or shared.endpoint
    names = [node, "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"]
    return [*names, str(first), local.address, *([endpoint] if endpoint else []), *shared.sans]


def _authority(disk: Disk, name: str) -> x509.Certificate:
    path = f"{FOLDER}/{name}.crt"
    file = disk.read(path)
    if file is None:
        raise Refused(f"couldn't load the certificate file {path}: open {path}: no such file or directory")
    try:
        found = x509.load_pem_x509_certificate(file.data)
    except ValueError as error:
        raise Refused(
            f"couldn't load the certificate file {path}: error reading {path}: data does not contain any valid RSA or "
            "ECDSA certificates"
        ) from error
    try:
        is_authority = found.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        is_authority = False
    if not is_authority:
        raise Refused(f"certificate {name} is not a CA")
    return found


def _key(disk: Disk, name: str) -> Key:
    path = f"{FOLDER}/{name}.key"
    file = disk.read(path)
    if file is None:
        raise Refused(f"failed to load key: couldn't load the private key file {path}: open {path}: no such file or "
                      "directory")  # fmt: skip
    try:
        key = serialization.load_pem_private_key(file.data, None)
    except (ValueError, TypeError) as error:
        raise Refused(
            f"couldn't load the private key file {path}: error reading private key file {path}: data does not contain "
            "a valid RSA or ECDSA private key"
        ) from error
    if not isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey):
        raise Refused(f"the private key file {path} is neither in RSA nor ECDSA format")
    return key


def _service_key(disk: Disk, end: str) -> None:
    if end == "key":
        _key(disk, "sa")
        return
    path = f"{FOLDER}/sa.pub"
    file = disk.read(path)
    try:
        serialization.load_pem_public_key(file.data if file else b"")
    except ValueError as error:
        raise Refused(
            f"couldn't load the public key file {path}: error reading public key file {path}: data does not contain "
            "any valid RSA or ECDSA public keys"
        ) from error


def _sign(
    disk: Disk,
    leaf: str,
    authority: str,
    common: str,
    groups: Sequence[str],
    usage: Sequence[x509.ObjectIdentifier],
    names: Sequence[str],
) -> None:
    certificate, signer = _authority(disk, authority), _key(disk, authority)
    if signer.public_key() != certificate.public_key():
        raise Refused("unable to sign certificate: x509: provided PrivateKey doesn't match parent's PublicKey")
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([*subject, x509.NameAttribute(NameOID.COMMON_NAME, common)]))
        .issuer_name(certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(max(certificate.not_valid_before_utc, now - datetime.timedelta(hours=1)))
        .not_valid_after(min(certificate.not_valid_after_utc, now + datetime.timedelta(days=365)))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(list(usage)), critical=False)
    )
    if names:
        made = made.add_extension(alternative_names(names), critical=False)
    signed = made.sign(signer, hashes.SHA256())
    disk.write(f"{FOLDER}/{leaf}.crt", signed.public_bytes(serialization.Encoding.PEM))
    disk.write(f"{FOLDER}/{leaf}.key", _pem(key), 0o600)


def _make_authority(disk: Disk, name: str) -> None:
    certificate, key = new_authority(name.replace("/", "-"))
    disk.write(f"{FOLDER}/{name}.crt", certificate)
    disk.write(f"{FOLDER}/{name}.key", _pem(key), 0o600)


def _make_service_key(disk: Disk) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    disk.write(f"{FOLDER}/sa.key", _pem(key), 0o600)
    disk.write(f"{FOLDER}/sa.pub", public)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
