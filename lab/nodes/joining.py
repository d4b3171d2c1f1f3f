"""Joining over real TLS: the authority's hash, the password, the critical settings, the node's own password."""

import asyncio
import hashlib
import os
import re
import secrets
import ssl
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import aiohttp

from lab.kube.identity import load_certificates
from lab.kube.tls import unchecked
from lab.nodes import flags
from lab.nodes.authorities import from_disk
from lab.nodes.versions import minor

if TYPE_CHECKING:
    from lab.nodes.cluster import SimCluster
    from lab.nodes.supervisor import Supervisor

_SECURE = re.compile(r"^K10([0-9a-f]{64})::(?:([^:]+):)?(.+)$")


class JoinRefused(Exception):
    """Joining failed for good; systemd starts the supervisor again."""


class NotYet(Exception):
    """The cluster does not answer; the supervisor itself tries again."""


def authority_hash(pem: str) -> str:
    """The hash in a token: of the file's bytes for one certificate, of the root's DER for a bundle (facts 2.5)."""
    found = load_certificates(pem.encode())
    if len(found) == 1:
        return hashlib.sha256(pem.encode()).hexdigest()
    from cryptography.hazmat.primitives.serialization import Encoding

    return hashlib.sha256(found[-1].public_bytes(Encoding.DER)).hexdigest()


class Joiner:
    """One joining machine's talk with the cluster."""

    def __init__(self, supervisor: "Supervisor") -> None:
        self._me = supervisor
        address = str(supervisor.config["server"]).rstrip("/")
        parts = urlsplit(address)
        if parts.scheme != "https" or not parts.hostname:
            raise JoinRefused(f"Invalid server url, failed to parse: {address}: server URL must be https")
        self._url = address
        token = str(supervisor.config["token"])
        match = _SECURE.match(token)
        if token.startswith("K10") and match is None:
            raise JoinRefused("failed to validate token: invalid token format")
        self._hash = match[1] if match else ""
        self._user = (match[2] if match else None) or ("server" if supervisor.role == "server" else "node")
        self._password = match[3] if match else token
        self.authority = ""

    async def trust(self) -> None:
        """Gets the cluster's authority and checks it against the token; raises JoinRefused or NotYet."""
        if not self._me.machine.addresses:
            raise NotYet(f'failed to get CA certs: Get "{self._url}/cacerts": dial tcp: network is unreachable')
        self.authority = (await self._get("/cacerts", unchecked(), {}, "failed to get CA certs"))[1]
        try:
            found = authority_hash(self.authority)
        except ValueError as error:
            raise NotYet(f"failed to get CA certs: {self._url}/cacerts is no certificate") from error
        if self._hash and found != self._hash:
            raise JoinRefused(
                "failed to validate token: token CA hash does not match the Cluster CA certificate hash: "
                f"{self._hash} != {found}"
            )

    async def ask(self, path: str, headers: dict[str, str] | None = None) -> Any:
        """Asks with the password over verified TLS; raises JoinRefused when the cluster refuses."""
        context = ssl.create_default_context(cadata=self.authority)
        where = f"/v1-{self._me.distribution}/{path}"
        basic = (
            aiohttp.encode_basic_auth(self._user, self._password)
            if hasattr(aiohttp, "encode_basic_auth")
            else aiohttp.BasicAuth(self._user, self._password).encode()
        )
        status, text = await self._get(
            where, context, {"Authorization": basic, **(headers or {})}, "failed to retrieve"
        )
        if status == 401:
            raise JoinRefused(f"failed to validate token: {self._url}{where}: 401 Unauthorized")
        if status in (502, 503):
            raise NotYet(f"{self._url}{where}: {text.strip()}")
        if status != 200:
            raise JoinRefused(f"{self._url}{where}: {status}: {_message(text)}")
        return text

    async def _get(self, path: str, context: ssl.SSLContext, headers: dict[str, str], what: str) -> tuple[int, str]:
        url = f"{self._url}{path}"
        host = urlsplit(self._url).hostname or ""
        if not host.startswith("127."):  # the lab's networks are loopback; nobody answers beyond
            raise NotYet(f'{what}: Get "{url}": dial tcp {host}: connect: no route to host')
        connector = aiohttp.TCPConnector(ssl=context, force_close=True)
        try:
            async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=10)) as session:
                async with session.get(url, headers=headers) as answer:
                    return answer.status, await answer.text()
        except aiohttp.ClientConnectorCertificateError as error:
            raise NotYet(f'{what}: Get "{url}": tls: failed to verify certificate: {_verify_text(error)}') from error
        except aiohttp.ClientConnectorError as error:
            parts = urlsplit(self._url)
            code = error.os_error.errno
            words = os.strerror(code).lower() if code else str(error.os_error)
            raise NotYet(
                f'{what}: Get "{url}": dial tcp {parts.hostname}:{parts.port or 443}: connect: {words}'
            ) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise NotYet(f'{what}: Get "{url}": {error}') from error


