"""The checker finds what it is there to find, and nothing else."""

import base64
import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab import invariants as inv

CLUSTER = {"id": "c-1", "namespace": "clusters", "name": "one"}
POOL = "trilithon/clusters.one"
ACCOUNT = inv.account_of("c-1")


def machine(n: int, phase: str = "Ready", **more: Any) -> dict[str, Any]:
    return {
        "id": f"m-{n}",
        "cluster_id": "c-1",
        "name": f"one-cp-{n}",
        "phase": phase,
        "vmid": 100 + n,
        "address": f"127.80.1.{n}",
        "mac": f"BC:24:11:00:00:{n:02X}",
        "bios_uuid": f"u-{n}",
    } | more


def vm(n: int, pool: str | None = POOL, mark: str | None = None, **config: Any) -> dict[str, Any]:
    text = f"trilithon cluster=c-1 machine=m-{n}" if mark is None else mark
    net = f"virtio=BC:24:11:00:00:{n:02X},bridge=vmbr0"
    return {
        "vmid": 100 + n,
        "name": f"one-cp-{n}",
        "pool": pool,
        "template": False,
        "config": {"description": text, "net0": net} | config,
    }


def state(*vms: dict[str, Any]) -> dict[str, Any]:
    acl = {"path": f"/pool/{POOL}", "type": "user", "ugid": ACCOUNT, "roleid": "TrilithonCluster", "propagate": 1}
    return {
        "vms": list(vms),
        "pools": {"trilithon": {}, POOL: {}},
        "users": {"admin@pve": {}, ACCOUNT: {}},
        "acl": [acl],
        "storages": {"iso": {"volumes": {}}, "shared": {"volumes": {}}},
        "ha": {"resources": {}, "rules": {}},
    }


def call(seq: int, method: str, path: str, /, status: int | None = 200, **params: Any) -> dict[str, Any]:
    entry = {"seq": seq, "kind": "call", "method": method, "path": path, "params": params}
    return entry | {"user": "trilithon@pve!platform", "status": status}


def said(violations: list[inv.Violation]) -> list[str]:
    return [str(v) for v in violations]


def i1(st_: dict[str, Any], *rows: dict[str, Any], **more: Any) -> list[str]:
    return said(inv.machines_exist_once(st_, rows, workload_pool="trilithon", **more))


def test_i1_holds() -> None:
    assert i1(state(vm(1), vm(2)), machine(1), machine(2), machine(3, "Placed"), machine(4, "Gone")) == []
    half = vm(1, pool=None, mark="")
    half["config"] = {"lock": "clone"}
    assert i1(state(half), machine(1, "Placed")) == []
    assert i1(state(vm(1)), machine(1, "Deleting")) == []
    assert i1(state(vm(1)), machine(1, "Placed"), settled=False) == []
    assert i1(state(vm(9, mark="theirs")), foreign=[109]) == []


@pytest.mark.parametrize(
    ("st_", "rows", "words"),
    [
        (state(), [machine(1)], "is not there"),
        (state(vm(1)), [], "no record"),
        (state(vm(1)), [machine(1, "Gone")], "no record"),
        (state(vm(1, mark="theirs")), [machine(1, "Placed")], "without our marker"),
        (state(vm(1), vm(2, mark="trilithon cluster=c-1 machine=m-1")), [machine(1)], "has 2 VMs"),
        (state(vm(1)), [machine(1, "Placed")], "its record says Placed"),
        (state(vm(1)), [machine(1, vmid=200)], "recorded as VM 200"),
    ],
)
def test_i1_is_broken(st_: dict[str, Any], rows: list[dict[str, Any]], words: str) -> None:
    found = i1(st_, *rows)
    assert any(words in text for text in found)


def test_i2() -> None:
    good = [machine(1), machine(2), machine(3, "Gone", vmid=101, address="127.80.1.1")]
    assert inv.identities_unique(state(vm(1), vm(2)), good, virtual_ips={"c-1": "127.80.1.50"}) == []
    twice = machine(2, vmid=101, address="127.80.1.1", mac="bc:24:11:00:00:01", bios_uuid="u-1")
    assert len(inv.identities_unique(state(), [machine(1), twice])) == 4
    elsewhere = machine(2, address="127.80.1.1", cluster_id="c-2")
    assert len(inv.identities_unique(state(), [machine(1), elsewhere])) == 1
    assert inv.identities_unique(state(), [machine(1), elsewhere], network_of={"c-2": "other"}) == []
    assert len(inv.identities_unique(state(), [machine(1)], virtual_ips={"c-1": "127.80.1.1"})) == 1
    same = vm(2, net0="virtio=bc:24:11:00:00:01,bridge=vmbr0")
    assert said(inv.identities_unique(state(vm(1), same), [])) == ["I2: MAC BC:24:11:00:00:01 is in 2 VMs"]


