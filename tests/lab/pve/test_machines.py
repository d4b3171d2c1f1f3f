"""Clone, configure, resize, upload, start, stop, destroy: what works and what is refused, with PVE's words."""

import base64
import hashlib

import pytest

from .conftest import Caller, Lab

POOL = "trilithon/clusters.one"
ISO = b"\0" * 0x8001 + b"CD001" + b"\0" * 3000
SRC = "/nodes/pve1/qemu/9002"
DISK = "shared:101/vm-101-disk-0.qcow2"


def clone(p: Caller, vmid: int = 101, name: str = "one-cp-1", **more: str) -> str:
    args = {"newid": vmid, "name": name, "pool": POOL, "full": 1, "description": f"ours {vmid}", **more}
    return p.task(p.post(SRC + "/clone", **args))


@pytest.fixture
def p(lab: Lab) -> Caller:
    platform = lab.platform
    assert platform.post("/pools", poolid=POOL).status == 200
    return platform


def test_a_machine_lives_and_goes_without_a_trace(lab: Lab) -> None:
    before = lab.state()
    p = lab.platform
    assert p.post("/pools", poolid=POOL).status == 200
    assert clone(p, target="pve2") == "OK"
    one = "/nodes/pve2/qemu/101"
    net = "virtio=BC:24:11:AA:BB:CC,bridge=vmbr0"
    serial = base64.b64encode(b"i=101").decode()
    config = p.get(one + "/config").data
    assert config["description"] == "ours 101"
    smbios = f"{config['smbios1']},serial={serial},base64=1"
    given = {"cores": 4, "memory": 4096, "net0": net, "smbios1": smbios, "tags": "Trilithon,one", "onboot": 1}
    assert p.task(p.post(one + "/config", digest=config["digest"], **given)) == "OK"
    assert p.task(p.put(one + "/resize", disk="scsi0", size="30G")) == "OK"
    sha = hashlib.sha256(ISO).hexdigest()
    up = {"content": "iso", "checksum-algorithm": "sha256", "checksum": sha}
    files = {"filename": ("user-data-101.iso", ISO)}
    assert p.task(p.post("/nodes/pve2/storage/iso/upload", _files=files, **up)) == "OK"
    rows = p.get("/nodes/pve2/storage/iso/content", content="iso").data
    assert [(r["volid"], r["size"]) for r in rows] == [("iso:iso/user-data-101.iso", len(ISO))]
    assert p.task(p.post(one + "/config", ide2="iso:iso/user-data-101.iso,media=cdrom")) == "OK"
    assert p.task(p.post(one + "/status/start")) == "OK"
    assert p.get(one + "/status/current").data["status"] == "running"
    assert p.post(one + "/agent/ping").status == 200
    row = next(r for r in p.get("/cluster/resources", type="vm").data if r["vmid"] == 101)
    assert (row["pool"], row["node"], row["tags"], row["status"]) == (POOL, "pve2", "one;trilithon", "running")
    config = p.get(one + "/config").data
    assert (config["net0"], config["memory"], config["scsi0"].split("size=")[1][:3]) == (net, "4096", "30G")
    assert "running" in p.delete(one).message
    assert p.task(p.post(one + "/config", ide2="none,media=cdrom")) == "OK"
    assert p.get(one + "/config").data["ide2"] == "none,media=cdrom"
    assert p.task(p.delete("/nodes/pve2/storage/iso/content/iso:iso/user-data-101.iso")) == "OK"
    assert p.task(p.post(one + "/status/stop")) == "OK"
    assert p.task(p.delete(one, purge=1, destroy__unreferenced__disks=1)) == "OK"
    assert p.delete("/pools", poolid=POOL).status == 200
    assert lab.state() == before


