"""Users, tokens, roles, ACLs: what they add up to and who may change them (facts: proxmox.md 1.2 to 1.4)."""

from .conftest import Caller, Lab

CLUSTER = "trilithon/clusters.one"


def user_with_token(p: Caller, lab: Lab, name: str, privsep: int = 0) -> Caller:
    assert p.post("/access/users", userid=f"{name}@pve", comment="x").status == 200
    made = p.post(f"/access/users/{name}@pve/token/cluster", privsep=privsep)
    assert made.status == 200
    assert made.data["full-tokenid"] == f"{name}@pve!cluster"
    return lab.token(f"{name}@pve!cluster", made.data["value"])


def held(who: Caller, path: str) -> dict[str, int]:
    data: dict[str, dict[str, int]] = who.get("/access/permissions", path=path).data
    assert list(data) == [path]
    return data[path]


def test_the_platforms_way_to_a_clusters_identity(lab: Lab) -> None:
    before = lab.state()
    p = lab.platform
    p.post("/pools", poolid=CLUSTER)
    token = user_with_token(p, lab, "trilithon-00c0ffee")
    again = p.post("/access/users/trilithon-00c0ffee@pve/token/cluster", privsep=0)
    assert (again.status, again.errors) == (400, {"tokenid": "Token already exists."})
    twice = p.post("/access/users", userid="trilithon-00c0ffee@pve")
    assert "already exists" in twice.message
    assert token.get("/cluster/resources", type="vm").data == []
    me = "trilithon-00c0ffee@pve"
    assert p.put("/access/acl", path=f"/pool/{CLUSTER}", users=me, roles="TrilithonCluster").status == 200
    assert p.put("/access/acl", path="/storage/shared", users=me, roles="TrilithonClusterStorage").status == 200
    assert held(token, f"/pool/{CLUSTER}") == {"VM.Audit": 1, "VM.Config.Disk": 1}
    clone = p.post("/nodes/pve1/qemu/9002/clone", newid=101, pool=CLUSTER, full=1)
    assert p.task(clone) == "OK"
    assert held(token, "/vms/101") == {"VM.Audit": 0, "VM.Config.Disk": 0}
    assert [r["vmid"] for r in token.get("/cluster/resources", type="vm").data] == [101]
    assert token.get("/nodes/pve1/qemu/101/config").status == 200
    assert token.get("/cluster/ha/groups").status == 403
    denied = token.post("/nodes/pve1/qemu/101/status/start")
    assert (denied.status, denied.message) == (403, "Permission check failed (/vms/101, VM.PowerMgmt)")
    names = {r["storage"] for r in token.get("/cluster/resources", type="storage").data}
    assert names == {"shared"}
    assert p.delete(f"/access/users/{me}/token/cluster").status == 200
    assert token.get("/version").status == 401
    missing = p.delete(f"/access/users/{me}/token/cluster")
    assert (missing.status, missing.message) == (500, f"no such token 'cluster' for user '{me}'")
    assert p.delete(f"/access/users/{me}").status == 200
    assert p.delete(f"/access/users/{me}").message == f"no such user ('{me}')"
    assert p.task(p.delete("/nodes/pve1/qemu/101")) == "OK"
    full = p.delete("/pools", poolid="trilithon")
    assert (full.status, "is not empty" in full.message) == (500, True)
    assert p.delete("/pools", poolid=CLUSTER).status == 200
    assert lab.state() == before


def test_the_nearest_level_replaces(lab: Lab) -> None:
    root = lab.sign_in("root@pam")
    dev = lab.sign_in("dev@pve")
    assert "VM.Allocate" in held(dev, "/pool/trilithon/clusters.prod")
    path = "/pool/trilithon/clusters.prod"
    root.put("/access/acl", path=path, users="dev@pve", roles="PVEAuditor", propagate=0)
    assert held(dev, path) == dict.fromkeys(held(lab.sign_in("auditor@pve"), path), 0)
    assert "VM.Allocate" in held(dev, path + "/x")
    root.put("/access/acl", path=path, users="dev@pve", roles="PVEPoolUser", propagate=1)
    assert held(dev, path)["Pool.Audit"] == 1
    assert "VM.Allocate" not in held(dev, path + "/x")
    root.put("/access/acl", path=path, users="dev@pve", roles="NoAccess")
    assert held(dev, path) == {}
    for role in ("NoAccess", "PVEAuditor", "PVEPoolUser"):
        assert root.put("/access/acl", path=path, users="dev@pve", roles=role, delete=1).status == 200
    assert "VM.Allocate" in held(dev, path)


