"""Sites and templates, set up by the local administrator against the simulated Proxmox VE. Checks write nothing."""

from typing import Any

import pytest

from tests.api.world import LOCAL, Lab, World


def body(lab: Lab, **change: Any) -> dict[str, Any]:
    """A second site on the same datacenter."""
    return {
        "name": "second",
        "endpoints": list(lab.endpoints),
        "fingerprint": lab.fingerprint,
        "token_id": lab.token_id,
        "token_secret": lab.token_secret,
        "workload_pool": "trilithon",
        "template_pool": "trilithon-templates",
        "bridges": ["vmbr0"],
        "storages": ["shared", "fast"],
        "iso_storage": "iso",
        "vmid_first": 30000,
        "vmid_last": 30999,
    } | change


async def test_a_site_is_added_once_it_was_looked_at(world: World) -> None:
    before = world.lab.writes()
    answer = await world.person(LOCAL).post("/sites", json=body(world.lab))
    assert answer.status_code == 201, answer.text
    report = answer.json()["report"]
    assert report["ok"], report
    assert report["missing"] == []
    assert report["nodes"] == ["pve1", "pve2", "pve3"]
    assert world.lab.writes() == before
    assert world.lab.token_secret not in answer.text
    site = await world.store.sites.find("second")
    assert site is not None
    assert await world.store.secrets.get(f"site/{site.id}", "token") == world.lab.token_secret.encode()
    entry = (await world.person(LOCAL).get("/audit?action=site.add")).json()["items"][0]
    assert (entry["actor"], entry["acting_as"]) == ("admin (local)", world.lab.token_id)
    assert world.lab.token_secret not in (await world.person(LOCAL).get("/audit")).text


async def test_the_same_add_twice(world: World) -> None:
    person = world.person(LOCAL)
    headers = {"Idempotency-Key": "add-second"}
    first = await person.post("/sites", json=body(world.lab), headers=headers)
    again = await person.post("/sites", json=body(world.lab), headers=headers)
    assert (first.status_code, first.content) == (again.status_code, again.content)
    other = await person.post("/sites", json=body(world.lab))
    assert (other.status_code, other.json()["code"]) == (409, "already-exists")
    assert (await person.get("/sites")).json()["total"] == 2


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no address": ({"endpoints": ["http://127.0.0.1:8006"]}, "endpoints[0]"),
    "the same address twice": ({"endpoints": ["https://a:8006", "https://a:8006"]}, "endpoints"),
    "no fingerprint": ({"fingerprint": "AA:BB"}, "fingerprint"),
    "no PEM": ({"fingerprint": None, "ca": "hello"}, "ca"),
    "two pins": ({"ca": "hello"}, "ca"),
    "no token id": ({"token_id": "root"}, "token_id"),
    "no storage name": ({"storages": ["../x"]}, "storages[0]"),
    "an empty range": ({"vmid_first": 300, "vmid_last": 200}, "vmid_last"),
    "templates among the machines": ({"template_pool": "trilithon/templates"}, "template_pool"),
    "another certificate": ({"fingerprint": ":".join(["AB"] * 32)}, "fingerprint"),
    "a wrong secret": ({"token_secret": "00000000-0000-0000-0000-000000000000"}, "token_secret"),
}


@pytest.mark.parametrize("name", WRONG)
async def test_what_cannot_be_is_refused_and_nothing_is_kept(world: World, name: str) -> None:
    change, path = WRONG[name]
    answer = await world.person(LOCAL).post("/sites", json=body(world.lab, **change))
    assert answer.status_code == 422, answer.text
    problem = answer.json()
    assert path in [one["path"] for one in problem["violations"]]
    assert problem["remedy"]
    assert world.lab.token_secret not in answer.text
    assert [site.name for site in await world.store.sites.list()] == ["lab"]


async def test_another_certificate_is_shown_for_comparing(world: World) -> None:
    wrong = body(world.lab, fingerprint=":".join(["AB"] * 32))
    answer = await world.person(LOCAL).post("/sites", json=wrong)
    assert answer.json()["code"] == "certificate-not-pinned"
    assert world.lab.fingerprint in answer.json()["detail"]


async def test_each_missing_privilege_comes_with_the_line_that_grants_it(world: World) -> None:
    """A bridge of another name: our account holds nothing on it, and no node has it."""
    answer = await world.person(LOCAL).post("/sites", json=body(world.lab, bridges=["vmbr0", "vmbr9"]))
    report = answer.json()["report"]
    assert not report["ok"]
    lacking = report["missing"][0]
    assert (lacking["privilege"], lacking["path"]) == ("SDN.Use", "/sdn/zones/localnetwork/vmbr9")
    assert "pveum acl modify /sdn/zones/localnetwork/vmbr9" in lacking["command"]["line"]
    assert any(one["severity"] == "error" and one["subject"] == "vmbr9" for one in report["findings"])