def test_early_in_a_clone_only_the_lock_is_there(lab: Lab, p: Caller) -> None:
    lab.control("PUT", "/lab/latency", {"clone": 0.6, "clone_tail": 0.4})
    reply = p.post(SRC + "/clone", newid=101, name="n", pool=POOL, full=1, description="ours", target="pve3")
    root = lab.sign_in("root@pam")
    early = root.get("/nodes/pve1/qemu/101/config").data
    unseen = p.get("/nodes/pve1/qemu/101/config")
    assert (unseen.status, unseen.message) == (403, "Permission check failed (/vms/101, VM.Audit)")
    assert {k: v for k, v in early.items() if k != "digest"} == {"lock": "clone"}
    assert "101" in p.post("/nodes/pve1/qemu/9002/clone", newid=101, pool=POOL).message
    row = next(r for r in root.get("/cluster/resources", type="vm").data if r["vmid"] == 101)
    assert row["lock"] == "clone"
    assert "pool" not in row
    assert root.post("/nodes/pve1/qemu/101/status/shutdown").status == 500
    assert p.task(reply) == "OK"
    row = next(r for r in p.get("/cluster/resources", type="vm").data if r["vmid"] == 101)
    assert (row["node"], row["pool"], row["name"]) == ("pve3", POOL, "n")


def test_clone_refusals(lab: Lab, p: Caller) -> None:
    lab.control("POST", "/lab/foreign", {"vmid": 500, "name": "theirs", "node": "pve1"})
    lab.control("POST", "/lab/foreign", {"vmid": 501, "name": "theirs", "node": "pve2"})
    args = {"pool": POOL, "full": 1}
    assert p.post(SRC + "/clone", newid=500, **args).message == "unable to create VM 500: config file already exists"
    assert "File exists" in p.task(p.post(SRC + "/clone", newid=501, **args))
    assert lab.state()["vms"][1]["name"] == "theirs"
    local = p.post("/nodes/pve1/qemu/9011/clone", newid=102, target="pve2", **args)
    assert local.message == "can't clone VM to node 'pve2' (VM uses local storage)"
    other = p.post(SRC + "/clone", newid=102, target="pve2", storage="fast", **args)
    assert other.message == "can't clone to non-shared storage 'fast'"
    linked = p.post(SRC + "/clone", newid=102, pool=POOL, full=0, storage="shared")
    assert linked.message == "parameter 'storage' not allowed for linked clones"
    assert p.post(SRC + "/clone", newid=102).status == 403
    assert p.post(SRC + "/clone", newid=102, pool="trilithon/none").status in (403, 500)


def test_a_failed_clone_leaves_nothing(lab: Lab, p: Caller) -> None:
    before = lab.state()
    text = "clone failed: can't lock file '/var/lock/pve-manager/pve-storage-shared' - got timeout"
    rule = {"match": {"method": "POST", "path": "/clone$", "nth": 1}, "do": {"task_exit": text}}
    lab.control("POST", "/lab/faults", rule)
    assert clone(p) == text
    assert lab.state() == before
    assert clone(p) == "OK"


def test_linked_clones_hold_their_template(lab: Lab, p: Caller) -> None:
    assert p.task(p.post(SRC + "/clone", newid=101, pool=POOL)) == "OK"
    assert p.get("/nodes/pve1/qemu/101/config").data["scsi0"].startswith("shared:9002/base-9002-disk-0.qcow2/101/")
    root = lab.sign_in("root@pam")
    exit_text = root.task(root.delete("/nodes/pve1/qemu/9002"))
    assert exit_text == "base volume 'shared:9002/base-9002-disk-0.qcow2' is still in use by linked cloned"
    assert p.task(p.delete("/nodes/pve1/qemu/101")) == "OK"
    assert root.task(root.delete("/nodes/pve1/qemu/9002")) == "OK"


def test_next_id(lab: Lab) -> None:
    p = lab.platform
    assert p.get("/cluster/nextid").data == "100"
    lab.control("POST", "/lab/foreign", {"vmid": 100})
    assert p.get("/cluster/nextid").data == "101"
    taken = p.get("/cluster/nextid", vmid=100)
    assert (taken.status, taken.errors) == (400, {"vmid": "VM 100 already exists"})


