"""What makes a machine a node, whoever plays it: the supervisor of k3s and RKE2, or kubeadm's kubelet."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from lab.kube.http import ApiHandler, Listener
from lab.nodes import kubelet, pod_network
from lab.nodes.kube_vip import KubeVip

if TYPE_CHECKING:
    from lab.nodes.cluster import SimCluster
    from lab.nodes.machine import Machine

Port = tuple[str, int, Callable[..., Awaitable[Any]], ssl.SSLContext]
"""Host, port, who answers there, and with which certificate."""


class Fatal(Exception):
    """The program ends with this line in its journal."""


class NodeProgram:
    """One run of the program, from start to exit.

    Args:
        machine: where it runs.
        distribution: `k3s`, `rke2` or `kubeadm`.
        version: its version.
        unit: the unit whose journal its words go to.
    """

    def __init__(self, machine: "Machine", distribution: str, version: str, unit: str) -> None:
        self.machine = machine
        self.world = machine.world
        self.distribution = distribution
        self.version = version
        self.unit = unit
        self.node_name = ""
        self.cluster: SimCluster | None = None
        self.context: ssl.SSLContext | None = None
        self.sans: list[str] = []
        self.handler: ApiHandler | None = None
        self.vip: KubeVip | None = None
        self.phase = "starting"
        self._listeners: list[Listener] = []
        self._evicted = asyncio.Event()
        self._why_evicted = ""

    # what the outside sees

    @property
    def extra_addresses(self) -> list[str]:
        return [f"{self.vip.address}/32"] if self.vip is not None and self.vip.holds else []

    @property
    def address(self) -> str:
        """The node's address as the program takes it."""
        return self.machine.address

    @property
    def role(self) -> str:
        """`server`, or the distribution's word for a worker."""
        raise NotImplementedError

    def describe(self) -> dict[str, Any]:
        return {
            "program": self.distribution,
            "version": self.version,
            "role": self.role,
            "phase": self.phase,
            "node": self.node_name,
            "cluster": self.cluster.id if self.cluster else None,
            "vip": bool(self.vip and self.vip.holds),
        }

    def log(self, line: str, level: str = "info") -> None:
        raise NotImplementedError

    def pod_log(self, pod: str, line: str) -> None:
        """A line of a static pod's container."""
        self.log(f"{pod}: {line}")

    def ports(self, host: str) -> list[Port]:
        """What this server answers at an address, its own or the virtual one."""
        raise NotImplementedError

    def network_trouble(self, cluster: "SimCluster") -> str:
        """Why no pod network runs on this node, "" when one does."""
        return pod_network.ready(cluster)

    def evict(self, why: str) -> None:
        """Ends the server: its etcd member was removed."""
        self._why_evicted = why
        self._evicted.set()

    # running

    async def run(self) -> int:
        """Runs until the power goes or the program ends by itself; returns its exit status."""
        raise NotImplementedError

    async def stop(self) -> None:
        """Takes everything of this run away at once."""
        self.phase = "stopped"
        if self.vip is not None:
            await self.vip.stop()
            self.vip = None
        if self.handler is not None:
            self.handler.stop.set()
        for listener in self._listeners:
            await listener.stop()
        self._listeners.clear()
        if self.cluster is not None:
            if self.cluster.agents.get(self.node_name) is self:
                del self.cluster.agents[self.node_name]
                self.cluster.beats(self.node_name)
            self.cluster.learner_fails(self.machine.disk.id)
            if self.cluster.running.get(self.machine.disk.id) is self:
                await self.cluster.server_stops(self)

    async def _listen(self, ports: list[Port]) -> None:
        """Begins to answer; raises Fatal when an address or a port cannot be had."""
        for host, port, answer, context in ports:
            listener = Listener(host, port, answer, context)
            try:
                await listener.start()
            except OSError as error:
                raise Fatal(f"listen tcp {host}:{port}: bind: {error.strerror or error}") from error
            self._listeners.append(listener)

    def _start_kube_vip(self, cluster: "SimCluster", name: str, text: str) -> None:
        """Starts kube-vip when this static pod is one; what is wrong with it is a line in the journal."""
        vip, problem = KubeVip.from_manifest(self, cluster, text)
        if problem.startswith("kube-vip"):
            self.pod_log("kube-vip", problem)
        elif problem:
            self.log(f"static pod {name}: {problem}", "error")
        if vip is not None:
            self.vip = vip
            vip.start()

    async def _keep_node(self, cluster: "SimCluster", looks: "kubelet.Looks", voter: bool | None) -> None:
        """Registers the node and keeps it alive until the server is thrown out."""
        while cluster.trouble:
            await self._pause(self.world.timing.tick)
        name = self.node_name
        kubelet.register(cluster.api, self.machine.hardware, looks)
        cluster.agents[name] = self
        cluster.beats(name)
        self.log(f"Node {name} registered")
        await self._pause(self.world.timing.ready)
        last = asyncio.get_running_loop().time()
        while not self._evicted.is_set():
            if not cluster.trouble and cluster.api.find("nodes", "", name) is not None:
                trouble = "held by a fault rule" if self.machine.fault.never_ready else self.network_trouble(cluster)
                kubelet.set_ready(cluster.api, name, trouble, voter)
                now = asyncio.get_running_loop().time()
                if now - last >= self.world.timing.heartbeat:
                    last = now
                    kubelet.beat(cluster.api, name)
            cluster.beats(name)
            await self._pause(self.world.timing.tick * 2)

    async def _pause(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._evicted.wait(), seconds)
        except TimeoutError:
            return
