"""What is listed and what is hidden: nodes, cluster resources and status, bridges, zones, storages."""

from aiohttp import web
from fakepve import shapes
from fakepve.model import PveError
from fakepve.server import USER, ok

from .config_api import ZONE


class ViewsApi:
    """Mixin: reads that PVE filters by the reader's privileges."""

    def _routes_zz_views(self):
        node = "/nodes/{node}"
        return [
            ("GET", node + "/status", self._node_status),
            ("GET", node + "/network", self._node_network),
            ("GET", node + "/sdn/zones", self._node_zones),
            ("GET", "/cluster/sdn/zones", self._nothing),
            ("GET", "/cluster/sdn/vnets", self._nothing),
            ("GET", "/cluster/options", self._cluster_options),
            ("GET", node + "/version", self._node_version),
        ]

    async def _nothing(self, v, user):
        return []

    async def _node_version(self, v, user):
        return {"version": self.version, "release": self.release_version, "repoid": "labpve"}

    async def _cluster_options(self, v, user):
        return {"keyboard": "en-us", "next-id": {}, "allowed-tags": [], "registered-tags": []}

    # ---------------------------------------------------------------- nodes

    def memory_used(self, name):
        """Bytes in use on a node: what the host takes plus the memory of its running machines."""
        used = self.nodes[name].get("mem_base", 2 * shapes.GiB)
        for vm in self.vms:
            if vm.node == name and vm.status == "running":
                used += int(str(vm.config.get("memory", 512)).split("=")[-1]) * 1024**2
        return min(used, self.nodes[name]["maxmem"])

    def _stats(self, user, name):
        state = self.nodes[name]
        if not state.get("online", True) or not self.allowed(user, "/nodes/" + name, "Sys.Audit"):
            return {}
        return {
            "cpu": 0.02,
            "maxcpu": state.get("maxcpu", 16),
            "mem": self.memory_used(name),
            "maxmem": state["maxmem"],
            "disk": 4 * shapes.GiB,
            "maxdisk": 64 * shapes.GiB,
            "uptime": 3600,
        }

    def _node_row(self, user, name):
        online = self.nodes[name].get("online", True)
        row = {
            "id": "node/" + name,
            "type": "node",
            "node": name,
            "status": "online" if online else "offline",
            "level": "",
        }
        return row | self._stats(user, name)

    async def _nodes(self, request):
        user = request[USER]
        return ok([self._node_row(user, n) | {"ssl_fingerprint": self.fingerprint} for n in sorted(self.nodes)])

    async def _node_status(self, v, user):
        name = v["node"]
        total, used = self.nodes[name]["maxmem"], self.memory_used(name)
        memory = {"total": total, "used": used, "free": total - used, "available": total - used}
        return {
            "memory": memory,
            "cpu": 0.02,
            "wait": 0,
            "uptime": 3600,
            "loadavg": ["0.10", "0.10", "0.10"],
            "pveversion": f"pve-manager/{self.version}/labpve",
            "kversion": "Linux 6.14.0-lab",
            "cpuinfo": {"cpus": self.nodes[name].get("maxcpu", 16), "cores": 16, "sockets": 1, "model": "lab"},
            "rootfs": {
                "total": 64 * shapes.GiB,
                "used": 4 * shapes.GiB,
                "free": 60 * shapes.GiB,
                "avail": 60 * shapes.GiB,
            },
            "swap": {"total": 0, "used": 0, "free": 0},
        }

    # ------------------------------------------------------------ resources

    def _vm_row(self, user, vm):
        online = self.nodes[vm.node].get("online", True)
        row = {
            "id": vm.guest,
            "type": "qemu",
            "node": vm.node,
            "vmid": vm.vmid,
            "name": vm.name,
            "status": vm.status if online else "unknown",
            "template": 1 if vm.template else 0,
        }
        if online:
            row.update(self._vm_usage(vm))
        if vm.config.get("tags"):
            row["tags"] = vm.config["tags"]
        if vm.lock:
            row["lock"] = vm.lock
        if vm.pool and self.allowed(user, "/pool/" + vm.pool, "Pool.Audit"):
            row["pool"] = vm.pool
        if vm.ha_managed:
            row["hastate"] = vm.ha_state
        return row

    async def _resources(self, request):
        user, kind = request[USER], request.query.get("type")
        if kind not in (None, "vm", "node", "storage", "sdn", "pool"):
            raise PveError(
                400, "Parameter verification failed.", {"type": "value does not have a value in the enumeration"}
            )
        rows = []
        if kind is None:
            for name in sorted(self.pools):
                if self.allowed(user, "/pool/" + name, "Pool.Audit"):
                    rows.append({"id": "/pool/" + name, "type": "pool", "pool": name})
        if kind in (None, "vm"):
            for vm in sorted(self.vms, key=lambda x: x.vmid):
                if self.allowed(user, f"/vms/{vm.vmid}", "VM.Audit"):
                    rows.append(self._vm_row(user, vm))
        if kind in (None, "node"):
            rows += [self._node_row(user, name) for name in sorted(self.nodes)]
        if kind in (None, "storage"):
            for node in sorted(self.nodes):
                for name in sorted(self.storages):
                    row = self._storage_resource(node, name)
                    if row and self.allowed(user, "/storage/" + name, "Datastore.Audit"):
                        rows.append(row)
        if kind in (None, "sdn") and self.allowed(user, f"/sdn/zones/{ZONE}", "SDN.Audit"):
            rows += [
                {"id": f"sdn/{node}/{ZONE}", "type": "sdn", "node": node, "sdn": ZONE, "status": "ok"}
                for node in sorted(self.nodes)
            ]
        return ok(rows)

    def _storage_resource(self, node, name):
        row = super()._storage_resource(node, name)
        if row is None:
            return None
        total, used, _avail = self._space(self.storages[name])
        row.update(disk=used, maxdisk=total)
        if not self.nodes[node].get("online", True):
            row.update(status="unknown")
        return row

    async def _cluster_status(self, request):
        self.require(request[USER], "/", "Sys.Audit")
        here = self.node_of(request)
        online = sum(1 for s in self.nodes.values() if s.get("online", True))
        rows = [
            {
                "type": "cluster",
                "id": "cluster",
                "name": self.cluster_name,
                "nodes": len(self.nodes),
                "quorate": 1 if self.quorate else 0,
                "version": 3,
                "online": online,
            }
        ]
        for number, (name, state) in enumerate(sorted(self.nodes.items()), 1):
            rows.append(
                {
                    "type": "node",
                    "id": "node/" + name,
                    "name": name,
                    "nodeid": number,
                    "level": "",
                    "ip": state.get("ip", ""),
                    "online": 1 if state.get("online", True) else 0,
                    "local": 1 if name == here else 0,
                }
            )
        return ok(rows)

    # -------------------------------------------------------------- network

    def _sees_bridge(self, user, bridge):
        path = f"/sdn/zones/{ZONE}/{bridge}"
        paths = {path} | {p for p in self.access.acl if p.startswith(path + "/")}
        return any(self.allowed(user, p, priv) for p in paths for priv in ("SDN.Audit", "SDN.Use"))

    async def _node_network(self, v, user):
        rows = []
        for name, bridge in sorted(self.bridges.items()):
            if v.get("type") not in (None, "bridge", "any_bridge", "any_local_bridge", "include_sdn"):
                continue
            if not self._sees_bridge(user, name):
                continue
            rows.append({"iface": name, "type": "bridge", "active": 1, "autostart": 1, "method": "static"} | bridge)
        if v.get("type") in (None, "eth"):
            rows.append({"iface": "eno1", "type": "eth", "active": 1, "exists": 1, "method": "manual"})
        return rows

    async def _node_zones(self, v, user):
        if not self.allowed(user, f"/sdn/zones/{ZONE}", "SDN.Audit"):
            return []
        return [{"zone": ZONE, "status": "available"}]

    def node_of(self, request: web.Request) -> str:
        """The node whose own address this request came in on."""
        sock = request.transport.get_extra_info("sockname") if request.transport else None
        return self.node_by_ip.get(sock[0] if sock else "", min(self.nodes))
