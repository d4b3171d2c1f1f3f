"""The simulated Proxmox VE in front of real machines: a VM's whole life by Proxmox VE's own API."""

import base64
import json
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.lab.pve.conftest import Lab
from tests.lab.real.boot_data import iso
from tests.lab.real.laboratory import ROOT, SPACE

pytestmark = [pytest.mark.real, pytest.mark.timeout(1800)]

MAC, UUID = "bc:24:11:aa:00:01", "aaaaaaaa-0000-4000-8000-000000000501"
LAST = "#cloud-config\nssh_genkeytypes: [ed25519]\nruncmd:\n  - touch /etc/cloud/cloud-init.disabled\n"


class Behind(Lab):
    """The datacenter inside the laboratory, called from outside: its API through the proxy, under its own addresses."""

    def __init__(self, known: dict[str, Any], data: Path) -> None:
        self.ready, self.known = {"control": known["control"]}, known
        self.endpoints = known["endpoints"]
        trust = ssl.create_default_context(cadata=(data / "pve" / "labpve.crt").read_text())
        way = httpx.HTTPTransport(proxy=known["proxy"], verify=trust)
        self.http = httpx.Client(mounts={"https://": way}, timeout=60, trust_env=False)
        self.platform_id = known["people"]["platform"]["id"]
        self.platform_secret = known["people"]["platform"]["secret"]


def _session(what: str, data: Path) -> str:
    line = [sys.executable, "-m", "lab.session", what, "--data", str(data), "--kind", "real", "--space", str(SPACE)]
    done = subprocess.run([*line, "--wait", "600"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def behind(able: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Behind]:
    data = tmp_path_factory.mktemp("session")
    lab = Behind(json.loads(_session("start", data)), data)
    yield lab
    lab.http.close()
    _session("stop", data)
    log = (data / "nodes.log").read_text()
    assert "Traceback" not in log, log[-3000:]


def _until(lab: Behind, what: str, path: str, seconds: float = 60) -> Any:
    import time

    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        answer = lab.platform.post(path)
        if answer.status == 200:
            return answer.data
        time.sleep(0.3)  # the machine is a system of its own and tells nobody
    raise AssertionError(f"{what}: {answer.status} {answer.message}")


def test_a_vm_s_life(behind: Behind) -> None:
    p, one, net = behind.platform, "/nodes/pve2/qemu/501", behind.known["network"]["base"]
    template = behind.known["templates"][0]["vmid"]
    p.post("/pools", poolid="trilithon/c.one")
    made = p.post(
        f"/nodes/pve1/qemu/{template}/clone", newid=501, name="one", pool="trilithon/c.one", full=1, target="pve2"
    )
    assert p.task(made) == "OK"
    disc = iso(LAST, "one", MAC, f"{net}.101", f"{net}.1")
    files = {"filename": ("one.iso", disc)}
    assert p.task(p.post("/nodes/pve2/storage/iso/upload", _files=files, content="iso")) == "OK"
    serial = base64.b64encode(b"i=501").decode()
    given = {
        "smbios1": f"uuid={UUID},serial={serial},base64=1",
        "net0": f"virtio={MAC},bridge=vmbr0",
        "ide2": "iso:iso/one.iso,media=cdrom",
        "memory": 1024,
    }
    assert p.task(p.post(one + "/config", **given)) == "OK"
    assert p.task(p.post(one + "/status/start")) == "OK"
    _until(behind, "agent", one + "/agent/ping")
    found = p.get(one + "/agent/network-get-interfaces").data["result"]
    assert any(row["hardware-address"] == MAC for row in (found["result"] if isinstance(found, dict) else found))
    assert _said(behind, one, "cat", "/sys/class/dmi/id/product_uuid").strip() == UUID
    assert _said(behind, one, "cat", "/sys/class/dmi/id/product_serial").strip() == "i=501"
    # A host that dies takes its machines' power along.
    behind.control("PUT", "/lab/nodes/pve2", {"online": False})
    assert not _machine(behind)["on"]
    behind.control("PUT", "/lab/nodes/pve2", {"online": True})
    assert p.task(p.post(one + "/config", delete="ide2")) == "OK"
    assert p.task(p.post(one + "/status/start")) == "OK"
    _until(behind, "agent", one + "/agent/ping")
    assert _machine(behind)["seed"] == "no ISO is attached"
    assert _said(behind, one, "hostname").strip() == "one"
    assert p.task(p.post(one + "/status/shutdown")) == "OK"
    assert not _machine(behind)["on"]
    assert p.task(p.delete(one)) == "OK"
    assert httpx.get(behind.known["nodes"] + "/state", trust_env=False).json()["machines"] == []


def test_what_the_machine_cannot_be_is_the_start_task_s_error(behind: Behind) -> None:
    p = behind.platform
    made = p.post("/nodes/pve1/qemu/9002/clone", newid=502, name="k3s", pool="trilithon", full=1)
    assert p.task(made) == "OK"
    assert "kubeadm templates only" in p.task(p.post("/nodes/pve1/qemu/502/status/start"))
    assert p.task(p.delete("/nodes/pve1/qemu/502")) == "OK"


def _said(lab: Behind, one: str, *command: str) -> str:
    import time

    began = lab.platform.call("POST", one + "/agent/exec", command=list(command))
    assert began.status == 200, began.message
    for _ in range(100):
        state = lab.platform.get(one + "/agent/exec-status", pid=began.data["pid"]).data
        if state["exited"]:
            assert state["exitcode"] == 0, state
            return str(state["out-data"])
        time.sleep(0.1)
    raise AssertionError(f"{command} does not end")


def _machine(lab: Behind) -> dict[str, Any]:
    rows = httpx.get(lab.known["nodes"] + "/state", trust_env=False).json()["machines"]
    return next(dict(row) for row in rows if row["vmid"] == 501)
