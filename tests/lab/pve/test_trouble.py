"""Fault rules, dead nodes, lost quorum, tasks that vanish, the journal, HA."""

import httpx
import pytest

from .conftest import Caller, Lab

POOL = "trilithon/clusters.one"
CLONE = "/nodes/pve1/qemu/9002/clone"


@pytest.fixture
def p(lab: Lab) -> Caller:
    assert lab.platform.post("/pools", poolid=POOL).status == 200
    return lab.platform


def fault(lab: Lab, match: dict[str, object], **do: object) -> None:
    lab.control("POST", "/lab/faults", {"match": match, "do": do})


def test_a_refusal_on_the_nth_call_of_one_user(lab: Lab, p: Caller) -> None:
    match = {"method": "GET", "path": "^/version$", "nth": 2, "user": lab.platform_id}
    fault(lab, match, status=503, text="busy")
    admin = lab.sign_in("admin@pve")
    statuses = [who.get("/version").status for who in (p, admin, p, p)]
    assert statuses == [200, 200, 503, 200]
    assert lab.control("GET", "/lab/faults")[0]["fired"] == 1
    lab.control("DELETE", "/lab/faults")
    answer = lab.http.post(lab.ready["control"] + "/lab/faults", json={"match": {"pth": "x"}, "do": {}})
    assert answer.status_code == 400


def test_cut_before_and_after_the_effect(lab: Lab, p: Caller) -> None:
    for cut, there in (("before", False), ("after", True)):
        fault(lab, {"method": "POST", "path": "^/pools$", "times": 1}, cut=cut)
        with pytest.raises(httpx.TransportError):
            p.post("/pools", poolid=f"trilithon/{cut}")
        assert (f"trilithon/{cut}" in lab.state()["pools"]) is there
        lab.control("DELETE", "/lab/faults")
    cuts = [e["cut"] for e in lab.control("GET", "/lab/journal") if "cut" in e]
    assert cuts == ["cut before", "cut after"]


def test_an_upload_cut_in_the_middle(lab: Lab, p: Caller) -> None:
    fault(lab, {"path": "/upload$"}, cut_bytes=1000)
    files = {"filename": ("a.iso", b"0" * 500_000)}
    with pytest.raises(httpx.TransportError):
        p.post("/nodes/pve1/storage/iso/upload", _files=files, content="iso")
    assert lab.state()["storages"]["iso"]["volumes"] == {}


def test_task_ends(lab: Lab, p: Caller) -> None:
    fault(lab, {"path": "/clone$", "nth": 1}, task_exit="clone failed: boom")
    fault(lab, {"path": "/clone$", "nth": 2}, task_exit="WARNINGS: 1")
    fault(lab, {"path": "/clone$", "nth": 3}, task_lost=True)
    assert p.task(p.post(CLONE, newid=101, pool=POOL, full=1)) == "clone failed: boom"
    assert p.task(p.post(CLONE, newid=101, pool=POOL, full=1)) == "WARNINGS: 1"
    lost = p.post(CLONE, newid=102, pool=POOL, full=1)
    gone = p.get(f"/nodes/pve1/tasks/{lost.data}/status")
    assert (gone.status, gone.errors) == (400, {"upid": "no such task"})
    assert [vm["vmid"] for vm in lab.state()["vms"]][:2] == [101, 102]


def test_tasks_and_who_sees_them(lab: Lab, p: Caller) -> None:
    lab.control("PUT", "/lab/latency", {"clone": 0.4})
    reply = p.post(CLONE, newid=101, pool=POOL, full=1)
    active = p.get("/nodes/pve1/tasks", source="active", vmid=9002, typefilter="qmclone").data
    assert [t["upid"] for t in active] == [reply.data]
    assert p.task(reply) == "OK"
    assert p.get("/nodes/pve1/tasks", source="active").data == []
    done = p.get("/nodes/pve1/tasks", source="all").data
    assert (done[0]["status"], done[0]["user"], done[0]["tokenid"]) == ("OK", "trilithon@pve!platform", "platform")
    log = p.get(f"/nodes/pve1/tasks/{reply.data}/log").data
    assert log[-1]["t"] == "TASK OK"
    stranger, auditor = lab.sign_in("stranger@pve"), lab.sign_in("auditor@pve")
    assert stranger.get("/nodes/pve1/tasks", source="all").data == []
    assert stranger.get(f"/nodes/pve1/tasks/{reply.data}/status").status == 403
    assert auditor.get(f"/nodes/pve1/tasks/{reply.data}/status").status == 200
    assert p.get("/nodes/pve1/tasks/nonsense/status").status == 400
    other = p.get(f"/nodes/pve2/tasks/{reply.data}/status")
    assert other.errors == {"upid": "no such task"}