def test_config_refusals(lab: Lab, p: Caller) -> None:
    clone(p)
    one = "/nodes/pve1/qemu/101"
    digest = p.put(one + "/config", digest="0" * 40, cores=2)
    assert (digest.status, digest.message) == (500, "checksum mismatch (file change by other user?)")
    assert p.put(one + "/config", nonsense=1).status == 400
    missing = p.task(p.post(one + "/config", ide2="iso:iso/none.iso,media=cdrom"))
    assert missing == "volume 'iso:iso/none.iso' does not exist"
    assert p.put(one + "/config", ide2="iso:iso/none.iso,media=cdrom").status == 500
    assert p.put(one + "/config", boot="order=scsi5").status == 400
    assert p.put(one + "/resize", disk="scsi0", size="1G").message == "shrinking disks is not supported"
    assert p.put(one + "/resize", disk="scsi7", size="50G").message == "disk 'scsi7' does not exist"
    bridge = p.put(one + "/config", net0="virtio,bridge=vmbr1")
    assert (bridge.status, bridge.message) == (
        403,
        "Permission check failed (/sdn/zones/localnetwork/vmbr1, SDN.Use)",
    )
    assert p.put(one + "/config", net0="virtio,bridge=vmbr0").status == 200
    first = p.get(one + "/config").data["net0"]
    assert first.startswith("virtio=BC:24:11:")
    assert p.put(one + "/config", net0="virtio,bridge=vmbr0").status == 200
    assert p.get(one + "/config").data["net0"] != first
    assert p.get("/nodes/pve1/qemu/999/config").status == 403
    assert p.put("/nodes/pve1/qemu/999/config", cores=1).status == 403
    assert p.delete("/nodes/pve1/qemu/999").status == 403
    assert p.get("/nodes/pve2/qemu/101/config").message == (
        "Configuration file 'nodes/pve2/qemu-server/101.conf' does not exist"
    )


def test_a_running_machine_takes_some_changes_later(lab: Lab, p: Caller) -> None:
    clone(p)
    one = "/nodes/pve1/qemu/101"
    assert p.task(p.post(one + "/status/start")) == "OK"
    assert p.task(p.post(one + "/status/start")) == "VM 101 already running"
    assert p.put(one + "/config", cores=8, description="new").status == 200
    config = p.get(one + "/config").data
    assert (config["cores"], config["description"]) == (2, "new")
    assert {"key": "cores", "value": 2, "pending": 8} in p.get(one + "/pending").data
    assert p.task(p.post(one + "/status/reboot")) == "OK"
    assert p.get(one + "/config").data["cores"] == 8
    assert p.task(p.post(one + "/status/shutdown")) == "OK"
    assert p.post(one + "/status/shutdown").message == "VM 101 not running"
    assert p.post(SRC + "/status/start").status == 403


def test_uploads_are_checked(lab: Lab) -> None:
    p, path = lab.platform, "/nodes/pve1/storage/iso/upload"
    files = {"filename": ("a.iso", ISO)}
    wrong = p.post(path, _files=files, content="iso", checksum="00" * 32, checksum__algorithm="sha256")
    assert p.task(wrong).startswith("checksum mismatch: got '")
    assert p.get("/nodes/pve1/storage/iso/content").data == []
    assert "ISO" in p.task(p.post(path, _files={"filename": ("b.iso", b"text")}, content="iso"))
    assert p.post(path, _files={"filename": ("b.txt", ISO)}, content="iso").errors == {
        "filename": "wrong file extension"
    }
    assert p.post("/nodes/pve1/storage/fast/upload", _files=files, content="iso").status == 403
    gone = p.delete("/nodes/pve1/storage/iso/content/iso:iso/none.iso")
    assert p.task(gone) == "OK"


def test_the_agent_answers_only_when_there_is_one(lab: Lab, p: Caller) -> None:
    clone(p)
    one = "/nodes/pve1/qemu/101"
    assert p.post(one + "/agent/ping").message == "VM 101 is not running"
    assert p.put(one + "/config", agent="0").status == 200
    assert p.post(one + "/agent/ping").message == "No QEMU guest agent configured"
    assert p.put(one + "/config", agent="enabled=1").status == 200
    p.task(p.post(one + "/status/start"))
    pid = p.post(one + "/agent/exec", command=["true"]).data["pid"]
    assert p.get(one + "/agent/exec-status", pid=pid).data["exited"] == 1
    assert p.get(one + "/agent/network-get-interfaces").data["result"][0]["name"] == "lo"
