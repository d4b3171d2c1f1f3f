"""What lab/nodes hears of power, and what the guest agent answers through it."""

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from .conftest import Lab, start, stop

ISO = b"\0" * 0x8001 + b"CD001" + b"\0" * 3000


class Nodes(ThreadingHTTPServer):
    """A lab/nodes that only takes notes."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, Any]] = []
        self.agent_up = True
        self.broken = False
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(BaseHTTPRequestHandler):
    server: Nodes

    def answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length) or b"null")
        self.server.calls.append((self.command, self.path, body))
        status = 200
        data: Any = {}
        if self.server.broken:
            status = 500
        elif "/agent/" in self.path and not self.server.agent_up:
            status = 409
        elif self.path.endswith("/interfaces"):
            data = [{"name": "eth0", "ip-addresses": [{"ip-address": "127.80.1.51"}]}]
        elif self.path.endswith("/exec"):
            data = {"exitcode": 2, "out": "done", "err": ""}
        elif self.path.endswith("/power-on"):
            data = {"boot_id": "b"}
        text = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = do_DELETE = answer

    def log_message(self, *args: Any) -> None:
        """Quiet."""


@pytest.fixture(scope="module")
def linked() -> Iterator[tuple[Lab, Nodes]]:
    nodes = Nodes()
    thread = threading.Thread(target=nodes.serve_forever, daemon=True)
    thread.start()
    process, ready = start("--address-base", "127.0.72", "--nodes-url", f"http://127.0.0.1:{nodes.server_port}")
    lab = Lab(ready)
    lab.control("PUT", "/lab/latency", {"clone": 0.02, "start": 0.02})
    yield lab, nodes
    lab.http.close()
    stop(process)
    nodes.shutdown()
    thread.join(5)
    nodes.server_close()


def test_a_life(linked: tuple[Lab, Nodes]) -> None:
    lab, nodes = linked
    p, one = lab.platform, "/nodes/pve2/qemu/101"
    p.post("/pools", poolid="trilithon/c.one")
    made = p.post("/nodes/pve1/qemu/9001/clone", newid=101, name="one", pool="trilithon/c.one", full=1, target="pve2")
    assert p.task(made) == "OK"
    files = {"filename": ("user-data-101.iso", ISO)}
    assert p.task(p.post("/nodes/pve2/storage/iso/upload", _files=files, content="iso")) == "OK"
    serial = base64.b64encode(b"i=101").decode()
    uuid = "aaaaaaaa-0000-4000-8000-000000000001"
    given = {
        "smbios1": f"uuid={uuid},serial={serial},base64=1",
        "net0": "virtio=BC:24:11:AA:00:01,bridge=vmbr0,tag=20",
        "ide2": "iso:iso/user-data-101.iso,media=cdrom",
        "cores": 4,
        "memory": 4096,
    }
    assert p.task(p.post(one + "/config", **given)) == "OK"
    nodes.broken = True
    assert p.task(p.post(one + "/status/start")).startswith("start failed: QEMU exited with code 1")
    nodes.broken = False
    nodes.calls.clear()
    assert p.task(p.post(one + "/status/start")) == "OK"
    ((method, path, body),) = nodes.calls
    assert (method, path) == ("POST", "/machines/101/power-on")
    assert base64.b64decode(body.pop("iso")) == ISO
    disk = body.pop("disk_id")
    assert body == {
        "name": "one",
        "node": "pve2",
        "uuid": uuid,
        "serial": "i=101",
        "memory_mib": 4096,
        "cores": 4,
        "macs": ["BC:24:11:AA:00:01"],
        "bridge": "vmbr0",
        "vlan": 20,
        "template": {"distribution": "rke2", "version": "v1.36.5+rke2r1", "has_programs": True},
    }
    nodes.agent_up = False
    assert p.post(one + "/agent/ping").message == "QEMU guest agent is not running"
    assert p.post(one + "/agent/exec", command=["true"]).message == "QEMU guest agent is not running"
    nodes.agent_up = True
    assert p.post(one + "/agent/ping").data == {"result": {}}
    assert p.get(one + "/agent/network-get-interfaces").data["result"][0]["name"] == "eth0"
    pid = p.post(one + "/agent/exec", command=["cloud-init", "status"]).data["pid"]
    while not (status := p.get(one + "/agent/exec-status", pid=pid).data)["exited"]:
        pass
    assert (status["exitcode"], status["out-data"]) == (2, "done")
    p.task(p.post(one + "/config", ide2="none,media=cdrom"))
    nodes.calls.clear()
    assert p.task(p.post(one + "/status/reboot")) == "OK"
    assert [c[1] for c in nodes.calls] == ["/machines/101/power-off", "/machines/101/power-on"]
    assert (nodes.calls[1][2]["iso"], nodes.calls[1][2]["disk_id"]) == (None, disk)
    lab.control("PUT", "/lab/vms/101", {"node": "pve3"})
    assert nodes.calls[-1] == ("PUT", "/machines/101/node", {"node": "pve3"})
    one = "/nodes/pve3/qemu/101"
    lab.control("PUT", "/lab/nodes/pve3", {"online": False})
    assert nodes.calls[-1] == ("POST", "/machines/101/power-off", {"how": "stop"})
    lab.control("PUT", "/lab/nodes/pve3", {"online": True})
    assert lab.platform.get(one + "/status/current").data["status"] == "stopped"
    assert p.task(p.delete(one)) == "OK"
    assert nodes.calls[-1][:2] == ("DELETE", "/machines/101")
    lab.control("POST", "/lab/reset")
    assert nodes.calls[-1][:2] == ("POST", "/reset")
