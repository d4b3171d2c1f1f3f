"""A simulated cluster: what its servers share. Its etcd is one object store that works while a majority runs."""

import asyncio
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography import x509

from lab.kube.api import KubeApi
from lab.kube.identity import load_certificates
from lab.kube.objects import Obj, annotations_of, dig, key_of, meta, micro_text
from lab.kube.resources import Resource
from lab.nodes import own_addons, pod_network
from lab.nodes.authorities import pair_fits
from lab.nodes.cloud_controller import CloudController
from lab.nodes.kubeadm import tokens
from lab.nodes.versions import minor
from lab.nodes.workloads import Workloads

if TYPE_CHECKING:
    from lab.nodes.node_program import NodeProgram
    from lab.nodes.world import World

KUBEADM = "kubeadm"


class SimCluster:
    """One cluster. `facts` is what its first server decided: distribution, version, authorities, tokens, settings."""

    def __init__(self, world: "World", facts: dict[str, Any], journal: Path | None) -> None:
        self.world = world
        self.id: str = facts["id"]
        self.distribution: str = facts["distribution"]
        self.authorities: dict[str, str] = facts["authorities"]
        self.token: str = facts["token"]
        self.agent_token: str = facts["agent_token"]
        self.critical: dict[str, Any] = facts["critical"]
        self.config: dict[str, Any] = facts["config"]
        self.joinable: bool = facts["joinable"]
        self.members: dict[str, str] = dict(facts.get("members") or {})
        """Disk id -> node name of the etcd members that vote."""
        self.learners: dict[str, str] = {}
        """Members that were added and have not caught up; they count for no majority."""
        self.running: dict[str, NodeProgram] = {}
        """Servers that run, by disk id."""
        self.agents: dict[str, NodeProgram] = {}
        """Every program whose kubelet runs, by node name."""
        self.api = KubeApi(
            facts["version"], self.authorities["service.key"].encode(), self.authorities["server-ca.crt"], journal
        )
        self.client_authorities: list[x509.Certificate] = load_certificates(self.authorities["client-ca.crt"].encode())
        self.charts_trouble: dict[str, str] = {}
        self._seen: dict[str, float] = {}
        self._workloads = Workloads(self.api)
        self._cloud = CloudController(self)
        self._task: asyncio.Task[None] | None = None
        if self.distribution != KUBEADM:
            pod_network.serve_chart_kinds(self.api)
        self.api.after.append(self._react)

    @classmethod
    def found(cls, world: "World", facts: dict[str, Any]) -> "SimCluster":
        """A new cluster, as its initialiser starts it."""
        facts = {"id": str(uuid.uuid4()), **facts}
        return cls(world, facts, world.journal_of(facts["id"]))

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "distribution": self.distribution,
            "authorities": self.authorities,
            "token": self.token,
            "agent_token": self.agent_token,
            "critical": self.critical,
            "config": self.config,
            "joinable": self.joinable,
            "members": self.members,
            "version": self.api.version,
        }

    @property
    def cloud_log(self) -> list[str]:
        """What the simulated cloud controller would have logged."""
        return self._cloud.log

    # etcd

    @property
    def trouble(self) -> str:
        """Why the API cannot work, "" when it can."""
        alive = sum(1 for disk in self.members if disk in self.running)
        if self.members and alive < len(self.members) // 2 + 1:
            return "etcdserver: request timed out, waiting for the applied index took too long"
        return ""

    def member_joins(self, disk_id: str, node: str) -> str:
        """Adds an etcd member as a learner; returns why not, "" when it was added."""
        if self.trouble:
            return "etcdserver: re-configuration failed due to not enough started members"
        if node in self.members.values():
            return f"duplicate node name found, please use a unique name for this node: {node}"
        if not pair_fits(self.authorities["etcd/peer-ca.crt"], self.authorities["etcd/peer-ca.key"]):
            return "etcd peers refuse each other: x509: certificate signed by unknown authority"
        if self.learners and disk_id not in self.learners:
            return "etcdserver: too many learner members in cluster"
        self.learners[disk_id] = node
        return ""

    def learner_fails(self, disk_id: str) -> None:
        """A joining server ended before it had caught up."""
        self.learners.pop(disk_id, None)

    def member_leaves(self, node: str) -> None:
        """Removes a member; its server ends by itself."""
        for disk_id in [disk for disk, name in self.members.items() if name == node]:
            del self.members[disk_id]
            if (server := self.running.get(disk_id)) is not None:
                server.evict("etcd member was removed from the cluster")
        self.world.save_cluster(self)

    # servers and kubelets

    def server_starts(self, server: "NodeProgram") -> None:
        disk_id = server.machine.disk.id
        self.running[disk_id] = server
        if (node := self.learners.pop(disk_id, None)) is not None:
            self.members[disk_id] = node
        if server.version != self.api.version and not self._older(server.version):
            self.api.version = server.version
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work())
        self.world.save_cluster(self)

    def _older(self, version: str) -> bool:
        return minor(version) < minor(self.api.version)

    async def server_stops(self, server: "NodeProgram") -> None:
        self.running.pop(server.machine.disk.id, None)
        self.learners.pop(server.machine.disk.id, None)
        if not self.running and self._task is not None:
            task, self._task = self._task, None
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def address_of(self, disk_id: str) -> str:
        """The address of the machine with this disk, as its network is configured; "" when there is none."""
        for machine in self.world.machines.values():
            if machine.disk.id == disk_id and machine.disk.network:
                return machine.disk.network[0].split("/")[0]
        return ""

    def api_hosts(self) -> set[str]:
        """Addresses at which the API may be reached from a node."""
        found = {name for server in self.running.values() for name in server.sans}
        return found | {server.vip.address for server in self.running.values() if server.vip is not None}

    def beats(self, node: str) -> None:
        """A kubelet's sign of life."""
        self._seen[node] = asyncio.get_running_loop().time()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self.api.store.close()

    # controllers

    async def _work(self) -> None:
        """The controllers of one cluster; they run while a server does and etcd has its majority."""
        loop = asyncio.get_running_loop()
        for name in self.agents:
            self._seen.setdefault(name, loop.time())
        while True:
            await asyncio.sleep(self.world.timing.tick)
            if self.trouble:
                continue
            try:
                self._judge_nodes(loop.time())
                pod_network.reconcile(self)
                if self.distribution == KUBEADM:
                    tokens.reconcile(self.api)
                own_addons.reconcile(self)
                self._workloads.reconcile()
                await self._cloud.look(loop.time())
            except Exception as error:
                self.world.note_error(f"controllers of {self.id}: {error!r}")

    def _judge_nodes(self, now: float) -> None:
        for node in self.api.rows("nodes"):
            name = meta(node)["name"]
            if name in self.agents:
                continue
            if now - self._seen.setdefault(name, now) > self.world.timing.grace:
                self.api.change("nodes", ("", name), _silent)

    def _react(self, what: str, resource: Resource, obj: Obj) -> None:
        if resource.plural != "nodes":
            return
        name = key_of(obj)[1]
        if what == "removed":
            self._seen.pop(name, None)
            self.api.take("leases", ("kube-node-lease", name))
            if self.distribution != KUBEADM:
                self.api.take("secrets", ("kube-system", f"{name}.node-password.{self.distribution}"))
                self.member_leaves(name)
        elif what == "updated" and self.distribution != KUBEADM:
            prefix = f"etcd.{self.distribution}.cattle.io/"
            asked = annotations_of(obj).get(f"{prefix}remove") == "true"
            if asked and f"{prefix}removed-node-name" not in annotations_of(obj) and name in self.members.values():
                self.member_leaves(name)
                self.api.change(
                    "nodes",
                    ("", name),
                    lambda node: node["metadata"]["annotations"].update({f"{prefix}removed-node-name": name}),
                )


def _silent(node: Obj) -> None:
    now = micro_text()[:19] + "Z"
    for condition in dig(node, "status", "conditions", default=[]):
        if condition["status"] != "Unknown":
            condition.update(
                status="Unknown",
                reason="NodeStatusUnknown",
                message="Kubelet stopped posting node status.",
                lastTransitionTime=now,
            )
    taints = node["spec"].setdefault("taints", [])
    for effect in ("NoSchedule", "NoExecute"):
        if not any(item["key"] == "node.kubernetes.io/unreachable" and item["effect"] == effect for item in taints):
            taints.append({"key": "node.kubernetes.io/unreachable", "effect": effect, "timeAdded": now})