def test_i4_high_availability_and_drain() -> None:
    add = call(1, "POST", "/cluster/ha/resources", sid="vm:101")
    leave = call(2, "DELETE", "/cluster/ha/resources/vm:101")
    refused = call(3, "DELETE", "/nodes/pve1/qemu/101", status=500)
    delete = call(4, "DELETE", "/nodes/pve1/qemu/101")
    assert inv.deletions_prepared([add, leave, refused, delete]) == []
    assert len(inv.deletions_prepared([add, refused, delete])) == 1
    assert len(inv.deletions_prepared([delete], reasons={})) == 1
    assert inv.deletions_prepared([delete], reasons={101: "the whole cluster goes"}) == []
    lost = call(5, "DELETE", "/nodes/pve1/qemu/101", status=None) | {"cut": "cut before"}
    assert inv.deletions_prepared([add, lost]) == []


def test_i4_the_token_goes_first() -> None:
    give = call(1, "PUT", "/access/acl", path=f"/pool/{POOL}", users=ACCOUNT, roles="TrilithonCluster")
    token = call(2, "DELETE", f"/access/users/{ACCOUNT}/token/cluster")
    take = call(3, "PUT", "/access/acl", path=f"/pool/{POOL}", users=ACCOUNT, roles="TrilithonCluster", delete="1")
    pool = call(4, "DELETE", "/pools", poolid=POOL)
    assert inv.teardown_ordered([give, token, take, pool]) == []
    assert len(inv.teardown_ordered([give, pool, token])) == 1
    assert len(inv.teardown_ordered([give, take, token])) == 1


def i7(st_: dict[str, Any], rows: list[dict[str, Any]], clusters: list[dict[str, Any]], **more: Any) -> list[str]:
    return said(inv.nothing_left(st_, rows, clusters, workload_pool="trilithon", **more))


def test_i7() -> None:
    full = state(vm(1))
    full["storages"]["shared"]["volumes"] = {"101/vm-101-disk-0.qcow2": {"vmid": 101}}
    assert i7(full, [machine(1)], [CLUSTER]) == []
    assert i7(full, [machine(1)], [CLUSTER], before=full) == []
    assert i7(full, [], [], before=full) == []
    assert len(i7(full, [], [])) == 3
    gone = copy.deepcopy(full)
    gone["vms"] = []
    gone["storages"]["iso"]["volumes"] = {"iso/user-data-101.iso": {}, "iso/debian.iso": {}}
    gone["ha"] = {"resources": {"vm:101": {}}, "rules": {"apart": {"resources": "vm:101,vm:102"}}}
    assert len(i7(gone, [], [])) == 7
    starting = state(vm(1))
    starting["storages"]["iso"]["volumes"] = {"iso/user-data-101.iso": {}}
    assert i7(starting, [machine(1, "Started")], [CLUSTER]) == []
    assert i7(starting, [machine(1)], [CLUSTER]) == ["I7: boot ISO iso:iso/user-data-101.iso is left"]


def test_i10() -> None:
    quiet = [call(1, "POST", "/pools"), {"seq": 2, "kind": "task"}, call(3, "POST", "/pools")]
    assert inv.no_writes(quiet, after=3) == []
    assert len(inv.no_writes(quiet, after=1)) == 1
    assert inv.no_writes(quiet, after=1, users=["dev@pve"]) == []


def test_differences_name_the_place() -> None:
    a, b = state(vm(1)), state(vm(1))
    assert inv.differences(a, b) == []
    b["pools"]["trilithon/x"] = {}
    b["acl"] = []
    b["users"]["admin@pve"] = {"enable": False}
    places = [text.split(":")[0] for text in inv.differences(a, b)]
    assert places == ["/acl", "/pools/trilithon/x", "/users/admin@pve/enable"]


SECRETS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=12, max_size=60)


@given(SECRETS, st.binary(max_size=9), st.binary(max_size=9))
def test_i8_finds_a_secret_in_base64_anywhere(secret: str, ahead: bytes, behind: bytes) -> None:
    coded = base64.b64encode(ahead + secret.encode() + behind)
    assert len(inv.secrets_absent({"log": coded}, {"token": secret})) == 1


def test_i8() -> None:
    secret = 'tok"en/with\nlines'
    texts: dict[str, str | bytes] = {
        "plain": f"x{secret}y",
        "json": '{"a": "tok\\"en/with\\nlines"}',
        "url": "?a=tok%22en%2Fwith%0Alines",
        "clean": b"nothing \xff here",
    }
    found = said(inv.secrets_absent(texts, {"t": secret}))
    assert found == [f"I8: secret t is in {where}" for where in ("plain", "json", "url")]
    assert all("tok" not in text for text in found)
    with pytest.raises(ValueError, match="fewer than"):
        inv.secrets_absent({}, {"short": "abc"})
