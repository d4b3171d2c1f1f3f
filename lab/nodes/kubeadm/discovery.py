"""How a joining machine finds and trusts its cluster: over real TLS, by the token's signature and the pinned key."""

import base64
import os
import re
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import aiohttp

from lab.kube.objects import Obj, dig
from lab.kube.tls import unchecked
from lab.nodes.kubeadm import pki, tokens
from lab.nodes.kubeadm.configuration import Join, Refused
from lab.yaml_reader import read_yaml

if TYPE_CHECKING:
    from lab.nodes.machine import Machine

_INFO = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
_SECONDS = 10


class NotYet(Exception):
    """Nobody answers, or nothing is signed yet; kubeadm tries again."""


@dataclass(frozen=True)
class Found:
    """A cluster that may be trusted. `info_uid` tells which simulated one it is."""

    server: str
    authority: bytes = field(repr=False)
    info_uid: str


class Talk:
    """One machine's requests to API servers."""

    def __init__(self, machine: "Machine") -> None:
        self._machine = machine

    async def get(self, server: str, path: str, authority: bytes | None, token: str = "") -> tuple[int, Obj]:
        """One GET; without an authority nobody's certificate is checked. Raises NotYet when it is not answered."""
        url = f"{server}{path}"
        host = re.sub(r":\d+$", "", server.removeprefix("https://"))
        if not self._machine.addresses:
            raise NotYet(f'Get "{url}": dial tcp {host}: connect: network is unreachable')
        if self._machine.fault.unreachable or not host.startswith("127."):
            raise NotYet(f'Get "{url}": dial tcp {host}: connect: no route to host')
        # An empty authority is a wrong one, not none: its holder would trust nobody's server.
        context = unchecked() if authority is None else ssl.create_default_context(cadata=authority.decode())
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            async with (
                aiohttp.ClientSession(
                    connector=aiohttp.TCPConnector(ssl=context, force_close=True),
                    timeout=aiohttp.ClientTimeout(total=_SECONDS),
                ) as session,
                session.get(url, headers=headers) as answer,
            ):
                body = await answer.json(content_type=None)
                return answer.status, body if isinstance(body, dict) else {}
        except aiohttp.ClientConnectorCertificateError as error:
            raise NotYet(f'Get "{url}": tls: failed to verify certificate: {_certificate(error)}') from error
        except aiohttp.ClientConnectorError as error:
            code = error.os_error.errno
            words = os.strerror(code).lower() if code else str(error.os_error)
            raise NotYet(f'Get "{url}": dial tcp {host}: connect: {words}') from error
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise NotYet(f'Get "{url}": {error or "context deadline exceeded"}') from error

    async def discover(self, join: Join) -> Found:
        """One try. Raises NotYet where kubeadm goes on asking, Refused where it ends."""
        identity, secret = join.token.split(".", 1)
        server = f"https://{join.endpoint}"
        info = await self._info(server, None, identity)
        for pinned in join.hashes:
            kind, _, value = pinned.partition(":")
            if kind != "sha256" or not re.fullmatch(r"[0-9a-f]{64}", value):
                why = f'invalid hash "{pinned}"' if kind == "sha256" else f'unknown hash format "{kind}"'
                raise Refused(
                    f"{_IDENTITY}: invalid discovery token CA certificate hash: {why}. Known format(s) are: sha256"
                )
        content = str(info["data"].get("kubeconfig", ""))
        found = str(info["data"].get(f"{tokens.PREFIX}{identity}", ""))
        if found != tokens.signature(content, identity, secret):
            raise Refused(
                f"{_IDENTITY}: failed to verify JWS signature of received cluster info object, can't trust this API "
                "Server"
            )
        cluster = dig(read_yaml(content), "clusters", 0, "cluster", default={})
        authority = base64.b64decode(cluster.get("certificate-authority-data") or "")
        hashed = pki.public_key_hash(authority)
        if join.hashes and hashed not in join.hashes:
            raise Refused(
                f"{_IDENTITY}: cluster CA found in cluster-info ConfigMap is invalid: none of the public keys "
                f'"{hashed}" are pinned'
            )
        again = await self._info(server, authority, identity)
        if again["data"].get("kubeconfig") != content:
            raise Refused(
                f"{_IDENTITY}: the second kubeconfig from the cluster-info ConfigMap (using validated TLS) was "
                "different from the first"
            )
        return Found(str(cluster.get("server")), authority, str(info["metadata"]["uid"]))

    async def _info(self, server: str, authority: bytes | None, identity: str) -> Obj:
        try:
            status, info = await self.get(server, _INFO, authority)
        except NotYet as error:
            raise NotYet(f"failed to request the cluster-info ConfigMap: {error}") from error
        if status != 200:
            raise NotYet(f"failed to request the cluster-info ConfigMap: {info.get('message', status)}")
        if f"{tokens.PREFIX}{identity}" not in info["data"]:
            raise NotYet(f'could not find a JWS signature in the cluster-info ConfigMap for token ID "{identity}"')
        return info

    async def config(self, found: Found, token: str) -> Obj:
        """The cluster's ClusterConfiguration, read with the token. Raises NotYet or Refused."""
        path = "/api/v1/namespaces/kube-system/configmaps/kubeadm-config"
        status, config = await self.get(found.server, path, found.authority, token)
        if status in (500, 503):
            raise NotYet(str(config.get("message")))
        if status != 200:
            raise Refused(f"unable to fetch the kubeadm-config ConfigMap: failed to get config map: "
                          f"{config.get('message', status)}")  # fmt: skip
        document = read_yaml(config["data"]["ClusterConfiguration"])
        return document if isinstance(document, dict) else {}

    async def node(self, server: str, authority: bytes, token: str, name: str) -> Obj | None:
        """A Node as who joins sees it; None when there is none. Raises NotYet or Refused."""
        status, node = await self.get(server, f"/api/v1/nodes/{name}", authority, token)
        if status == 404:
            return None
        if status in (500, 503):
            raise NotYet(str(node.get("message")))
        if status != 200:
            raise Refused(f'cannot get Node "{name}": {node.get("message", status)}')
        return node


_IDENTITY = "couldn't validate the identity of the API Server"


def _certificate(error: aiohttp.ClientConnectorCertificateError) -> str:
    text = str(error.certificate_error)
    match = re.search(r"mismatch, certificate is not valid for '([^']+)'", text)
    if match:
        return f"x509: certificate is valid for other names, not {match[1]}"
    return "x509: certificate signed by unknown authority" if "verify failed" in text else f"x509: {text}"
