"""Who a request comes from: client certificates, ServiceAccount and bootstrap tokens, or nobody."""

import base64
import hmac
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from lab.kube.objects import Obj, dig, meta, parse_time
from lab.kube.refusals import unauthorized

ISSUER = "https://kubernetes.default.svc.cluster.local"


@dataclass(frozen=True)
class Identity:
    """A user as the authoriser sees it."""

    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""

    @property
    def master(self) -> bool:
        return "system:masters" in self.groups


ANONYMOUS = Identity("system:anonymous", ("system:unauthenticated",))


class Lookup(Protocol):
    """Reads objects for the authenticators."""

    def find(self, plural: str, namespace: str, name: str) -> Obj | None: ...


def load_certificates(pem: bytes) -> list[x509.Certificate]:
    """Certificates of a PEM bundle; raises ValueError when there is none."""
    return x509.load_pem_x509_certificates(pem)


def from_certificate(der: bytes, authorities: list[x509.Certificate], now: datetime | None = None) -> Identity:
    """The identity in a client certificate: common name and organisations.

    Raises Refusal 401 when no authority of ours signed it, it is outside its time, or it is not for clients.
    """
    moment = now or datetime.now(UTC)
    try:
        certificate = x509.load_der_x509_certificate(der)
    except ValueError as error:
        raise unauthorized() from error
    if not certificate.not_valid_before_utc <= moment <= certificate.not_valid_after_utc:
        raise unauthorized()
    for authority in authorities:
        try:
            certificate.verify_directly_issued_by(authority)
        except (ValueError, TypeError, InvalidSignature):
            continue
        if authority.not_valid_after_utc >= moment:
            break
    else:
        raise unauthorized()
    try:
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        if ExtendedKeyUsageOID.CLIENT_AUTH not in usage and ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE not in usage:
            raise unauthorized()
    except x509.ExtensionNotFound:
        pass
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if not names:
        raise unauthorized()
    groups = [str(item.value) for item in certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    return Identity(str(names[0].value), (*groups, "system:authenticated"))


# tokens of service accounts


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _unb64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class TokenSigner:
    """Signs and checks ServiceAccount tokens with the cluster's service key (RSA or EC P-256, PEM)."""

    def __init__(self, key_pem: bytes) -> None:
        key = serialization.load_pem_private_key(key_pem, None)
        if not isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey):
            raise ValueError("the service account key is neither RSA nor EC")
        self._key = key

    def sign(self, claims: Obj) -> str:
        header = {"alg": "RS256" if isinstance(self._key, rsa.RSAPrivateKey) else "ES256", "typ": "JWT"}
        body = f"{_b64(json.dumps(header).encode())}.{_b64(json.dumps(claims).encode())}"
        if isinstance(self._key, rsa.RSAPrivateKey):
            signature = self._key.sign(body.encode(), padding.PKCS1v15(), hashes.SHA256())
        else:
            first, second = decode_dss_signature(self._key.sign(body.encode(), ec.ECDSA(hashes.SHA256())))
            signature = first.to_bytes(32, "big") + second.to_bytes(32, "big")
        return f"{body}.{_b64(signature)}"

    def claims(self, token: str) -> Obj | None:
        """The claims of a token that this key signed; None for any other text."""
        try:
            head, payload, tail = token.split(".")
            signature, body = _unb64(tail), f"{head}.{payload}".encode()
            public = self._key.public_key()
            if isinstance(public, rsa.RSAPublicKey):
                public.verify(signature, body, padding.PKCS1v15(), hashes.SHA256())
            else:
                half = len(signature) // 2
                pair = (int.from_bytes(signature[:half], "big"), int.from_bytes(signature[half:], "big"))
                public.verify(encode_dss_signature(*pair), body, ec.ECDSA(hashes.SHA256()))
            claims: Any = json.loads(_unb64(payload))
        except (ValueError, InvalidSignature):
            return None
        return claims if isinstance(claims, dict) else None

    def issue(self, account: Obj, seconds: int, audiences: list[str] | None = None) -> tuple[str, datetime]:
        """A token for a ServiceAccount and when it ends."""
        now = datetime.now(UTC)
        ends = now + timedelta(seconds=seconds)
        data = meta(account)
        claims = {
            "iss": ISSUER,
            "aud": audiences or [ISSUER],
            "iat": int(now.timestamp()),
            "nbf": int(now.timestamp()),
            "exp": int(ends.timestamp()),
            "sub": f"system:serviceaccount:{data['namespace']}:{data['name']}",
            "kubernetes.io": {
                "namespace": data["namespace"],
                "serviceaccount": {"name": data["name"], "uid": data["uid"]},
            },
        }
        return self.sign(claims), ends

    def issue_lasting(self, account: Obj, secret_name: str) -> str:
        """The token without an end that a `kubernetes.io/service-account-token` Secret holds."""
        data = meta(account)
        return self.sign(
            {
                "iss": "kubernetes/serviceaccount",
                "kubernetes.io/serviceaccount/namespace": data["namespace"],
                "kubernetes.io/serviceaccount/secret.name": secret_name,
                "kubernetes.io/serviceaccount/service-account.name": data["name"],
                "kubernetes.io/serviceaccount/service-account.uid": data["uid"],
                "sub": f"system:serviceaccount:{data['namespace']}:{data['name']}",
            }
        )


