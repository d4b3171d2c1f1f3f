"""The supervisor's own endpoints: what joining machines ask (k3s on the API's port, RKE2 on 9345)."""

import base64
import binascii
import hashlib
import hmac
from typing import TYPE_CHECKING

from aiohttp import web

from lab.kube import refusals

if TYPE_CHECKING:
    from lab.nodes.cluster import SimCluster


class Registration:
    """Answers joining machines for one cluster."""

    def __init__(self, cluster: "SimCluster") -> None:
        self._cluster = cluster

    async def only(self, request: web.BaseRequest) -> web.StreamResponse:
        """Handler of a port that serves nothing else."""
        answer = await self(request)
        return answer if answer is not None else web.Response(status=404, text="404 page not found\n")

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse | None:
        """Answers when the path is one of ours, else None."""
        path, cluster = request.path, self._cluster
        if path == "/cacerts":
            return web.Response(text=cluster.authorities["server-ca.crt"], content_type="text/plain")
        if path == "/ping":
            return web.Response(text="pong")
        prefix = f"/v1-{cluster.distribution}/"
        if not path.startswith(prefix):
            return None
        who = self._password(request)
        if not who:
            return web.json_response(refusals.unauthorized().body, status=401)
        if cluster.trouble:
            return web.json_response({"message": f"{cluster.trouble}"}, status=503)
        what = path.removeprefix(prefix)
        if what == "readyz":
            return web.Response(text="ok")
        if what == "server-bootstrap":
            return self._bootstrap(who)
        if what == "config":
            return web.json_response(
                {
                    "cluster": cluster.id,
                    "version": cluster.api.version,
                    "disable-kube-proxy": cluster.critical.get("disable-kube-proxy"),
                }
            )
        if what == "serving-kubelet.crt":
            return self._node_password(request)
        return web.Response(status=404, text="404 page not found\n")

    def _password(self, request: web.BaseRequest) -> str:
        """`server` or `node` for the right password, "" for a wrong one."""
        header = request.headers.get("Authorization", "")
        try:
            user, _, password = base64.b64decode(header.removeprefix("Basic ")).decode().partition(":")
        except (ValueError, binascii.Error):
            return ""
        wanted = {"server": self._cluster.token, "node": self._cluster.agent_token}
        if user == "node" and hmac.compare_digest(password, self._cluster.token):
            return "node"
        return user if user in wanted and hmac.compare_digest(password, wanted[user]) else ""

    def _bootstrap(self, who: str) -> web.Response:
        cluster = self._cluster
        if who != "server":
            return web.json_response({"message": "forbidden: the agent token does not admit servers"}, status=403)
        if not cluster.joinable:
            return web.json_response(
                {"message": "this server does not run embedded etcd: start it with cluster-init"}, status=400
            )
        return web.json_response(
            {
                "cluster": cluster.id,
                "version": cluster.api.version,
                "critical": cluster.critical,
                "authorities": cluster.authorities,
            }
        )

    def _node_password(self, request: web.BaseRequest) -> web.Response:
        """Keeps the first password that a node name came with; another later is refused (facts 2.8)."""
        cluster, api = self._cluster, self._cluster.api
        title = cluster.distribution.capitalize()
        name = request.headers.get(f"{title}-Node-Name", "")
        password = request.headers.get(f"{title}-Node-Password", "")
        if not name or not password:
            return web.json_response({"message": "node name and password are missing"}, status=400)
        secret = f"{name}.node-password.{cluster.distribution}"
        digest = base64.b64encode(hashlib.sha256(password.encode()).hexdigest().encode()).decode()
        found = api.find("secrets", "kube-system", secret)
        if found is None:
            api.ensure(
                {
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "metadata": {"name": secret, "namespace": "kube-system"},
                    "immutable": True,
                    "data": {"hash": digest},
                },
                cluster.distribution,
            )
        elif found["data"].get("hash") != digest:
            return web.json_response(
                {"message": f"unable to verify password for node {name}: hash does not match"}, status=403
            )
        return web.Response(text="ok")
