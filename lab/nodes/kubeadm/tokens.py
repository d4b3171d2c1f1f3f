"""The controller manager's part in joining: it signs cluster-info for every valid token and sweeps up expired ones."""

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime

from lab.kube.api import KubeApi
from lab.kube.objects import Obj, key_of, parse_time

KIND = "bootstrap.kubernetes.io/token"
PREFIX = "jws-kubeconfig-"


def signature(content: str, identity: str, secret: str) -> str:
    """A detached JWS (HS256) of a text: the part between the dots is left out."""
    header = _b64(json.dumps({"alg": "HS256", "kid": identity}, separators=(",", ":")).encode())
    signed = f"{header}.{_b64(content.encode())}".encode()
    return f"{header}..{_b64(hmac.new(secret.encode(), signed, hashlib.sha256).digest())}"


def reconcile(api: KubeApi) -> None:
    """One look at all tokens and at cluster-info."""
    valid: dict[str, str] = {}
    for secret in api.rows("secrets", "kube-system"):
        if secret.get("type") != KIND:
            continue
        data = _decoded(secret)
        ends = parse_time(data.get("expiration"))
        if ends is not None and ends <= datetime.now(UTC):
            api.take("secrets", key_of(secret))
        elif data.get("usage-bootstrap-signing") == "true":
            valid[data.get("token-id", "")] = data.get("token-secret", "")
    info = api.find("configmaps", "kube-public", "cluster-info")
    if info is None:
        return
    kept = {name: text for name, text in info["data"].items() if not name.startswith(PREFIX)}
    content = str(kept.get("kubeconfig", ""))
    wanted = {**kept, **{f"{PREFIX}{token}": signature(content, token, text) for token, text in valid.items()}}
    if wanted != info["data"]:
        api.change("configmaps", ("kube-public", "cluster-info"), lambda found: found.update(data=wanted))


def _decoded(secret: Obj) -> dict[str, str]:
    return {name: base64.b64decode(text).decode() for name, text in (secret.get("data") or {}).items()}


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
