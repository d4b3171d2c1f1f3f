"""The lab's own endpoints: state, journal, faults, latency, nodes, people. Plain HTTP JSON, loopback only."""

import re

from aiohttp import web
from fakepve.model import FakeVm, TaskError

from . import world
from .access import User
from .state import snapshot


def _bad(text, status=400):
    return web.json_response({"error": text}, status=status)


class Control:
    """Handlers over one datacenter."""

    def __init__(self, dc):
        self.dc = dc

    def app(self) -> web.Application:
        """The application to serve."""
        app = web.Application(middlewares=[self._guard])
        r = app.router
        r.add_get("/lab/state", self.state)
        r.add_get("/lab/journal", self.journal)
        r.add_get("/lab/faults", self.faults)
        r.add_post("/lab/faults", self.add_fault)
        r.add_delete("/lab/faults", self.clear_faults)
        r.add_get("/lab/nodes", self.nodes)
        r.add_put("/lab/nodes/{node}", self.node)
        r.add_get("/lab/latency", self.latency)
        r.add_put("/lab/latency", self.latency)
        r.add_put("/lab/quorum", self.quorum)
        r.add_get("/lab/people", self.people)
        r.add_put("/lab/people/{userid}", self.person)
        r.add_post("/lab/people/restore", self.restore)
        r.add_get("/lab/tickets", self.tickets)
        r.add_put("/lab/tickets", self.tickets)
        r.add_delete("/lab/tickets", self.tickets)
        r.add_post("/lab/foreign", self.foreign)
        r.add_put("/lab/vms/{vmid}", self.machine)
        r.add_delete("/lab/vms/{vmid}", self.machine_gone)
        r.add_put("/lab/storages/{storage}", self.storage)
        r.add_post("/lab/reset", self.reset)
        return app

    @web.middleware
    async def _guard(self, request, handler):
        try:
            return await handler(request)
        except (ValueError, KeyError, TypeError) as e:
            return _bad(f"{type(e).__name__}: {e}")

    # ------------------------------------------------------------------ reads

    async def state(self, request):
        """The whole state; `?settled=1` is refused with 409 while a task runs."""
        running = [t["upid"] for t in self.dc.tasklog if t["status"] == "running"]
        if request.query.get("settled") and running:
            return _bad("tasks are running", 409)
        return web.json_response(snapshot(self.dc))

    async def journal(self, request):
        return web.json_response(self.dc.journal.after(int(request.query.get("after", 0))))

    async def people(self, request):
        rows = [
            {
                "userid": name,
                "password": self.dc.access.users[name].password,
                "totp": self.dc.access.users[name].totp,
                "may": what,
            }
            for name, what in world.PEOPLE.items()
            if name in self.dc.access.users
        ]
        token = {"id": world.PLATFORM_TOKEN, "secret": world.PLATFORM_SECRET}
        return web.json_response({"people": rows, "platform": token})

    # ----------------------------------------------------------------- faults

    async def faults(self, request):
        return web.json_response([r.view() for r in self.dc.faults.rules])

    async def add_fault(self, request):
        """One rule or a list of them: {"match": {...}, "do": {...}}."""
        body = await request.json()
        rules = [self.dc.faults.add(r.get("match", {}), r["do"]) for r in (body if isinstance(body, list) else [body])]
        return web.json_response([r.view() for r in rules])

    async def clear_faults(self, request):
        self.dc.faults.clear()
        return web.json_response([])

    async def latency(self, request):
        if request.method == "PUT":
            body = await request.json()
            unknown = set(body) - set(self.dc.paces)
            if unknown:
                raise ValueError(f"no such duration: {', '.join(sorted(unknown))}")
            self.dc.paces.update({k: float(v) for k, v in body.items()})
        return web.json_response(self.dc.paces)

    async def quorum(self, request):
        self.dc.quorate = bool((await request.json())["quorate"])
        return web.json_response({"quorate": self.dc.quorate})

    # ------------------------------------------------------- nodes, machines

    async def nodes(self, request):
        return web.json_response({n: {**s, "mem": self.dc.memory_used(n)} for n, s in sorted(self.dc.nodes.items())})

    async def node(self, request):
        name, body = request.match_info["node"], await request.json()
        if name not in self.dc.nodes:
            return _bad(f"no node {name}", 404)
        state = self.dc.nodes[name]
        if "maxmem" in body:
            state["maxmem"] = int(body["maxmem"])
        if "mem" in body:
            state["mem_base"] = int(body["mem"])
        if "online" in body:
            await self.dc.set_online(name, bool(body["online"]), body.get("machines", "lost"))
        return web.json_response(state)

    def _vm(self, request):
        vm = self.dc.vm(int(request.match_info["vmid"]))
        if vm is None:
            raise KeyError(f"VM {request.match_info['vmid']}")
        return vm

    async def machine(self, request):
        """Change a machine behind everyone's back: node, lock, status, start_error, acpi, flavour, config."""
        vm, body = self._vm(request), await request.json()
        if "lock" in body:
            self.dc._qm_lock(vm, body["lock"])
        for key in ("start_error", "acpi", "agent_hangs", "flavour"):
            if key in body:
                setattr(vm, key, body[key])
        for key, value in (body.get("config") or {}).items():
            if value is None:
                vm.config.pop(key, None)
            else:
                vm.config[key] = value
        vm.name = vm.config.get("name") or vm.name
        try:
            if body.get("node"):
                await self.dc.move(vm, body["node"])
            if body.get("status") == "stopped":
                await self.dc.power_off(vm, "stop")
            elif body.get("status") == "running" and vm.status != "running":
                await self.dc.power_on(vm)
        except TaskError as e:
            return _bad(str(e), 409)
        return web.json_response({"vmid": vm.vmid, "node": vm.node, "status": vm.status, "lock": vm.lock})

    async def machine_gone(self, request):
        """A machine and its disks vanish, as when somebody deletes it by hand."""
        vm = self._vm(request)
        await self.dc.machine_destroyed(vm)
        self.dc._free_disks(vm, True)
        self.dc.vms.remove(vm)
        self.dc._pool_leave(vm.vmid)
        self.dc.access.drop_path(f"/vms/{vm.vmid}")
        return web.json_response({})

    async def foreign(self, request):
        """Machines of somebody else: one object or a list, each with vmid, name, node and what it likes."""
        body = await request.json()
        for row in body if isinstance(body, list) else [body]:
            self._foreign(row)
        return web.json_response(snapshot(self.dc)["vms"])

    def _foreign(self, row):
        vmid, name, node = int(row["vmid"]), row.get("name", f"foreign-{row['vmid']}"), row.get("node", "pve1")
        if self.dc.vm(vmid):
            raise ValueError(f"VM {vmid} exists")
        if row.get("flavour"):
            f = row["flavour"]
            storage = row.get("storage", "shared")
            vm = world.template(
                self.dc, vmid, node, storage, f["distribution"], f["version"], f.get("has_programs", True)
            )
            vm.name = vm.config["name"] = row.get("name", vm.name)
        else:
            uuid = f"11111111-1111-4111-8111-{vmid:012d}"
            config = {"cores": 1, "memory": "512", "smbios1": f"uuid={uuid}", **row.get("config", {})}
            vm = FakeVm(vmid, name, node=node, status=row.get("status", "stopped"), config=config)
            self._foreign_disk(vm, row)
        for key in ("tags", "description"):
            if row.get(key):
                vm.config[key] = row[key]
        self.dc.vms.append(vm)
        if row.get("pool"):
            self.dc._pool_join(row["pool"], vmid)

    def _foreign_disk(self, vm, row):
        storage = row.get("storage", "shared")
        local = storage == "fast"
        volume = f"vm-{vm.vmid}-disk-0" if local else f"{vm.vmid}/vm-{vm.vmid}-disk-0.qcow2"
        self.dc.storages[storage]["volumes"][volume] = {
            "content": "images",
            "format": "raw" if local else "qcow2",
            "size": 4 * 1024**3,
            "vmid": vm.vmid,
            "ctime": 1,
        }
        vm.config.setdefault("scsi0", f"{storage}:{volume},size=4G")

    async def storage(self, request):
        """active (bool), total (bytes), content: a storage goes away, fills up or is configured otherwise."""
        store, body = self.dc.storages[request.match_info["storage"]], await request.json()
        if "active" in body:
            store["active"] = 1 if body["active"] else 0
        for key in ("total", "content", "nodes", "disable"):
            if key in body:
                store[key] = body[key]
        return web.json_response({k: v for k, v in store.items() if k not in ("files", "volumes")})

    # ----------------------------------------------------------------- people

    async def person(self, request):
        """Change or add a person: password, totp (secret or null), enable."""
        name, body = request.match_info["userid"], await request.json()
        if not re.fullmatch(r"[^\s@]+@[\w.-]+", name):
            return _bad("not a user id")
        user = self.dc.access.users.setdefault(name, User())
        for key in ("password", "totp", "enable", "expire"):
            if key in body:
                setattr(user, key, body[key])
        return web.json_response({"userid": name, "enable": user.enable, "totp": bool(user.totp)})

    async def restore(self, request):
        """Give the lab's roles and rights again where they are missing."""
        world.restore_grants(self.dc.access)
        return web.json_response(self.dc.access.rows())

    async def tickets(self, request):
        """PUT {"ttl": seconds, "totp_once": bool}; DELETE ends every session."""
        if request.method == "PUT":
            body = await request.json()
            self.dc.ticket_ttl = float(body.get("ttl", self.dc.ticket_ttl))
            self.dc.totp_once = bool(body.get("totp_once", self.dc.totp_once))
        if request.method == "DELETE":
            self.dc._expire_everything()
        return web.json_response(
            {"ttl": self.dc.ticket_ttl, "totp_once": self.dc.totp_once, "open": len(self.dc.tickets)}
        )

    async def reset(self, request):
        await self.dc.reset()
        return web.json_response({})
