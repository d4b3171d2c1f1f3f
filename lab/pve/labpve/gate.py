"""The outermost layer of the API: dead nodes, fault rules, quorum, and the journal."""

import asyncio
import hashlib
import json
import urllib.parse

from aiohttp import web
from fakepve.model import PveError
from fakepve.server import API, FORMATS, SECRET_KEYS, USER, collect, error

from .tasks_api import PLAN
from .upload_api import multipart

SECRETS = {*SECRET_KEYS, "cipassword", "sshkeys", "value"}
# Writes that a datacenter without quorum still answers: they do not touch /etc/pve.
WITHOUT_QUORUM = ("/access/ticket", "/access/openid/")
FRONT = """<!doctype html><html lang="en"><title>Simulated Proxmox VE</title>
<h1>Simulated Proxmox VE</h1>
<p>Only the HTTP API is simulated. On a real Proxmox VE this address opens its web interface.</p></html>
"""
"""For a person who follows a link into Proxmox VE."""


def masked(values):
    """Parameters with their secrets replaced."""
    return {k: "***" if k in SECRETS else v for k, v in sorted(values.items())}


class Gate:
    """Mixin: one middleware in front of fakepve's own."""

    def _build_app(self):
        app = super()._build_app()
        app.middlewares.insert(0, self._gate)
        return app

    def who(self, request):
        """The caller as it says it is, before any check: for rules that match a user."""
        auth = request.headers.get("Authorization", "")
        if auth.startswith("PVEAPIToken="):
            return auth[len("PVEAPIToken=") :].partition("=")[0]
        ticket = urllib.parse.unquote(request.cookies.get("PVEAuthCookie") or "")
        return self.tickets.get(ticket, {}).get("user")

    @staticmethod
    def _cut(request):
        """Close the connection without an answer."""
        if request.transport is not None:
            request.transport.abort()
        raise ConnectionResetError("labpve: cut")

    @web.middleware
    async def _gate(self, request, handler):
        path = request.path
        for prefix in FORMATS:
            path = path.removeprefix(prefix)
        if not self.nodes[self.node_of(request)].get("online", True):
            self._cut(request)  # an old connection to a node that died
        if request.method == "GET" and request.path == "/":
            return web.Response(text=FRONT, content_type="text/html")
        plan = self.faults.plan(request.method, path, self.who(request))
        token = PLAN.set(plan)
        try:
            if plan.get("delay"):
                await asyncio.sleep(float(plan["delay"]))
            if plan.get("cut_bytes") is not None:
                await request.content.read(int(plan["cut_bytes"]))
                self._note(request, path, b"", None, "cut before")
                self._cut(request)
            if plan.get("cut") == "before":
                body = await request.read()
                self._note(request, path, body, None, "cut before")
                self._cut(request)
            answer = self._planned(plan) or await handler(request)
            body = await request.read()
            self._note(request, path, body, answer, "cut after" if plan.get("cut") else None)
            if plan.get("cut") == "after":
                self._cut(request)
            return answer
        finally:
            PLAN.reset(token)

    @staticmethod
    def _planned(plan):
        if plan.get("status") is None:
            return None
        text = plan.get("text") or plan.get("body") or "fault"
        if plan.get("html"):
            return web.Response(status=int(plan["status"]), text=text, content_type="text/html")
        if isinstance(text, dict):
            return web.json_response(text, status=int(plan["status"]))
        return error(int(plan["status"]), text, plan.get("errors"))

    async def _answer(self, request, handler, generic, path_node):
        path = request.path
        for prefix in FORMATS:
            path = path.removeprefix(prefix)
        if request.method not in ("GET", "HEAD") and not self.quorate and not path.startswith(WITHOUT_QUORUM):
            return error(500, "cluster not ready - no quorum?")
        if path_node and path_node not in self.nodes:
            message = f"hostname lookup '{path_node}' failed - failed to get address info for: {path_node}"
            return error(500, message + ": Name or service not known")
        return await super()._answer(request, handler, generic, path_node)

    # -------------------------------------------------------------- journal

    def _params_of(self, request, body):
        values = collect(request.query.items())
        kind = request.content_type
        try:
            if kind == "multipart/form-data":
                for name, file, data in multipart(body, request.headers["Content-Type"]):
                    if file is None:
                        values[name] = data.decode("utf-8", "replace")
                    else:
                        digest = hashlib.sha256(data).hexdigest()
                        values[name] = {"file": file, "size": len(data), "sha256": digest}
            elif kind == "application/json":
                values.update(json.loads(body or b"{}"))
            else:
                values.update(collect(urllib.parse.parse_qsl(body.decode())))
        except (ValueError, KeyError, PveError):
            values["_unreadable"] = True
        return masked(values)

    def _note(self, request, path, body, answer, cut):
        if request.method in ("GET", "HEAD"):
            return
        entry = {
            "method": request.method,
            "path": path,
            "params": self._params_of(request, body),
            "user": request.get(USER) or self.who(request),
            "node": self.node_of(request),
            "status": answer.status if answer is not None else None,
        }
        if cut:
            entry["cut"] = cut
        if answer is not None and isinstance(answer, web.Response) and answer.content_type == "application/json":
            data = json.loads(answer.text or "{}")
            result = data.get("data") if isinstance(data, dict) else None
            if isinstance(result, str) and result.startswith("UPID:"):
                entry["upid"] = result
            if answer.status >= 400 and isinstance(data, dict):
                entry["error"] = {"message": data.get("message"), "errors": data.get("errors")}
        self.journal.add("call", **entry)


__all__ = ["API", "Gate", "masked"]
