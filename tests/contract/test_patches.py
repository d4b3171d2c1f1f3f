"""Patch types."""

import json

from tests.contract.backend import JSON_PATCH, MERGE, STRATEGIC, Api, Obj, config_map, deployment, ok, refused


async def made(api: Api, space: str, body: Obj) -> str:
    kind = "configmaps" if body["kind"] == "ConfigMap" else "deployments"
    root = f"/api/v1/namespaces/{space}" if kind == "configmaps" else f"/apis/apps/v1/namespaces/{space}"
    ok(await api.admin.post(f"{root}/{kind}", json=body), 201)
    return f"{root}/{kind}/{body['metadata']['name']}"


async def test_a_merge_patch_adds_changes_and_deletes(api: Api, space: str) -> None:
    path = await made(api, space, config_map("it", keep="1", change="1", drop="1"))
    patch = {"data": {"change": "2", "drop": None, "add": "3"}}
    found = ok(await api.admin.patch(path, content=json.dumps(patch), headers=MERGE))
    assert found["data"] == {"keep": "1", "change": "2", "add": "3"}


async def test_a_merge_patch_replaces_lists(api: Api, space: str) -> None:
    path = await made(api, space, deployment("it"))
    box = {"name": "other", "image": "registry.invalid/other:1"}
    patch = {"spec": {"template": {"spec": {"containers": [box]}}}}
    found = ok(await api.admin.patch(path, content=json.dumps(patch), headers=MERGE))
    assert [item["name"] for item in found["spec"]["template"]["spec"]["containers"]] == ["other"]


async def test_a_strategic_patch_merges_containers_by_name(api: Api, space: str) -> None:
    path = await made(api, space, deployment("it"))
    boxes = [{"name": "main", "image": "registry.invalid/main:2"}, {"name": "side", "image": "registry.invalid/side:1"}]
    patch = {"spec": {"template": {"spec": {"containers": boxes}}}}
    found = ok(await api.admin.patch(path, content=json.dumps(patch), headers=STRATEGIC))
    images = {item["name"]: item["image"] for item in found["spec"]["template"]["spec"]["containers"]}
    assert images == {"main": "registry.invalid/main:2", "side": "registry.invalid/side:1"}


async def test_a_strategic_patch_deletes_an_item(api: Api, space: str) -> None:
    body = deployment("it")
    body["spec"]["template"]["spec"]["containers"].append({"name": "side", "image": "registry.invalid/side:1"})
    path = await made(api, space, body)
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "side", "$patch": "delete"}]}}}}
    found = ok(await api.admin.patch(path, content=json.dumps(patch), headers=STRATEGIC))
    assert [item["name"] for item in found["spec"]["template"]["spec"]["containers"]] == ["main"]


async def test_a_strategic_patch_merges_environment_inside_of_a_container(api: Api, space: str) -> None:
    body = deployment("it")
    body["spec"]["template"]["spec"]["containers"][0]["env"] = [
        {"name": "A", "value": "1"},
        {"name": "B", "value": "1"},
    ]
    path = await made(api, space, body)
    box = {"name": "main", "env": [{"name": "B", "value": "2"}]}
    patch = {"spec": {"template": {"spec": {"containers": [box]}}}}
    found = ok(await api.admin.patch(path, content=json.dumps(patch), headers=STRATEGIC))
    env = {item["name"]: item["value"] for item in found["spec"]["template"]["spec"]["containers"][0]["env"]}
    assert env == {"A": "1", "B": "2"}


async def test_a_json_patch(api: Api, space: str) -> None:
    path = await made(api, space, config_map("it", a="1", b="1"))
    operations = [
        {"op": "test", "path": "/data/a", "value": "1"},
        {"op": "replace", "path": "/data/a", "value": "2"},
        {"op": "remove", "path": "/data/b"},
        {"op": "add", "path": "/metadata/labels", "value": {"x/y": "z"}},
        {"op": "copy", "from": "/data/a", "path": "/data/c"},
    ]
    found = ok(await api.admin.patch(path, content=json.dumps(operations), headers=JSON_PATCH))
    assert found["data"] == {"a": "2", "c": "2"}
    assert found["metadata"]["labels"] == {"x/y": "z"}