def test_users_beat_groups_and_groups_add_up(lab: Lab) -> None:
    root, stranger = lab.sign_in("root@pam"), lab.sign_in("stranger@pve")
    for group in ("g1", "g2"):
        assert root.post("/access/groups", groupid=group).status == 200
    assert root.put("/access/users/stranger@pve", groups="g1,g2").status == 200
    root.put("/access/acl", path="/vms", groups="g1", roles="PVETemplateUser")
    root.put("/access/acl", path="/vms", groups="g2", roles="PVEPoolUser")
    assert held(stranger, "/vms/101") == {"Pool.Audit": 1, "VM.Audit": 1, "VM.Clone": 1}
    root.put("/access/acl", path="/vms", users="stranger@pve", roles="PVEPoolUser")
    assert held(stranger, "/vms/101") == {"Pool.Audit": 1}
    root.delete("/access/groups/g1")
    assert "g1" not in str(root.get("/access/acl").data)


def test_a_separated_token_has_what_both_have(lab: Lab) -> None:
    root = lab.sign_in("root@pam")
    root.post("/access/users", userid="u@pve")
    value = root.post("/access/users/u@pve/token/tok").data["value"]
    token = lab.token("u@pve!tok", value)
    root.put("/access/acl", path="/vms", users="u@pve", roles="PVEVMUser")
    assert held(token, "/vms/9001") == {}
    root.put("/access/acl", path="/vms", tokens="u@pve!tok", roles="PVETemplateUser")
    assert held(token, "/vms/9001") == {"VM.Audit": 1}
    root.put("/access/users/u@pve/token/tok", privsep=0)
    assert "VM.PowerMgmt" in held(token, "/vms/9001")
    root.put("/access/users/u@pve", enable=0)
    assert token.get("/version").status == 401


def test_permissions_without_a_path_and_of_others(lab: Lab) -> None:
    dev = lab.sign_in("dev@pve")
    listed = dev.get("/access/permissions").data
    assert set(listed) == {
        "/pool/trilithon",
        "/pool/trilithon/clusters.prod",
        "/storage/shared",
        "/sdn/zones/localnetwork/vmbr0",
    }
    assert dev.get("/access/permissions", userid="admin@pve").status == 403
    assert lab.platform.get("/access/permissions", userid="dev@pve").status == 403
    of_dev = lab.sign_in("auditor@pve").get("/access/permissions", userid="dev@pve", path="/pool/trilithon").data
    assert "VM.Allocate" in of_dev["/pool/trilithon"]
    assert held(lab.sign_in("stranger@pve"), "/") == {}
    assert len(held(lab.sign_in("root@pam"), "/vms/1")) > 40


