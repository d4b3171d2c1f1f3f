"""Five people, the local administrator and nobody, at every address: who may what.

Rows are keyed by the OpenAPI document's operations; one without a row fails, and so does a row without an operation.
"""

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from api.app import create_app
from domain.errors import FACES, ErrorCode
from tests.api.world import EVERYBODY, LOCAL, NOBODY, Base, Person, World, credentials
from tests.domain.manifests import prod

NEW = prod()
NEW["metadata"]["name"] = "fresh"
NEW["spec"]["topology"]["variables"][0]["value"] = "127.80.3.50"
NEW["spec"]["topology"]["variables"][1]["value"]["addresses"] = ["127.80.3.51-127.80.3.69"]


@dataclass(frozen=True)
class Row:
    """One request, and the status that each person gets: admin, dev, owner, auditor, stranger, local, nobody."""

    path: str
    expected: str
    json: Any = None
    query: dict[str, str] = field(default_factory=dict)

    def status(self, person: str) -> int:
        return int(self.expected.split()[EVERYBODY.index(person)])


PROD = "/clusters/clusters/prod"
EDGE = "/clusters/clusters/edge"
SITE = {
    "name": "second",
    "endpoints": ["https://127.0.72.99:8006"],
    "token_id": "a@pve!platform",
    "token_secret": "s",
    "bridges": ["vmbr0"],
    "storages": ["shared"],
    "iso_storage": "iso",
}
CHART = "/charts/proxmox-cloud-controller-manager/0.0.1"
TEMPLATE = {"distribution": "k3s", "version": "v1.36.5+k3s1", "nodes": {"pve1": 9011}}

#                          admin dev owner auditor stranger local nobody
ROWS: dict[str, list[Row]] = {
    "read_info": [Row("/info", "200 200 200 200 200 200 200")],
    "read_health": [Row("/healthz", "200 200 200 200 200 200 200")],
    "list_realms": [Row("/realms", "200 200 200 200 200 200 200")],
    "sign_in": [Row("/session", "401 401 401 401 401 401 401", {"realm": "pve", "username": "x", "password": "y"})],
    "answer_second_factor": [
        Row("/session/second-factor", "401 401 401 401 401 401 401", {"challenge_id": "x", "kind": "totp", "code": "1"})
    ],
    "read_session": [Row("/session", "200 200 200 200 200 200 401")],
    "renew_session": [Row("/session/renew", "200 200 200 200 200 200 401")],
    "sign_out": [Row("/session", "204 204 204 204 204 204 401")],
    "list_sites": [Row("/sites", "200 200 200 200 200 200 401")],
    # 503: the right was there, and the site of the request does not answer.
    "add_site": [Row("/sites", "403 403 403 403 403 503 401", SITE)],
    "read_site": [
        Row("/sites/lab", "200 200 200 200 200 200 401"),
        Row("/sites/nowhere", "404 404 404 404 404 404 401"),
    ],
    "change_site": [Row("/sites/lab", "200 403 403 403 403 200 401", {"version": 1, "region": "here"})],
    "remove_site": [Row("/sites/lab", "409 403 403 403 403 409 401")],
    "rotate_token": [Row("/sites/lab/rotate-token", "422 403 403 403 403 422 401", {"token_secret": "wrong"})],
    "check_site": [Row("/sites/lab/check", "200 403 403 403 403 200 401")],
    "start_self_test": [Row("/sites/lab/selftest", "202 403 403 403 403 202 401")],
    "list_templates": [Row("/sites/lab/templates", "200 200 200 200 200 200 401")],
    "register_template": [Row("/sites/lab/templates", "201 403 403 403 403 201 401", TEMPLATE)],
    "remove_template": [Row("/sites/lab/templates/rke2/v1.36.5%2Brke2r1", "204 403 403 403 403 204 401")],
    "list_clusters": [Row("/clusters", "200 200 200 200 200 200 401")],
    "create_cluster": [
        Row("/clusters", "201 201 403 403 403 403 401", NEW),
        Row("/clusters", "200 200 403 403 403 403 401", NEW, {"dryRun": "true"}),
    ],
    "read_cluster": [
        Row(PROD, "200 200 200 200 404 404 401"),
        Row(EDGE, "200 200 404 200 404 404 401"),
        Row("/clusters/clusters/nothing", "404 404 404 404 404 404 401"),
    ],
    "apply_cluster": [
        Row(PROD, "200 200 200 403 403 403 401", prod()),
        Row("/clusters/clusters/fresh", "201 201 403 403 403 403 401", NEW),
    ],
    "delete_cluster": [
        Row(PROD, "202 202 202 403 404 404 401", None, {"confirm": "prod"}),
        Row(EDGE, "202 202 404 403 404 404 401", None, {"confirm": "edge"}),
    ],
    "list_machines": [
        Row(f"{PROD}/machines", "200 200 200 200 404 404 401"),
        Row(f"{EDGE}/machines", "200 200 404 200 404 404 401"),
    ],
    "list_conditions": [Row(f"{PROD}/conditions", "200 200 200 200 404 404 401")],
    "list_cluster_jobs": [Row(f"{PROD}/jobs", "200 200 200 200 404 404 401")],
    "read_manifest": [Row(f"{PROD}/manifest", "200 200 200 200 404 404 401")],
    "list_revisions": [Row(f"{PROD}/revisions", "200 200 200 200 404 404 401")],
    "take_kubeconfig": [
        Row(f"{PROD}/kubeconfig", "200 403 200 403 404 404 401"),
        # 409: the right is there, the cluster is not available yet.
        Row(f"{EDGE}/kubeconfig", "409 403 404 403 404 404 401"),
    ],
    "list_charts": [Row("/charts", "200 200 200 200 200 200 401")],
    # 422 and 404: the right was there, and the body is no chart, the name unknown, nothing of that version kept.
    "upload_chart": [Row("/charts", "422 403 403 403 403 422 401")],
    "pull_chart": [Row("/charts/pull", "422 403 403 403 403 422 401", {"name": "unknown"})],
    "remove_chart": [Row(CHART, "404 403 403 403 403 404 401")],
    "list_jobs": [Row("/jobs", "200 200 200 200 200 200 401")],
    "read_job": [
        Row("/jobs/job-done", "200 200 200 200 404 200 401"),
        Row("/jobs/job-parked", "200 200 404 200 404 200 401"),
        Row("/jobs/job-selftest", "200 404 404 404 404 200 401"),
        Row("/jobs/nothing", "404 404 404 404 404 404 401"),
    ],
    "read_log": [Row("/jobs/job-parked/log", "200 200 404 200 404 200 401")],
    "follow_job": [
        Row("/jobs/job-done/events", "200 200 200 200 404 200 401"),
        Row("/jobs/job-selftest/events", "200 404 404 404 404 200 401"),
    ],
    "retry_job": [Row("/jobs/job-parked/retry", "202 202 404 403 404 403 401")],
    "abort_job": [Row("/jobs/job-parked/abort", "202 202 404 403 404 403 401")],
    "follow_changes": [Row("/events", "200 200 200 200 200 200 401")],
    "read_audit": [Row("/audit", "403 403 403 403 403 200 401")],
}


