"""The datacenter: fakepve with everything of this package laid over it."""

import asyncio
import ssl

from aiohttp import web
from fakepve import FakePve
from fakepve.model import TaskError

from . import world
from .access import Access
from .access_api import AccessApi
from .clone_api import CloneApi
from .config_api import ConfigApi
from .faults import Faults, Journal
from .gate import Gate
from .ha_api import HaApi
from .nodes_link import NodesDown, NodesLink
from .pools_api import NestedPools
from .power_api import PowerApi
from .signin import SignIn
from .tasks_api import DEFAULT_PACES, TasksApi
from .upload_api import UploadApi
from .views_api import ViewsApi


class Datacenter(
    Gate,
    SignIn,
    AccessApi,
    NestedPools,
    ViewsApi,
    TasksApi,
    ConfigApi,
    CloneApi,
    PowerApi,
    UploadApi,
    HaApi,
    FakePve,
):
    """Three nodes, each with an address of its own, over one shared state."""

    def __init__(self, address_base: str, port: int, nodes_url: str | None) -> None:
        super().__init__(host=f"{address_base}.1", port=port)
        self.address_base = address_base
        self.nodes_link = NodesLink(nodes_url)
        self.running_jobs: set[asyncio.Future] = set()
        self.fingerprint = ""
        self.sites: dict[str, web.TCPSite] = {}
        self.tls: ssl.SSLContext | None = None
        self.client_max_size = 1024**3
        self.max_requests = 10  # fakepve's own record; ours is the journal
        self.acl = {}  # never None: fakepve then asks allowed(), which is ours
        self._begin()

    def _begin(self) -> None:
        """The first state of everything that changes."""
        self.time_scale = 1.0
        self.cluster_name = "lab"
        self.ha_delay = 0
        self.quorate = True
        self.journal = Journal()
        self.faults = Faults()
        self.paces = dict(DEFAULT_PACES)
        self.realms = {name: dict(row) for name, row in world.REALMS.items()}
        self.csrf: dict[str, str] = {}
        self.challenges: dict[str, tuple[str, float]] = {}
        self.totp_once, self.totp_skew = False, 0.0
        self.totp_used: set[tuple[str, str, int]] = set()
        self.iso_bytes: dict[str, bytes] = {}
        self.ha_resources: dict[str, dict] = {}
        self.ha_rules: dict[str, dict] = {}
        self.vms, self.tasks, self.tasklog, self.tickets = [], {}, [], {}
        self.failures, self.requests = {}, []
        self.access = Access(self._pool_members, self._pools_of)
        world.seed(self)
        self.node_by_ip = {state["ip"]: name for name, state in self.nodes.items()}

    # ------------------------------------------------------------- lifecycle

    async def open(self, certfile: str, keyfile: str, fingerprint: str) -> None:
        """Listen on every node's address."""
        self.fingerprint = fingerprint
        self.tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.tls.load_cert_chain(certfile, keyfile)
        self.runner = web.AppRunner(self._build_app(), access_log=None, shutdown_timeout=1)
        await self.runner.setup()
        for name in sorted(self.nodes):
            await self._listen(name)

    async def _listen(self, name: str) -> None:
        site = web.TCPSite(self.runner, self.nodes[name]["ip"], self.port, ssl_context=self.tls)
        await site.start()
        self.sites[name] = site
        if not self.port:
            self.port = self.runner.addresses[0][1]

    def endpoints(self) -> list[str]:
        """The API addresses, one a node."""
        return [f"https://{state['ip']}:{self.port}" for _name, state in sorted(self.nodes.items())]

    async def shut(self) -> None:
        """Stop listening and end what runs."""
        for job in list(self.running_jobs):
            job.cancel()
        await self.nodes_link.close()
        if self.runner:
            await self.runner.cleanup()

    async def reset(self) -> None:
        """Everything as at the start; machines of lab/nodes are dropped too."""
        jobs = list(self.running_jobs)
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
        offline = [n for n, s in self.nodes.items() if not s["online"]]
        self._begin()
        for name in offline:
            await self._listen(name)
        if self.nodes_link.url:
            await self.nodes_link.call("POST", "/reset", {})

    # ----------------------------------------------------------------- nodes

    async def set_online(self, name: str, online: bool, machines: str = "lost") -> None:
        """A node dies (its address refuses, its machines lose power unless `kept`) or returns (onboot ones start)."""
        state = self.nodes[name]
        if state["online"] == online:
            return
        state["online"] = online
        self.quorate = sum(s["online"] for s in self.nodes.values()) * 2 > len(self.nodes)
        mine = [vm for vm in self.vms if vm.node == name]
        if not online:
            await self.sites.pop(name).stop()
            for job in [j for j in self.running_jobs if getattr(j, "task_node", None) == name]:
                job.cancel()
            for vm in mine if machines == "lost" else ():
                if vm.status == "running":
                    await self._quietly(self.power_off(vm, "stop"))
            return
        await self._listen(name)
        for vm in mine:
            if vm.status != "running" and str(vm.config.get("onboot", 0)) == "1" and not vm.template:
                await self._quietly(self.power_on(vm))

    @staticmethod
    async def _quietly(change) -> None:
        try:
            await change
        except (TaskError, NodesDown):
            return
