"""The control API, called by the fake Proxmox VE: plain HTTP and JSON on loopback."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict, fields
from typing import Any

from aiohttp import web

from lab.nodes import guest_agent
from lab.nodes.artifacts import Artifacts
from lab.nodes.machine import Hardware, Machine
from lab.nodes.settings import Fault, Timing
from lab.nodes.world import World

Answer = Awaitable[web.StreamResponse]


class Control:
    """Routes of the control API over one world."""

    def __init__(self, world: World, artifacts: Artifacts) -> None:
        self._world = world
        self._artifacts = artifacts

    def app(self) -> web.Application:
        """The aiohttp application."""
        app = web.Application(client_max_size=64 * 2**20, middlewares=[_plain_errors])
        app.add_routes(
            [
                web.post("/machines/{vmid:\\d+}/power-on", self.power_on),
                web.post("/machines/{vmid:\\d+}/power-off", self.power_off),
                web.post("/machines/{vmid:\\d+}/reboot", self.reboot),
                web.delete("/machines/{vmid:\\d+}", self.destroy),
                web.put("/machines/{vmid:\\d+}/node", self.move),
                web.get("/machines/{vmid:\\d+}/agent/interfaces", self.interfaces),
                web.post("/machines/{vmid:\\d+}/agent/exec", self.execute),
                web.post("/machines/{vmid:\\d+}/agent/ping", self.ping),
                web.get("/machines/{vmid:\\d+}/logs", self.logs),
                web.get("/state", self.state),
                web.get("/faults", self.faults),
                web.post("/faults", self.set_faults),
                web.delete("/faults", self.clear_faults),
                web.put("/timing", self.set_timing),
                web.put("/artifacts", self.set_artifacts),
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
        if not machine.on or not machine.agent:
            raise web.HTTPConflict(text="the guest agent does not run")
        return machine

    async def power_on(self, request: web.Request) -> web.Response:
        hardware = Hardware.from_json(int(request.match_info["vmid"]), await _body(request))
        try:
            return web.json_response({"boot_id": self._world.power_on(hardware)})
        except ValueError as error:
            raise web.HTTPConflict(text=str(error)) from error

    async def power_off(self, request: web.Request) -> web.Response:
        await self._world.power_off(int(request.match_info["vmid"]))
        return web.json_response({})

    async def reboot(self, request: web.Request) -> web.Response:
        """Boots again with the same hardware; a body may change it (the ISO was detached)."""
        machine = self._machine(request)
        changed = await _body(request)
        hardware = Hardware(
            **{
                **machine.hardware.__dict__,
                **{name: value for name, value in changed.items() if name in ("iso", "node", "memory_mib", "cores")},
            }
        )
        await machine.power_off()
        return web.json_response({"boot_id": machine.power_on(hardware)})

    async def destroy(self, request: web.Request) -> web.Response:
        await self._world.destroy(int(request.match_info["vmid"]))
        return web.json_response({})

    async def move(self, request: web.Request) -> web.Response:
        machine = self._machine(request)
        machine.hardware = Hardware(**{**machine.hardware.__dict__, "node": (await _body(request))["node"]})
        self._world.save(machine)
        return web.json_response({})

    async def interfaces(self, request: web.Request) -> web.Response:
        return web.json_response({"result": guest_agent.interfaces(self._with_agent(request))})

    async def execute(self, request: web.Request) -> web.Response:
        machine, body = self._with_agent(request), await _body(request)
        command = body["command"]
        if not isinstance(command, list) or not command:
            raise web.HTTPBadRequest(text="command is a list of words")
        return web.json_response(guest_agent.execute(machine, [str(word) for word in command]))

    async def ping(self, request: web.Request) -> web.Response:
        self._with_agent(request)
        return web.json_response({})

    async def logs(self, request: web.Request) -> web.Response:
        """Every log of a machine, for people and failed tests."""
        return web.json_response(self._machine(request).disk.logs)

    async def state(self, _: web.Request) -> web.Response:
        return web.json_response(self._world.state())

    async def faults(self, _: web.Request) -> web.Response:
        return web.json_response([asdict(rule) for rule in self._world.faults.rules])

    async def set_faults(self, request: web.Request) -> web.Response:
        body = await _body(request)
        rules = body if isinstance(body, list) else [body]
        self._world.faults.rules.extend(Fault.from_json(rule) for rule in rules)
        return web.json_response({})

    async def clear_faults(self, _: web.Request) -> web.Response:
        self._world.faults.rules.clear()
        return web.json_response({})

    async def set_timing(self, request: web.Request) -> web.Response:
        """Changes some of the simulated times, in seconds."""
        known = {item.name for item in fields(Timing)}
        for name, value in (await _body(request)).items():
            if name not in known:
                raise web.HTTPBadRequest(text=f"unknown time: {name}")
            setattr(self._world.timing, name, float(value))
        return web.json_response(asdict(self._world.timing))

    async def set_artifacts(self, request: web.Request) -> web.Response:
        """What is wrong with the artifact address: {"broken": [...], "missing": [...], "away": bool}."""
        body = await _body(request)
        self._artifacts.broken = set(body.get("broken") or ())
        self._artifacts.missing = set(body.get("missing") or ())
        self._artifacts.away = bool(body.get("away"))
        return web.json_response({})

    async def reset(self, _: web.Request) -> web.Response:
        await self._world.reset()
        return web.json_response({})


async def _body(request: web.Request) -> Any:
    raw = await request.read()
    return json.loads(raw) if raw else {}


@web.middleware
async def _plain_errors(request: web.Request, handler: Callable[[web.Request], Answer]) -> web.StreamResponse:
    """A body that cannot be used is the caller's mistake, not a broken lab."""
    try:
        return await handler(request)
    except (KeyError, ValueError, TypeError) as error:
        return web.Response(status=400, text=f"{type(error).__name__}: {error}\n")