def operations() -> dict[str, tuple[str, str]]:
    """Operation -> (method, path) of the OpenAPI document."""
    paths = create_app(None).openapi()["paths"]
    return {
        operation["operationId"]: (method.upper(), path)
        for path, methods in paths.items()
        for method, operation in methods.items()
    }


OPERATIONS = operations()
TABLE = [(name, row) for name, rows in ROWS.items() for row in rows]


def test_every_operation_has_a_row() -> None:
    assert set(ROWS) == set(OPERATIONS)


@pytest.mark.parametrize(("name", "row"), TABLE, ids=[f"{name} {row.path}" for name, row in TABLE])
async def test_who_may(name: str, row: Row, base: Base, tmp_path: Path) -> None:
    method, _ = OPERATIONS[name]
    found = {}
    for who in EVERYBODY:
        async with base.copy(tmp_path) as world:
            found[who] = await _status(world, world.person(who), method, row, endless=name == "follow_changes")
    assert found == {who: row.status(who) for who in EVERYBODY}


async def _status(world: World, person: Person, method: str, row: Row, *, endless: bool) -> int:
    call = person.call(method, row.path, json=row.json, params=row.query or None)
    if not endless:
        answer = await call
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == "application/problem+json"
            problem = answer.json()
            assert FACES[ErrorCode(problem["code"])].http == answer.status_code
            assert problem["detail"]
            assert "went wrong" not in answer.text
        assert answer.headers["cache-control"] == "no-store"
        return answer.status_code
    # A stream without an end is not read to its end: that it does not refuse is the answer.
    try:
        async with asyncio.timeout(0.3):
            return (await call).status_code
    except TimeoutError:
        return 200