def test_roles_and_who_may_grant(lab: Lab) -> None:
    root, p, dev = lab.sign_in("root@pam"), lab.platform, lab.sign_in("dev@pve")
    bad = root.post("/access/roles", roleid="Mine", privs="VM.Monitor")
    assert (bad.status, "invalid privilege 'VM.Monitor'" in bad.errors["privs"]) == (400, True)
    assert root.post("/access/roles", roleid="pveMine", privs="VM.Audit").status == 400
    assert root.post("/access/roles", roleid="Mine", privs="VM.Audit").status == 200
    assert p.post("/access/roles", roleid="Other", privs="VM.Audit").status == 403
    assert root.delete("/access/roles/PVEAdmin").message == "auto-generated role 'PVEAdmin' cannot be deleted"
    args = {"path": "/pool/trilithon", "users": "stranger@pve", "roles": "PVEAuditor"}
    denied = dev.put("/access/acl", **args)
    narrower = p.put("/access/acl", **args)
    assert (narrower.status, list(narrower.errors)) == (400, ["role"])
    args["roles"] = "TrilithonCluster"
    assert denied.message == "Permission check failed (/pool/trilithon, Permissions.Modify|Pool.Allocate)"
    assert p.put("/access/acl", **args).status == 200
    assert root.put("/access/acl", path="/nonsense", users="dev@pve", roles="Mine").errors == {
        "path": "invalid ACL path '/nonsense'"
    }
    assert "does not exist" in root.put("/access/acl", path="/", users="dev@pve", roles="None").message
    root.post("/access/roles", roleid="PoolMaker", privs="Pool.Allocate,VM.Audit")
    root.put("/access/acl", path="/pool/trilithon-templates", users="dev@pve", roles="PoolMaker")
    narrow = {"path": "/pool/trilithon-templates", "users": "stranger@pve"}
    assert dev.put("/access/acl", roles="Mine", **narrow).status == 200
    wide = dev.put("/access/acl", roles="PVEVMAdmin", **narrow)
    assert (wide.status, list(wide.errors)) == (400, ["role"])
    assert root.delete("/access/roles/Mine").status == 200
    assert "Mine" not in str(root.get("/access/acl").data)


def test_what_is_hidden(lab: Lab) -> None:
    stranger, dev, auditor = (lab.sign_in(f"{n}@pve") for n in ("stranger", "dev", "auditor"))
    assert {r["node"] for r in stranger.get("/nodes").data} == {"pve1", "pve2", "pve3"}
    assert all("maxmem" not in r for r in stranger.get("/nodes").data)
    assert auditor.get("/nodes").data[0]["maxmem"] == 32 * 1024**3
    assert [r["type"] for r in stranger.get("/cluster/resources").data] == ["node"] * 3
    assert stranger.get("/cluster/status").status == 403
    assert auditor.get("/cluster/status").data[0]["name"] == "lab"
    assert stranger.get("/nodes/pve1/status").status == 403
    assert auditor.get("/nodes/pve1/status").data["memory"]["total"] == 32 * 1024**3
    assert [s["storage"] for s in dev.get("/nodes/pve1/storage").data] == ["shared"]
    assert stranger.get("/nodes/pve1/storage").data == []
    assert stranger.get("/nodes/pve1/storage/shared/status").status == 403
    bridges = {"type": "any_bridge"}
    assert [b["iface"] for b in dev.get("/nodes/pve1/network", **bridges).data] == ["vmbr0"]
    assert stranger.get("/nodes/pve1/network", **bridges).data == []
    assert [b["iface"] for b in auditor.get("/nodes/pve1/network", **bridges).data] == ["vmbr0", "vmbr1"]
    assert [r["poolid"] for r in auditor.get("/pools").data] == ["trilithon", "trilithon-templates"]
    assert stranger.get("/pools").data == []
    assert stranger.get("/pools", poolid="trilithon").status == 403
    assert stranger.get("/nodes/pve1/qemu/9001/config").status == 403
    pools = [r["pool"] for r in lab.platform.get("/cluster/resources").data if r["type"] == "pool"]
    assert pools == ["trilithon", "trilithon-templates"]


def test_nested_pools_are_named_by_query_only(lab: Lab) -> None:
    p = lab.platform
    assert "does not exist" in p.post("/pools", poolid="trilithon/a/b").message
    assert p.post("/pools", poolid="trilithon/a").status == 200
    assert "already exists" in p.post("/pools", poolid="trilithon/a").message
    assert p.get("/pools/trilithon/a").status == 501
    assert p.call("DELETE", "/pools/trilithon/a").status == 501
    assert p.get("/pools", poolid="trilithon/a").data[0]["members"] == []
    assert p.get("/pools", poolid="trilithon/b").message == "pool 'trilithon/b' does not exist"
    assert p.post("/pools", poolid="else").status == 403
    lab.control("POST", "/lab/foreign", {"vmid": 300, "pool": "trilithon/a"})
    assert "is not empty (contains VM 300)" in p.delete("/pools", poolid="trilithon/a").message
    again = p.put("/pools", poolid="trilithon", vms="300")
    assert "belongs already to pool" in again.message