def test_a_dead_node(lab: Lab, p: Caller) -> None:
    assert p.task(p.post(CLONE, newid=101, pool=POOL, full=1, target="pve3")) == "OK"
    one = "/nodes/pve3/qemu/101"
    p.task(p.post(one + "/config", onboot=1))
    p.task(p.post(one + "/status/start"))
    assert p.get("/version", node=3).status == 200
    lab.control("PUT", "/lab/nodes/pve3", {"online": False})
    with pytest.raises(httpx.TransportError):
        p.get("/version", node=3)
    away = p.get(one + "/config")
    assert (away.status, away.reason) == (595, "No route to host")
    rows = {r["id"]: r for r in p.get("/cluster/resources").data}
    assert rows["qemu/101"]["status"] == "unknown"
    assert rows["node/pve3"]["status"] == "offline"
    assert "maxmem" not in rows["node/pve3"]
    assert rows["storage/pve3/shared"]["status"] == "unknown"
    members = {r["name"]: r["online"] for r in p.get("/cluster/status").data if r["type"] == "node"}
    assert members == {"pve1": 1, "pve2": 1, "pve3": 0}
    lab.control("PUT", "/lab/nodes/pve3", {"online": True})
    assert p.get(one + "/status/current", node=3).data["status"] == "running"
    assert p.get("/nodes/none/status").status in (403, 500)


def test_a_node_that_dies_in_a_clone_leaves_the_lock(lab: Lab, p: Caller) -> None:
    lab.control("PUT", "/lab/latency", {"clone": 30})
    reply = p.post(CLONE, newid=101, pool=POOL, full=1)
    lab.control("PUT", "/lab/nodes/pve1", {"online": False})
    lab.control("PUT", "/lab/nodes/pve1", {"online": True})
    status = p.get(f"/nodes/pve1/tasks/{reply.data}/status").data
    assert (status["status"], status["exitstatus"]) == ("stopped", "unexpected status")
    assert lab.state()["vms"][0]["config"] == {"lock": "clone"}


def test_without_quorum_writes_are_refused(lab: Lab, p: Caller) -> None:
    lab.control("PUT", "/lab/quorum", {"quorate": False})
    for call in (
        p.post(CLONE, newid=101, pool=POOL),
        p.delete("/pools", poolid=POOL),
        p.post("/access/users", userid="a@pve"),
    ):
        assert (call.status, call.message) == (500, "cluster not ready - no quorum?")
    assert p.get("/cluster/status").data[0]["quorate"] == 0
    assert lab.sign_in("dev@pve").get("/version").status == 200
    lab.control("PUT", "/lab/quorum", {"quorate": True})
    for node in ("pve2", "pve3"):
        lab.control("PUT", f"/lab/nodes/{node}", {"online": False})
    assert p.post("/pools", poolid="trilithon/x").status == 500
    lab.control("PUT", "/lab/nodes/pve2", {"online": True})
    assert p.post("/pools", poolid="trilithon/x").status == 200


def test_memory_follows_what_runs(lab: Lab, p: Caller) -> None:
    lab.control("PUT", "/lab/nodes/pve2", {"maxmem": 8 * 1024**3, "mem": 1024**3})
    before = next(r for r in p.get("/nodes").data if r["node"] == "pve2")
    assert (before["maxmem"], before["mem"]) == (8 * 1024**3, 1024**3)
    lab.control(
        "POST", "/lab/foreign", {"vmid": 300, "node": "pve2", "status": "running", "config": {"memory": "2048"}}
    )
    after = next(r for r in p.get("/nodes").data if r["node"] == "pve2")
    assert after["mem"] == 3 * 1024**3


def test_the_journal_masks_secrets(lab: Lab, p: Caller) -> None:
    lab.sign_in("dev@pve")
    p.post("/access/users", userid="x@pve", password="hush-hush")
    p.post("/access/users/x@pve/token/t")
    journal = lab.control("GET", "/lab/journal")
    text = str(journal)
    assert "hush-hush" not in text
    assert "lab-dev" not in text
    assert [e["seq"] for e in journal] == list(range(1, len(journal) + 1))
    last = journal[-1]
    assert (last["method"], last["path"], last["user"], last["status"]) == (
        "POST",
        "/access/users/x@pve/token/t",
        lab.platform_id,
        200,
    )
    assert lab.control("GET", f"/lab/journal?after={last['seq']}") == []


def test_high_availability(lab: Lab, p: Caller) -> None:
    lab.control("PUT", "/lab/latency", {"ha": 0.02})
    before, admin = lab.state(), lab.sign_in("admin@pve")
    groups = admin.get("/cluster/ha/groups")
    assert groups.message == "cannot index groups: ha groups have been migrated to rules"
    for vmid in (101, 102):
        assert p.task(p.post(CLONE, newid=vmid, pool=POOL, full=1)) == "OK"
    rule = {"rule": "apart", "type": "resource-affinity", "affinity": "negative", "resources": "vm:101,vm:102"}
    assert "unmanaged" in admin.post("/cluster/ha/rules", **rule).message
    for vmid in (101, 102):
        assert admin.post("/cluster/ha/resources", sid=f"vm:{vmid}", state="stopped").status == 200
    alone = dict(rule, resources="vm:101")
    assert admin.post("/cluster/ha/rules", **alone).status == 400
    assert admin.post("/cluster/ha/rules", **rule).status == 200
    assert admin.get("/cluster/ha/rules").data[0]["rule"] == "apart"
    assert "HA resources" in p.delete("/nodes/pve1/qemu/101").message
    assert lab.sign_in("dev@pve").get("/cluster/ha/rules").status == 403
    for vmid in (101, 102):
        assert admin.delete(f"/cluster/ha/resources/vm:{vmid}", purge=1).status == 200
        assert p.task(p.delete(f"/nodes/pve1/qemu/{vmid}")) == "OK"
    assert lab.state() == before
