"""etcd of a kubeadm server: its JSON gateway on the node's address, behind client certificates of etcd's authority."""

import hashlib
import ssl
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiohttp import web

from lab.nodes.disk import Disk
from lab.nodes.kubeadm.pki import FOLDER, signed_by

if TYPE_CHECKING:
    from lab.nodes.cluster import SimCluster

VERSION = "3.6.8"
_QUOTA = 2 * 1024**3


class Unusable(Exception):
    """etcd ends with this line."""


def member_id(disk_id: str) -> int:
    """The id of the member whose data lie on a disk."""
    return int(hashlib.sha256(disk_id.encode()).hexdigest()[:15], 16)


def context(disk: Disk) -> ssl.SSLContext:
    """TLS as etcd has it: a client without a certificate of its authority is refused in the handshake.

    Raises:
        Unusable: a certificate is missing or does not fit.
    """
    files = {name: disk.read(f"{FOLDER}/etcd/{name}") for name in ("server.crt", "server.key", "ca.crt")}
    for name, file in files.items():
        if file is None:
            raise Unusable(f"open {FOLDER}/etcd/{name}: no such file or directory")
    found = {name: file.data for name, file in files.items() if file is not None}
    if not signed_by(found["server.crt"], found["ca.crt"]):
        raise Unusable("remote error: tls: bad certificate")
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.num_tickets = 0
    made.options |= ssl.OP_NO_TICKET
    try:
        with tempfile.TemporaryDirectory() as folder:
            chain, key = Path(folder) / "chain.pem", Path(folder) / "key.pem"
            chain.write_bytes(found["server.crt"])
            key.touch(0o600)
            key.write_bytes(found["server.key"])
            made.load_cert_chain(chain, key)
        made.load_verify_locations(cadata=found["ca.crt"].decode())
    except (ssl.SSLError, ValueError) as error:
        raise Unusable(f"tls: {error}") from error
    made.verify_mode = ssl.CERT_REQUIRED
    return made


class Gateway:
    """Answers for one member: members, status, alarms and health."""

    def __init__(self, cluster: "SimCluster", disk_id: str) -> None:
        self._cluster = cluster
        self._mine = disk_id

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """One request."""
        trouble = self._cluster.trouble
        if request.method == "GET" and request.path == "/health":
            if trouble:
                return web.json_response({"health": "false", "reason": "RAFT NO LEADER"}, status=503)
            return web.json_response({"health": "true", "reason": ""})
        if request.method != "POST":
            return web.Response(status=404, text="404 page not found\n")
        body = await request.json() if request.can_read_body else {}
        if request.path == "/v3/cluster/member/list":
            if trouble and body.get("linearizable"):
                return web.json_response({"error": trouble, "code": 14, "message": trouble}, status=503)
            return web.json_response({"header": self._header(), "members": self._members()})
        if request.path == "/v3/maintenance/status":
            return web.json_response(self._status(trouble))
        if request.path == "/v3/maintenance/alarm":
            return web.json_response({"header": self._header(), "alarms": []})
        return web.json_response({"code": 5, "message": "Not Found"}, status=404)

    def _header(self) -> dict[str, Any]:
        revision = self._cluster.api.store.revision
        cluster = int(hashlib.sha256(self._cluster.id.encode()).hexdigest()[:15], 16)
        return {
            "cluster_id": str(cluster), "member_id": str(member_id(self._mine)), "revision": str(revision),
            "raft_term": "2",
        }  # fmt: skip

    def _members(self) -> list[dict[str, Any]]:
        """What a learner lacks, or a member that never started, the gateway leaves out."""
        cluster, found = self._cluster, []
        for disk_id, name in {**cluster.members, **cluster.learners}.items():
            address = cluster.address_of(disk_id)
            row: dict[str, Any] = {"ID": str(member_id(disk_id)), "peerURLs": [f"https://{address}:2380"]}
            if disk_id in cluster.members or disk_id in cluster.running:
                row |= {"name": name, "clientURLs": [f"https://{address}:2379"]}
            if disk_id in cluster.learners:
                row["isLearner"] = True
            found.append(row)
        return found

    def _status(self, trouble: str) -> dict[str, Any]:
        cluster = self._cluster
        leader = min((disk for disk in cluster.members if disk in cluster.running), default="")
        size = 1024 * 1024 + 200 * cluster.api.store.revision
        found: dict[str, Any] = {
            "header": self._header(), "version": VERSION, "dbSize": str(size), "dbSizeInUse": str(size),
            "dbSizeQuota": str(_QUOTA), "raftTerm": "2", "raftIndex": str(cluster.api.store.revision),
        }  # fmt: skip
        if trouble or not leader:
            return {**found, "errors": ["etcdserver: no leader"]}
        return {**found, "leader": str(member_id(leader))}