async def test_a_change_is_checked_kept_and_guarded_by_its_version(world: World) -> None:
    person = world.person("admin@pve")
    answer = await person.call("PATCH", "/sites/lab", json={"version": 1, "bridges": ["vmbr0", "vmbr1"]})
    assert answer.status_code == 200
    assert (answer.json()["bridges"], answer.json()["version"]) == (["vmbr0", "vmbr1"], 2)
    stale = await person.call("PATCH", "/sites/lab", json={"version": 1, "region": "x"})
    assert (stale.status_code, stale.json()["code"]) == (409, "conflict")
    pinned = await person.call("PATCH", "/sites/lab", json={"version": 2, "fingerprint": ":".join(["AB"] * 32)})
    assert (pinned.status_code, pinned.json()["code"]) == (422, "certificate-not-pinned")
    moved = await person.call("PATCH", "/sites/lab", json={"version": 2, "workload_pool": "elsewhere"})
    assert (moved.status_code, moved.json()["code"]) == (409, "in-use")
    unknown = await person.call("PATCH", "/sites/lab", json={"version": 2, "colour": "red"})
    assert unknown.status_code == 422


async def test_a_used_site_stays(world: World) -> None:
    answer = await world.person(LOCAL).delete("/sites/lab")
    assert (answer.status_code, answer.json()["code"]) == (409, "in-use")
    assert "clusters/prod" in answer.json()["detail"]


async def test_an_unused_site_goes_with_its_secret(world: World) -> None:
    person = world.person(LOCAL)
    await person.post("/sites", json=body(world.lab))
    site = await world.store.sites.find("second")
    assert site is not None
    assert (await person.delete("/sites/second")).status_code == 204
    assert not await world.store.secrets.has(f"site/{site.id}", "token")
    assert (await person.get("/sites/second")).status_code == 404


async def test_a_token_is_tried_before_it_is_kept(world: World) -> None:
    person = world.person(LOCAL)
    refused = await person.post("/sites/lab/rotate-token", json={"token_secret": "wrong"})
    assert (refused.status_code, refused.json()["code"]) == (422, "token-refused")
    assert await world.store.secrets.get("site/site-lab", "token") == world.lab.token_secret.encode()
    taken = await person.post("/sites/lab/rotate-token", json={"token_secret": world.lab.token_secret})
    assert taken.status_code == 200
    assert world.lab.token_secret not in taken.text


async def test_a_check_writes_nothing(world: World) -> None:
    before, seq = world.lab.writes(), await world.store.feed.last()
    answer = await world.person("admin@pve").post("/sites/lab/check")
    assert answer.status_code == 200
    assert answer.json()["ok"], answer.json()
    assert (world.lab.writes(), await world.store.feed.last()) == (before, seq)


async def test_a_self_test_is_a_job(world: World) -> None:
    answer = await world.person(LOCAL).post("/sites/lab/selftest")
    assert answer.status_code == 202
    assert (answer.json()["kind"], answer.json()["site"]) == ("SelfTest", "lab")
    world.engine.away = True
    away = await world.person(LOCAL).post("/sites/lab/selftest")
    assert (away.status_code, away.json()["code"]) == (503, "engine-away")


async def test_templates_are_looked_at_before_they_are_registered(world: World) -> None:
    person = world.person(LOCAL)
    local = {"distribution": "k3s", "version": "v1.36.5+k3s1", "nodes": {"pve1": 9011, "pve2": 9012, "pve3": 9013}}
    answer = await person.post("/sites/lab/templates", json=local)
    assert answer.status_code == 201, answer.text
    assert answer.json()["nodes"] == local["nodes"]
    again = await person.post("/sites/lab/templates", json=local)
    assert (again.status_code, again.json()["code"]) == (409, "already-exists")
    assert (await person.get("/sites/lab/templates")).json()["total"] == 3


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"version": "1.36"}, "version"),
        ({"version": "v1.36.5+rke2r1"}, "version"),
        ({"nodes": {"pve1": 4711}}, "nodes.pve1"),
        ({"nodes": {"pve2": 9011}}, "nodes.pve2"),
        ({"nodes": {"pve1": 9011, "pve2": 9012}, "shared": True}, "nodes"),
    ],
)
async def test_a_template_that_is_none_is_refused(world: World, change: dict[str, Any], path: str) -> None:
    good = {"distribution": "k3s", "version": "v1.36.5+k3s1", "nodes": {"pve1": 9011}}
    answer = await world.person(LOCAL).post("/sites/lab/templates", json=good | change)
    assert answer.status_code == 422, answer.text
    assert path in [one["path"] for one in answer.json()["violations"]]
    assert (await world.person(LOCAL).get("/sites/lab/templates")).json()["total"] == 2


async def test_a_template_is_forgotten(world: World) -> None:
    person = world.person("admin@pve")
    assert (await person.delete("/sites/lab/templates/k3s/v1.36.5%2Bk3s1")).status_code == 204
    assert (await person.delete("/sites/lab/templates/k3s/v1.36.5%2Bk3s1")).status_code == 404


async def test_secrets_never_come_back(world: World) -> None:
    person = world.person(LOCAL)
    for path in ("/sites", "/sites/lab", "/sites/lab/templates", "/audit", "/info"):
        assert world.lab.token_secret not in (await person.get(path)).text
