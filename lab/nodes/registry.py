"""A registry that can only be read: charts as OCI artifacts, with a token from the same address, as public ones ask."""

import hashlib
import json
from typing import Any

from aiohttp import web

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.cncf.helm.config.v1+json"
CHART = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
TOKEN = "read-only"


class Registry:
    """`/v2/<name>/manifests/<tag or digest>`, `/v2/<name>/blobs/<digest>`, `/v2/<name>/tags/list`, `/v2/token`."""

    def __init__(self) -> None:
        self._blobs: dict[str, bytes] = {}
        self._manifests: dict[tuple[str, str], bytes] = {}

    def add(self, name: str, version: str, data: bytes, chart: dict[str, Any]) -> None:
        """Puts a packed chart there; a plus sign in its version becomes an underscore, as Helm has it."""
        config = json.dumps(chart, sort_keys=True).encode()
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"mediaType": CONFIG, "digest": self._blob(config), "size": len(config)},
            "layers": [{"mediaType": CHART, "digest": self._blob(data), "size": len(data)}],
        }
        raw = json.dumps(manifest).encode()
        for tag in (version.replace("+", "_"), _digest(raw)):
            self._manifests[name, tag] = raw

    def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answers one request."""
        if request.method not in ("GET", "HEAD"):
            return _error(405, "UNSUPPORTED", "this registry can only be read")
        path = request.path.strip("/").removeprefix("v2").strip("/")
        if path == "token":
            return web.json_response({"token": TOKEN, "expires_in": 300})
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            refused = _error(401, "UNAUTHORIZED", "a token is needed")
            realm = f'Bearer realm="http://{request.host}/v2/token",service="lab",scope="repository:{path}:pull"'
            refused.headers["WWW-Authenticate"] = realm
            return refused
        if not path:
            return web.json_response({})
        name, _, rest = path.rpartition("/")
        name, _, kind = name.rpartition("/")
        if kind == "manifests" and (name, rest) in self._manifests:
            raw = self._manifests[name, rest]
            return web.Response(body=raw, content_type=MANIFEST, headers={"Docker-Content-Digest": _digest(raw)})
        if kind == "blobs" and rest in self._blobs:
            return web.Response(body=self._blobs[rest], content_type="application/octet-stream")
        if kind == "tags" and rest == "list":
            tags = sorted(tag for known, tag in self._manifests if known == name and not tag.startswith("sha256:"))
            return web.json_response({"name": name, "tags": tags})
        return _error(404, "MANIFEST_UNKNOWN", "there is no such thing here")

    def _blob(self, data: bytes) -> str:
        digest = _digest(data)
        self._blobs[digest] = data
        return digest


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _error(status: int, code: str, message: str) -> web.Response:
    return web.json_response({"errors": [{"code": code, "message": message}]}, status=status)