async def test_a_json_patch_whose_test_fails_changes_nothing(api: Api, space: str) -> None:
    path = await made(api, space, config_map("it", a="1"))
    operations = [
        {"op": "replace", "path": "/data/a", "value": "2"},
        {"op": "test", "path": "/data/a", "value": "1"},
    ]
    refused(await api.admin.patch(path, content=json.dumps(operations), headers=JSON_PATCH), 422, "Invalid")
    assert ok(await api.admin.get(path))["data"] == {"a": "1"}


async def test_a_json_patch_replaces_what_was_not_there(api: Api, space: str) -> None:
    path = await made(api, space, config_map("it", a="1"))
    operations = [{"op": "replace", "path": "/data/b", "value": "2"}]
    found = ok(await api.admin.patch(path, content=json.dumps(operations), headers=JSON_PATCH))
    assert found["data"] == {"a": "1", "b": "2"}
    below = [{"op": "replace", "path": "/metadata/annotations/b", "value": "2"}]
    refused(await api.admin.patch(path, content=json.dumps(below), headers=JSON_PATCH), 422, "Invalid")


async def test_what_is_no_patch_is_a_bad_request(api: Api, space: str) -> None:
    path = await made(api, space, config_map("it"))
    for content, headers in (("[]", MERGE), ("{}", JSON_PATCH)):
        answer = await api.admin.patch(path, content=content, headers=headers)
        refused(answer, 400, "BadRequest", "error decoding patch")


async def test_a_patch_that_leaves_another_type_is_invalid(api: Api, space: str) -> None:
    path = await made(api, space, config_map("it"))
    refused(await api.admin.patch(path, content='{"data":{"a":1}}', headers=MERGE), 422, "Invalid", "patch")


async def test_force_is_for_apply(api: Api, space: str) -> None:
    path = await made(api, space, config_map("it"))
    answer = await api.admin.patch(path, content="{}", headers=MERGE, params={"force": "true"})
    refused(answer, 422, "Invalid", "may not be specified for non-apply patch")


async def test_an_unknown_patch_type(api: Api, space: str) -> None:
    path = await made(api, space, config_map("it"))
    answer = await api.admin.patch(path, content="{}", headers={"Content-Type": "application/json"})
    refused(answer, 415, "UnsupportedMediaType")


async def test_a_patch_of_what_is_gone(api: Api, space: str) -> None:
    path = f"/api/v1/namespaces/{space}/configmaps/gone"
    refused(await api.admin.patch(path, content="{}", headers=MERGE), 404, "NotFound")


async def test_a_patch_cannot_rename(api: Api, space: str) -> None:
    path = await made(api, space, config_map("it"))
    answer = await api.admin.patch(path, content='{"metadata":{"name":"other"}}', headers=MERGE)
    refused(answer, 400, "BadRequest", "the name of the object (other) does not match the name on the URL (it)")


async def test_what_a_patch_leaves_is_validated(api: Api, space: str) -> None:
    path = await made(api, space, deployment("it"))
    patch = {"spec": {"selector": {"matchLabels": {"app": "another"}}}}
    refused(await api.admin.patch(path, content=json.dumps(patch), headers=MERGE), 422, "Invalid")


async def test_escaped_json_pointers(api: Api, space: str) -> None:
    body = config_map("it")
    body["metadata"]["annotations"] = {"example.test/slash": "1"}
    path = await made(api, space, body)
    operations = [{"op": "replace", "path": "/metadata/annotations/example.test~1slash", "value": "2"}]
    found = ok(await api.admin.patch(path, content=json.dumps(operations), headers=JSON_PATCH))
    assert found["metadata"]["annotations"] == {"example.test/slash": "2"}
