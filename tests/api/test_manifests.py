"""Manifests through the API: the table of bad ones, and bodies that are no manifest at all. Nothing may be written."""

import json
from typing import Any

import pytest
import yaml

from api.manifests import LIMIT
from tests.api.world import World
from tests.domain.bad_manifests import BAD, CROSS, Bad
from tests.domain.manifests import edge, full, prod

ROWS = (*BAD, *CROSS)
YAML = {"Content-Type": "application/yaml"}


async def _nothing_written(world: World, seq: int) -> None:
    assert await world.store.clusters.all_living() == []
    assert await world.store.feed.last() == seq
    assert world.engine.poked == []
    page, _ = await world.store.audit.page(action="cluster.create")
    assert page == []


async def test_the_table_of_bad_manifests_is_refused_with_nothing_written(empty: World) -> None:
    """Path, code, reason and remedy of every row, as JSON and as YAML in turn."""
    person = empty.person("admin@pve")
    seq = await empty.store.feed.last()
    wrong: dict[str, Any] = {}
    for number, row in enumerate(ROWS):
        document = row.document()
        if number % 2:
            answer = await person.post("/clusters", json=document)
        else:
            answer = await person.post("/clusters", content=yaml.safe_dump(document), headers=YAML)
        if problem := _difference(row, answer.status_code, answer.json()):
            wrong[row.name] = problem
    assert wrong == {}
    await _nothing_written(empty, seq)


def _difference(row: Bad, status: int, problem: dict[str, Any]) -> Any:
    if status != 422 or problem["code"] != "invalid-spec":
        return status, problem
    found = {(one["path"], one["code"]) for one in problem["violations"]}
    missing = {(path, code.value) for path, code in row.places} - found
    bare = [one for one in problem["violations"] if not one["message"] or not one["remedy"]]
    return (missing, found) if missing or bare else None


async def test_the_same_table_through_apply(empty: World) -> None:
    person = empty.person("dev@pve")
    seq = await empty.store.feed.last()
    for row in ROWS[:: max(1, len(ROWS) // 12)]:
        assert (await person.put("/clusters/clusters/prod", json=row.document())).status_code == 422, row.name
    await _nothing_written(empty, seq)


async def test_the_preview_shows_what_stands_in_the_way(empty: World) -> None:
    row = next(row for row in ROWS if row.document().get("spec"))
    answer = await empty.person("dev@pve").post("/clusters?dryRun=true", json=row.document())
    assert answer.status_code == 200
    preview = answer.json()
    assert {row.path} <= {one["path"] for one in preview["violations"]}
    assert preview["steps"] == []


async def test_the_preview_is_the_plan(empty: World) -> None:
    seq = await empty.store.feed.last()
    answer = await empty.person("dev@pve").post("/clusters?dryRun=true", json=prod())
    preview = answer.json()
    assert preview["violations"] == []
    assert [machine["role"] for machine in preview["machines"]] == ["control-plane"] * 3 + ["worker"] * 3
    kinds = [step["kind"] for step in preview["steps"]]
    assert kinds.count("create-machine") == 6
    assert kinds[-1] == "await-available"
    assert preview["spec"]["pod_cidrs"] == ["10.42.0.0/16"]
    assert any(one["type"] == "VolumesReady" for one in preview["not_acted_on"])
    await _nothing_written(empty, seq)


@pytest.mark.parametrize("base", [prod, edge], ids=["prod", "edge"])
async def test_good_manifests_are_taken_as_json_and_yaml(empty: World, base: Any) -> None:
    person = empty.person("dev@pve")
    document = base()
    name = document["metadata"]["name"]
    answer = await person.post("/clusters", content=yaml.safe_dump(document), headers=YAML)
    assert answer.status_code == 201, answer.text
    assert answer.json()["cluster"]["name"] == name
    again = await person.put(f"/clusters/clusters/{name}", json=document)
    assert again.status_code == 200
    assert again.json()["changed"] is False


async def test_what_the_api_gives_can_be_applied_again(empty: World) -> None:
    person = empty.person("admin@pve")
    assert (await person.post("/clusters", json=full())).status_code == 201
    manifest = await person.get("/clusters/clusters/prod/manifest")
    assert manifest.headers["content-type"].startswith("application/yaml")
    again = await person.put("/clusters/clusters/prod", content=manifest.text, headers=YAML)
    assert (again.status_code, again.json()["changed"]) == (200, False)


BOMB = "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n"
UNREADABLE = {
    "nothing": "",
    "no YAML": "{",
    "a tab": "a:\n\t- b",
    "an alias": BOMB,
    "a key twice": "kind: Cluster\nkind: Other\n",
    "two documents": "kind: Cluster\n---\nkind: Cluster\n",
    "a tag": "!!python/object/apply:os.system ['true']",
    "deep": "[" * 5000 + "]" * 5000,
    "a list": "- 1",
    "a word": "cluster",
    "a number": "1" * 5000,
}


@pytest.mark.parametrize("name", UNREADABLE)
@pytest.mark.parametrize("kind", ["application/yaml", "application/json", "text/plain"])
async def test_what_is_no_manifest_is_refused_in_words(empty: World, name: str, kind: str) -> None:
    seq = await empty.store.feed.last()
    answer = await empty.person("dev@pve").post(
        "/clusters", content=UNREADABLE[name].encode(), headers={"Content-Type": kind}
    )
    assert answer.status_code in (400, 422), answer.text
    problem = answer.json()
    assert problem["code"] in ("malformed", "invalid-spec")
    assert problem["detail"]
    assert problem["remedy"]
    await _nothing_written(empty, seq)


async def test_bytes_that_are_no_text(empty: World) -> None:
    answer = await empty.person("dev@pve").post("/clusters", content=b"\xff\xfe", headers=YAML)
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed")


async def test_a_key_twice_in_json(empty: World) -> None:
    headers = {"Content-Type": "application/json"}
    answer = await empty.person("dev@pve").post("/clusters", content=b'{"a": 1, "a": 2}', headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed")
    assert "twice" in answer.json()["detail"]


async def test_too_large_bodies_are_not_read(empty: World) -> None:
    document = json.dumps({"x": "y" * LIMIT})
    answer = await empty.person("dev@pve").post("/clusters", content=document, headers=YAML)
    assert (answer.status_code, answer.json()["code"]) == (413, "too-large")
    answer = await empty.person("dev@pve").post("/session/renew", content=b"x" * 2_000_000)
    assert (answer.status_code, answer.json()["code"]) == (413, "too-large")