def _verify_text(error: aiohttp.ClientConnectorCertificateError) -> str:
    text = str(error.certificate_error)
    match = re.search(r"IP address mismatch, certificate is not valid for '([^']+)'", text) or re.search(
        r"Hostname mismatch, certificate is not valid for '([^']+)'", text
    )
    if match:
        return f"x509: certificate is valid for other names, not {match[1]}"
    return f"x509: certificate signed by unknown authority ({text})" if "verify failed" in text else f"x509: {text}"


def _message(text: str) -> str:
    match = re.search(r'"message": ?"([^"]*)"', text)
    return match[1] if match else text.strip()[:200]


async def _until_answered(me: "Supervisor", attempt: Any, waiting: str) -> Any:
    """Repeats an attempt while the cluster does not answer; each failure is a line in the journal."""
    said = ""
    while True:
        try:
            return await attempt()
        except NotYet as error:
            text = f"{waiting}: {error}"
            if text != said:
                me.log(text, "error")
                said = text
        await asyncio.sleep(min(5.0, me.world.timing.unit_restart))


async def join_server(me: "Supervisor") -> "SimCluster":
    """Joins as a server; raises JoinRefused as the real one would end."""
    joiner = Joiner(me)

    async def attempt() -> Any:
        import json

        await joiner.trust()
        return json.loads(await joiner.ask("server-bootstrap"))

    facts = await _until_answered(me, attempt, "Waiting for cluster to become available")
    cluster = me.world.clusters[facts["cluster"]]
    folder = f"{me.data}/server/tls"
    for name, text in from_disk(me.machine.disk, folder).items():
        if text != facts["authorities"].get(name):
            raise JoinRefused(
                f"{folder}/{name} newer than datastore and could cause a cluster outage. Remove the file(s) "
                "from disk and restart to be recreated from datastore."
            )
    own = flags.critical(me.distribution, me.config)
    for name, value in facts["critical"].items():
        if own.get(name) != value:
            raise JoinRefused(
                "failed to validate server configuration: critical configuration value mismatch between "
                f"servers: {name}"
            )
    _check_version(me, facts["version"])
    # The cluster may fall silent between two questions: then this one is asked again, as the first was.
    await _until_answered(me, lambda: _node_password(me, joiner), "Waiting for cluster to become available")
    if refusal := cluster.member_joins(me.machine.disk.id, me.node_name):
        raise JoinRefused(f"ETCD join failed: {refusal}")
    me.log("Adding member to etcd cluster")
    return cluster


async def join_agent(me: "Supervisor") -> "SimCluster":
    """Joins as a worker."""
    joiner = Joiner(me)

    async def attempt() -> Any:
        import json

        await joiner.trust()
        try:
            facts = json.loads(await joiner.ask("config"))
            await _node_password(me, joiner)
        except JoinRefused as refusal:
            raise NotYet(str(refusal)) from refusal  # an agent never gives up
        return facts

    facts = await _until_answered(me, attempt, "Waiting to retrieve agent configuration; server is not ready")
    _check_version(me, facts["version"])
    return me.world.clusters[facts["cluster"]]


async def _node_password(me: "Supervisor", joiner: Joiner) -> None:
    path = "/etc/rancher/node/password"
    if me.machine.disk.read(path) is None:
        me.machine.disk.write(path, secrets.token_hex(16) + "\n", 0o600)
    file = me.machine.disk.read(path)
    title = me.distribution.capitalize()
    headers = {f"{title}-Node-Name": me.node_name, f"{title}-Node-Password": file.text.strip() if file else ""}
    try:
        await joiner.ask("serving-kubelet.crt", headers)
    except JoinRefused as refusal:
        if "hash does not match" in str(refusal):
            raise JoinRefused(
                "Node password rejected, duplicate hostname or contents of '/etc/rancher/node/password' "
                "may not match server node-passwd entry, try enabling a unique node name with the "
                "--with-node-id flag"
            ) from refusal
        raise


def _check_version(me: "Supervisor", cluster_version: str) -> None:
    if me.role == "agent" and minor(me.version) > minor(cluster_version):
        raise JoinRefused(f"kubelet {me.version} is newer than the API server {cluster_version}: not supported")
