"""Volumes of a cluster: owned by one machine, attached to another, shared and local (facts: addons C, D)."""

import pytest

from .conftest import Caller, Lab

POOL = "trilithon/clusters.one"
ACCOUNT = "trilithon-00c0ffee@pve"
OWNER, WORKER = "/nodes/pve1/qemu/150", "/nodes/pve1/qemu/101"


@pytest.fixture
def token(lab: Lab) -> Caller:
    """A cluster's own token, its volume owner VM 150, and a running worker 101."""
    p = lab.platform
    p.post("/pools", poolid=POOL)
    owner = {"vmid": 150, "name": "one-volumes", "pool": POOL, "memory": 16, "scsihw": "virtio-scsi-single"}
    assert p.task(p.post("/nodes/pve1/qemu", **owner)) == "OK"
    assert p.task(p.post("/nodes/pve1/qemu/9002/clone", newid=101, name="w", pool=POOL, full=1)) == "OK"
    assert p.task(p.post(WORKER + "/status/start")) == "OK"
    p.post("/access/users", userid=ACCOUNT)
    value = p.post(f"/access/users/{ACCOUNT}/token/cluster", privsep=0).data["value"]
    p.put("/access/acl", path=f"/pool/{POOL}", users=ACCOUNT, roles="TrilithonCluster")
    for storage in ("shared", "fast"):
        p.put("/access/acl", path=f"/storage/{storage}", users=ACCOUNT, roles="TrilithonClusterStorage")
    return lab.token(f"{ACCOUNT}!cluster", value)


def make(who: Caller, node: str, storage: str, name: str, vmid: int = 150) -> str:
    path = f"/nodes/{node}/storage/{storage}/content"
    reply = who.post(path, filename=name, size="1G", vmid=vmid)
    assert reply.status == 200, reply.message
    return str(reply.data)


def test_attach_and_remove_through_the_owner(lab: Lab, token: Caller) -> None:
    volume = make(token, "pve1", "shared", "vm-150-pvc-1.raw")
    assert token.get("/storage/shared").status == 403
    assert token.task(token.post(WORKER + "/config", scsi1=f"{volume},backup=0,iothread=1")) == "OK"
    assert token.get(WORKER + "/config").data["scsi1"].startswith(volume)
    assert token.put(WORKER + "/unlink", idlist="scsi1").status == 200
    config = token.get(WORKER + "/config").data
    assert not [k for k in config if k.startswith(("scsi1", "unused"))]
    assert token.delete(f"/nodes/pve1/storage/shared/content/{volume}").status == 403
    assert token.task(token.post(OWNER + "/config", scsi0=volume)) == "OK"
    assert token.put(OWNER + "/unlink", idlist="scsi0", force=1).status == 200
    assert volume.split(":")[1] not in lab.state()["storages"]["shared"]["volumes"]


def test_anothers_volume_is_refused(lab: Lab, token: Caller) -> None:
    lab.control("POST", "/lab/foreign", {"vmid": 300, "name": "theirs", "node": "pve1"})
    theirs = "shared:300/vm-300-disk-0.qcow2"
    refused = token.post(WORKER + "/config", scsi1=theirs)
    assert (refused.status, refused.message) == (403, "Permission check failed (/vms/300, VM.Config.Disk)")
    rows = token.get("/nodes/pve1/storage/shared/content", content="images").data
    assert {r["vmid"] for r in rows} == {101}


def test_local_volumes_stay_on_their_node(lab: Lab, token: Caller) -> None:
    volume = make(token, "pve2", "fast", "vm-150-pvc-2")
    on = {n: token.get(f"/nodes/{n}/storage/fast/content").data for n in ("pve1", "pve2")}
    assert on["pve1"] == []
    assert [r["volid"] for r in on["pve2"]] == [volume]
    assert token.task(token.post(WORKER + "/config", scsi1=volume)) == f"volume '{volume}' does not exist"
    p = lab.platform
    here = make(token, "pve1", "fast", "vm-150-pvc-3")
    assert p.task(p.delete(OWNER, purge=1, destroy__unreferenced__disks=1)) == "OK"
    left = {k for k, v in lab.state()["storages"]["fast"]["volumes"].items() if v["vmid"] == 150}
    assert here.split(":")[1] not in left
    assert left == {volume.split(":")[1]}


def test_a_removed_disk_of_its_own_becomes_unused(lab: Lab, token: Caller) -> None:
    p = lab.platform
    assert p.task(p.post(WORKER + "/config", scsi2="shared:4")) == "OK"
    volume = p.get(WORKER + "/config").data["scsi2"].split(",")[0]
    assert p.put(WORKER + "/config", delete="scsi2").status == 200
    config = p.get(WORKER + "/config").data
    assert (config["unused0"], "scsi2" in config) == (volume, False)
    assert p.put(WORKER + "/config", delete="unused0").status == 200
    assert volume.split(":")[1] not in lab.state()["storages"]["shared"]["volumes"]