def from_token(token: str, signer: TokenSigner, lookup: Lookup, audience: str = ISSUER) -> Identity:
    """The identity behind a bearer token; raises Refusal 401 for a token that is unknown, over or of a gone account."""
    claims = signer.claims(token)
    if claims is not None:
        return _service_account(token, claims, lookup, audience)
    if len(token) == 23 and token[6] == ".":
        return _bootstrap(token, lookup)
    raise unauthorized()


def _service_account(token: str, claims: Obj, lookup: Lookup, audience: str) -> Identity:
    prefix = "kubernetes.io/serviceaccount/"
    if claims.get("iss") == ISSUER:
        if claims.get("exp", 0) <= datetime.now(UTC).timestamp() or audience not in claims.get("aud", []):
            raise unauthorized()
        namespace = dig(claims, "kubernetes.io", "namespace", default="")
        name = dig(claims, "kubernetes.io", "serviceaccount", "name", default="")
        uid = dig(claims, "kubernetes.io", "serviceaccount", "uid")
    else:
        namespace = claims.get(f"{prefix}namespace", "")
        name = claims.get(f"{prefix}service-account.name", "")
        uid = claims.get(f"{prefix}service-account.uid")
        secret = lookup.find("secrets", namespace, claims.get(f"{prefix}secret.name", ""))
        kept = base64.b64decode(dig(secret or {}, "data", "token", default="") or "")
        if not hmac.compare_digest(kept, token.encode()):
            raise unauthorized()
    account = lookup.find("serviceaccounts", namespace, name)
    if account is None or meta(account).get("uid") != uid:
        raise unauthorized()
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return Identity(f"system:serviceaccount:{namespace}:{name}", groups, str(uid))


def _bootstrap(token: str, lookup: Lookup) -> Identity:
    public, private = token.split(".", 1)
    secret = lookup.find("secrets", "kube-system", f"bootstrap-token-{public}")
    if secret is None or secret.get("type") != "bootstrap.kubernetes.io/token":
        raise unauthorized()
    data = {name: base64.b64decode(value).decode() for name, value in (secret.get("data") or {}).items()}
    ends = parse_time(data.get("expiration"))
    if (
        not hmac.compare_digest(data.get("token-secret", ""), private)
        or data.get("usage-bootstrap-authentication") != "true"
        or (ends is not None and ends <= datetime.now(UTC))
    ):
        raise unauthorized()
    extra = tuple(filter(None, data.get("auth-extra-groups", "").split(",")))
    return Identity(f"system:bootstrap:{public}", ("system:bootstrappers", *extra, "system:authenticated"))
