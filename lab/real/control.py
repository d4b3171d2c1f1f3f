"""The control API of the real nodes: the protocol of lab/nodes/control.py over real machines, and the ways in."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any

from aiohttp import web

from lab.real.faults import rules_of
from lab.real.forwards import Forwards
from lab.real.machine import Hardware, Machine
from lab.real.network import NetworkFailed
from lab.real.world import World

Answer = Awaitable[web.StreamResponse]


class Control:
    """Routes over one world."""

    def __init__(self, world: World, forwards: Forwards, namespace_of: int) -> None:
        self._world = world
        self._forwards = forwards
        self._namespace_of = namespace_of

    def app(self) -> web.Application:
        """The aiohttp application."""
        app = web.Application(client_max_size=64 * 2**20, middlewares=[_plain_errors])
        one = "/machines/{vmid:\\d+}"
        app.add_routes(
            [
                web.post(f"{one}/power-on", self.power_on),
                web.post(f"{one}/power-off", self.power_off),
                web.post(f"{one}/reboot", self.reboot),
                web.delete(one, self.destroy),
                web.put(f"{one}/node", self.move),
                web.get(f"{one}/agent/interfaces", self.interfaces),
                web.post(f"{one}/agent/exec", self.execute),
                web.post(f"{one}/agent/ping", self.ping),
                web.get(f"{one}/logs", self.logs),
                web.get("/state", self.state),
                web.get("/faults", self.faults),
                web.post("/faults", self.set_faults),
                web.delete("/faults", self.clear_faults),
                web.get("/strangers", self.strangers),
                web.post("/strangers", self.stranger),
                web.delete("/strangers", self.remove_strangers),
                web.get("/forwards", self.forwards),
                web.put("/forwards", self.forward),
                web.delete("/forwards/{outside}", self.close_forward),
                web.put("/bridges", self.bridge),
                web.post("/reset", self.reset),
            ]
        )
        return app

    def _machine(self, request: web.Request) -> Machine:
        machine = self._world.machines.get(int(request.match_info["vmid"]))
        if machine is None:
            raise web.HTTPNotFound(text="no such machine: it was never powered on")
        return machine

    def _with_agent(self, request: web.Request) -> Machine:
        machine = self._machine(request)
        if not machine.agent:
            raise web.HTTPConflict(text="the guest agent does not run")
        return machine

    async def power_on(self, request: web.Request) -> web.Response:
        hardware = Hardware.from_json(int(request.match_info["vmid"]), await _body(request))
        async with self._world.lock(hardware.vmid):
            try:
                return web.json_response({"boot_id": await self._world.power_on(hardware)})
            except ValueError as error:
                raise web.HTTPConflict(text=str(error)) from error

    async def power_off(self, request: web.Request) -> web.Response:
        body = await _body(request)
        async with self._world.lock(int(request.match_info["vmid"])):
            machine = self._world.machines.get(int(request.match_info["vmid"]))
            if machine is not None:
                await machine.power_off(str(body.get("how", "stop")))
        return web.json_response({})

    async def reboot(self, request: web.Request) -> web.Response:
        """Shutdown and boot; a body may change the hardware (`"iso": null` is an ISO that was detached)."""
        machine, body = self._machine(request), await _body(request)
        changed: dict[str, Any] = {key: body[key] for key in ("node", "memory_mib", "cores") if key in body}
        if "iso" in body:
            fresh = Hardware.from_json(
                machine.hardware.vmid,
                {
                    **machine.hardware.to_json(),
                    "iso": body["iso"],
                    "template": {"distribution": "kubeadm", "version": machine.hardware.version},
                },
            )
            changed["iso"] = fresh.iso
        async with self._world.lock(machine.hardware.vmid):
            return web.json_response({"boot_id": await machine.reboot(**changed)})

    async def destroy(self, request: web.Request) -> web.Response:
        vmid = int(request.match_info["vmid"])
        async with self._world.lock(vmid):
            await self._world.destroy(vmid)
        return web.json_response({})

    async def move(self, request: web.Request) -> web.Response:
        self._world.move(self._machine(request).hardware.vmid, (await _body(request))["node"])
        return web.json_response({})

    async def interfaces(self, request: web.Request) -> web.Response:
        return web.json_response({"result": await self._with_agent(request).interfaces()})

    async def execute(self, request: web.Request) -> web.Response:
        machine, body = self._with_agent(request), await _body(request)
        command = body["command"]
        if not isinstance(command, list) or not command:
            raise web.HTTPBadRequest(text="command is a list of words")
        return web.json_response(await machine.execute([str(word) for word in command]))

    async def ping(self, request: web.Request) -> web.Response:
        self._with_agent(request)
        return web.json_response({})

    async def logs(self, request: web.Request) -> web.Response:
        """Console and boot logs of a machine, also of one without power."""
        return web.json_response(self._machine(request).logs())

    async def state(self, _: web.Request) -> web.Response:
        return web.json_response(
            {**self._world.state(), "forwards": self._forwards.describe(), "namespace_of": self._namespace_of}
        )

    async def faults(self, _: web.Request) -> web.Response:
        return web.json_response([asdict(rule) for rule in self._world.faults.rules])

    async def set_faults(self, request: web.Request) -> web.Response:
        """Adds rules of lab/real/faults.py; the others stay."""
        self._world.faults.rules += rules_of(await _body(request))
        return await self.faults(request)

    async def clear_faults(self, _: web.Request) -> web.Response:
        self._world.faults.rules.clear()
        return web.json_response([])

    async def strangers(self, _: web.Request) -> web.Response:
        return web.json_response(sorted(self._world.strangers.addresses))

    async def stranger(self, request: web.Request) -> web.Response:
        """Somebody else's machine on a bridge: {"address": "172.30.70.51", "port": 22, "bridge": "vmbr0"}."""
        body = await _body(request)
        await self._world.strangers.add(str(body["address"]), int(body["port"]), body.get("bridge", "vmbr0"))
        return await self.strangers(request)

    async def remove_strangers(self, _: web.Request) -> web.Response:
        await self._world.strangers.clear()
        return web.json_response([])

    async def forwards(self, _: web.Request) -> web.Response:
        return web.json_response(self._forwards.describe())

    async def forward(self, request: web.Request) -> web.Response:
        """{"outside": "127.0.70.20:6443", "inside": "172.30.70.50:6443"}"""
        body = await _body(request)
        try:
            return web.json_response({"outside": await self._forwards.open(body["outside"], body["inside"])})
        except OSError as error:
            raise web.HTTPConflict(text=f"{body['outside']}: {error.strerror}") from error

    async def close_forward(self, request: web.Request) -> web.Response:
        await self._forwards.close(request.match_info["outside"])
        return web.json_response({})

    async def bridge(self, request: web.Request) -> web.Response:
        """Makes a bridge before its first machine: {"bridge": "vmbr0", "vlan": 100}."""
        body = await _body(request)
        return web.json_response({"link": self._world.network.bridge(body["bridge"], body.get("vlan"))})

    async def reset(self, _: web.Request) -> web.Response:
        await self._world.reset()
        return web.json_response({})


async def _body(request: web.Request) -> Any:
    raw = await request.read()
    return json.loads(raw) if raw else {}


@web.middleware
async def _plain_errors(request: web.Request, handler: Callable[[web.Request], Answer]) -> web.StreamResponse:
    """A body that cannot be used is the caller's mistake; a command that refused is told in its own words."""
    try:
        return await handler(request)
    except (KeyError, ValueError, TypeError) as error:
        return web.Response(status=400, text=f"{type(error).__name__}: {error}\n")
    except NetworkFailed as error:
        return web.Response(status=500, text=f"{error}\n")