async def test_the_unseen_is_the_nonexistent_to_the_byte(world: World) -> None:
    """Same status, headers and body, for each way of asking."""
    person = world.person("owner@pve")
    for method, below in (
        ("GET", ""),
        ("GET", "/machines"),
        ("GET", "/conditions"),
        ("GET", "/jobs"),
        ("GET", "/manifest"),
        ("GET", "/revisions"),
        ("POST", "/kubeconfig"),
        ("DELETE", "?confirm=edge"),
    ):
        unseen = await person.call(method, f"/clusters/clusters/edge{below}")
        nothing = await person.call(method, f"/clusters/clusters/none{below}")
        assert unseen.status_code == nothing.status_code == 404
        assert unseen.content == nothing.content
        assert unseen.headers.items() == nothing.headers.items()
    unseen = await person.get("/jobs/job-parked")
    nothing = await person.get("/jobs/job-nothing")
    assert (unseen.content, unseen.headers.items()) == (nothing.content, nothing.headers.items())


async def test_the_unseen_costs_the_same_questions(world: World) -> None:
    """As many calls to Proxmox VE, so that the time taken tells nothing either."""
    asked: list[str | None] = []
    gate = world.services.gate
    permissions = gate.permissions

    async def counted(site: Any, ticket: Any, path: str | None = None) -> Any:
        asked.append(path)
        return await permissions(site, ticket, path)

    gate.permissions = counted  # type: ignore[method-assign]
    person = world.person("owner@pve")
    counts = []
    for name in ("edge", "none", "nope"):
        asked.clear()
        await person.get(f"/clusters/clusters/{name}")
        counts.append([path for path in asked if path is not None])
    assert [len(paths) for paths in counts] == [1, 1, 1]


async def test_lists_hold_only_what_may_be_seen(world: World) -> None:
    seen = {}
    for who in EVERYBODY[:-1]:
        page = (await world.person(who).get("/clusters")).json()
        seen[who] = [row["name"] for row in page["items"]]
        assert page["total"] == page["unfiltered_total"] == len(seen[who])
    both = ["edge", "prod"]
    assert seen == {
        "admin@pve": both,
        "dev@pve": both,
        "owner@pve": ["prod"],
        "auditor@pve": both,
        "stranger@pve": [],
        LOCAL: [],
    }


async def test_jobs_are_listed_with_the_clusters_that_may_be_seen(world: World) -> None:
    seen = {}
    for who in EVERYBODY[:-1]:
        page = (await world.person(who).get("/jobs")).json()
        seen[who] = sorted(row["id"] for row in page["items"])
        assert page["total"] == len(seen[who])
    of_clusters = ["job-done", "job-parked"]
    assert seen == {
        "admin@pve": [*of_clusters, "job-selftest"],
        "dev@pve": of_clusters,
        "owner@pve": ["job-done"],
        "auditor@pve": of_clusters,
        "stranger@pve": [],
        LOCAL: [*of_clusters, "job-selftest"],
    }


async def test_a_missing_right_is_named(world: World) -> None:
    problem = (await world.person("dev@pve").post(f"{PROD}/kubeconfig")).json()
    assert problem["code"] == "right-missing"
    assert problem["missing"] == {"privilege": "Sys.Modify", "path": "/pool/trilithon/clusters.prod"}
    assert "dev@pve" in problem["detail"]
    problem = (await world.person("auditor@pve").post("/clusters", json=NEW)).json()
    assert problem["missing"] == {"privilege": "VM.Allocate", "path": "/pool/trilithon"}


async def test_storage_and_bridge_are_asked_too(world: World) -> None:
    """The developer may use `shared` and vmbr0, and nothing else."""
    document = json.loads(json.dumps(NEW).replace('"shared"', '"fast"'))
    answer = await world.person("dev@pve").post("/clusters", json=document)
    assert answer.status_code == 403
    assert answer.json()["missing"] == {"privilege": "Datastore.AllocateSpace", "path": "/storage/fast"}


async def test_the_page_says_what_is_off_and_why(world: World) -> None:
    may = (await world.person("auditor@pve").get(PROD)).json()["may"]
    assert may["change"]["missing"]["privilege"] == "VM.Allocate"
    assert may["kubeconfig"]["missing"]["privilege"] == "Sys.Modify"
    may = (await world.person("admin@pve").get(EDGE)).json()["may"]
    assert may["delete"]["allowed"]
    assert may["kubeconfig"] == {"allowed": False, "missing": None, "reason": "The cluster is not available yet."}


async def test_a_session_of_nobody_is_nobodys(world: World) -> None:
    person = Person(world.http, "trilithon_session=forged", "x")
    assert (await person.get("/clusters")).status_code == 401
    assert (await world.person(NOBODY).get("/clusters")).status_code == 401
    assert credentials(world.lab, "dev@pve")["password"] not in (await world.person(LOCAL).get("/audit")).text
