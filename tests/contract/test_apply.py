"""Server-side apply: ownership, conflicts, force."""

import json
from typing import Any

import httpx

from tests.contract.backend import APPLY, JSON_PATCH, MERGE, Api, Obj, config_map, deployment, ok, refused


async def put(api: Api, path: str, body: Obj, manager: str, **query: str) -> httpx.Response:
    params = {"fieldManager": manager, **query}
    return await api.admin.patch(path, content=json.dumps(body), params=params, headers=APPLY)


def one(space: str, name: str = "it") -> str:
    return f"/api/v1/namespaces/{space}/configmaps/{name}"


def managers(obj: Obj) -> dict[tuple[str, str], Any]:
    return {(item["manager"], item["operation"]): item["fieldsV1"] for item in obj["metadata"]["managedFields"]}


async def test_apply_creates(api: Api, space: str) -> None:
    found = ok(await put(api, one(space), config_map("it", a="1"), "first"), 201)
    assert found["data"] == {"a": "1"}
    assert managers(found)[("first", "Apply")]["f:data"]["f:a"] == {}


async def test_apply_again_changes_nothing(api: Api, space: str) -> None:
    one_time = ok(await put(api, one(space), config_map("it", a="1"), "first"), 201)
    again = ok(await put(api, one(space), config_map("it", a="1"), "first"))
    assert again["metadata"]["resourceVersion"] == one_time["metadata"]["resourceVersion"]


async def test_another_value_of_an_owned_field_conflicts_and_names_the_manager(api: Api, space: str) -> None:
    ok(await put(api, one(space), config_map("it", a="1"), "first"), 201)
    status = refused(await put(api, one(space), config_map("it", a="2"), "second"), 409, "Conflict", '"first"')
    causes = status["details"]["causes"]
    assert [(item["reason"], item["field"]) for item in causes] == [("FieldManagerConflict", ".data.a")]
    assert ok(await api.admin.get(one(space)))["data"] == {"a": "1"}


async def test_force_takes_the_field_over(api: Api, space: str) -> None:
    ok(await put(api, one(space), config_map("it", a="1"), "first"), 201)
    found = ok(await put(api, one(space), config_map("it", a="2"), "second", force="true"))
    assert found["data"] == {"a": "2"}
    assert ("first", "Apply") not in managers(found)
    refused(await put(api, one(space), config_map("it", a="1"), "first"), 409, "Conflict", '"second"')


async def test_the_same_value_is_shared(api: Api, space: str) -> None:
    ok(await put(api, one(space), config_map("it", a="1"), "first"), 201)
    found = ok(await put(api, one(space), config_map("it", a="1"), "second"))
    assert {name for name, _ in managers(found)} == {"first", "second"}


async def test_a_field_left_out_is_removed_when_nobody_else_owns_it(api: Api, space: str) -> None:
    ok(await put(api, one(space), config_map("it", a="1", b="1"), "first"), 201)
    ok(await put(api, one(space), config_map("it", b="1"), "second"))
    found = ok(await put(api, one(space), config_map("it"), "first"))
    assert found["data"] == {"b": "1"}


async def test_a_plain_update_takes_ownership_of_what_it_changes(api: Api, space: str) -> None:
    ok(await put(api, one(space), config_map("it", a="1"), "first"), 201)
    params = {"fieldManager": "editor"}
    ok(await api.admin.patch(one(space), content='{"data":{"a":"2"}}', params=params, headers=MERGE))
    refused(await put(api, one(space), config_map("it", a="1"), "first"), 409, "Conflict", '"editor"')


async def test_apply_needs_a_manager(api: Api, space: str) -> None:
    answer = await api.admin.patch(one(space), content=json.dumps(config_map("it")), headers=APPLY)
    refused(answer, 422, "Invalid", "fieldManager: Required value")


async def test_the_configuration_names_what_the_path_names(api: Api, space: str) -> None:
    refused(await put(api, one(space), config_map("other"), "first"), 400, "BadRequest", "does not match the name")
    nameless = {**config_map("it"), "metadata": {}}
    refused(await put(api, one(space), nameless, "first"), 400, "BadRequest", "name must be provided")
    elsewhere = {**config_map("it"), "metadata": {"name": "it", "namespace": "other"}}
    refused(await put(api, one(space), elsewhere, "first"), 400, "BadRequest", "namespace of the provided object")
    wrong = {**config_map("it"), "kind": "Secret"}
    refused(await put(api, one(space), wrong, "first"), 400, "BadRequest", "invalid object type: /v1, Kind=Secret")


async def test_an_apply_with_an_old_revision_conflicts(api: Api, space: str) -> None:
    ok(await put(api, one(space), config_map("it", a="1"), "first"), 201)
    stale = config_map("it", a="1")
    stale["metadata"]["resourceVersion"] = "1"
    refused(await put(api, one(space), stale, "first"), 409, "Conflict", "the object has been modified")


async def test_containers_are_owned_one_by_one(api: Api, space: str) -> None:
    path = f"/apis/apps/v1/namespaces/{space}/deployments/it"
    ok(await put(api, path, deployment("it"), "first"), 201)
    side = deployment("it", replicas=None)
    side["spec"]["template"]["spec"]["containers"] = [{"name": "side", "image": "registry.invalid/side:1"}]
    found = ok(await put(api, path, side, "second"))
    assert {item["name"] for item in found["spec"]["template"]["spec"]["containers"]} == {"main", "side"}
    clash = deployment("it", image="registry.invalid/main:9", replicas=None)
    status = refused(await put(api, path, clash, "second"), 409, "Conflict", '"first"')
    wanted = '.spec.template.spec.containers[name="main"].image'
    assert [item["field"] for item in status["details"]["causes"]] == [wanted]


async def test_a_field_given_up_can_be_taken_by_others(api: Api, space: str) -> None:
    path = f"/apis/apps/v1/namespaces/{space}/deployments/it"
    ok(await put(api, path, deployment("it", replicas=2), "first"), 201)
    ok(await put(api, path, deployment("it", replicas=2), "scaler"))
    ok(await put(api, path, deployment("it", replicas=None), "first"))
    found = ok(await put(api, path, deployment("it", replicas=5), "scaler"))
    assert found["spec"]["replicas"] == 5


async def test_ownership_can_be_reset(api: Api, space: str) -> None:
    ok(await put(api, one(space), config_map("it", a="1"), "first"), 201)
    operations = [{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}]
    answer = await api.admin.patch(one(space), content=json.dumps(operations), headers=JSON_PATCH)
    found = ok(answer)
    assert ("first", "Apply") not in {
        (item["manager"], item["operation"]) for item in found["metadata"].get("managedFields", [])
    }
