"""resourceVersion and other preconditions."""

import asyncio
import json

from tests.contract.backend import MERGE, Api, config_map, eventually, ok, refused


def one(space: str, name: str = "it") -> str:
    return f"/api/v1/namespaces/{space}/configmaps/{name}"


async def made(api: Api, space: str, **data: str) -> dict[str, object]:
    return ok(await api.admin.post(f"/api/v1/namespaces/{space}/configmaps", json=config_map("it", **data)), 201)


async def test_an_update_with_an_old_revision_conflicts(api: Api, space: str) -> None:
    old = await made(api, space, a="1")
    ok(await api.admin.put(one(space), json={**old, "data": {"a": "2"}}))
    answer = await api.admin.put(one(space), json={**old, "data": {"a": "3"}})
    refused(answer, 409, "Conflict", "the object has been modified")
    assert ok(await api.admin.get(one(space)))["data"] == {"a": "2"}


async def test_an_update_without_a_revision_overwrites(api: Api, space: str) -> None:
    await made(api, space, a="1")
    assert ok(await api.admin.put(one(space), json=config_map("it", b="2")))["data"] == {"b": "2"}


async def test_of_two_writers_at_once_one_wins(api: Api, space: str) -> None:
    old = await made(api, space)
    writes = [api.admin.put(one(space), json={**old, "data": {"writer": str(number)}}) for number in range(6)]
    codes = sorted(answer.status_code for answer in await asyncio.gather(*writes))
    assert codes == [200] + [409] * 5


async def test_a_patch_with_an_old_revision_conflicts(api: Api, space: str) -> None:
    old = await made(api, space, a="1")
    ok(await api.admin.patch(one(space), content='{"data":{"a":"2"}}', headers=MERGE))
    stale = {"metadata": {"resourceVersion": old["metadata"]["resourceVersion"]}, "data": {"a": "3"}}  # type: ignore[index]
    refused(await api.admin.patch(one(space), content=json.dumps(stale), headers=MERGE), 409, "Conflict")


async def test_a_change_that_changes_nothing_keeps_the_revision(api: Api, space: str) -> None:
    old = await made(api, space, a="1")
    new = ok(await api.admin.put(one(space), json=old))
    assert new["metadata"]["resourceVersion"] == old["metadata"]["resourceVersion"]  # type: ignore[index]


async def test_creating_twice(api: Api, space: str) -> None:
    await made(api, space)
    answer = await api.admin.post(f"/api/v1/namespaces/{space}/configmaps", json=config_map("it"))
    refused(answer, 409, "AlreadyExists", 'configmaps "it" already exists')


async def test_deleting_with_preconditions(api: Api, space: str) -> None:
    await made(api, space)
    wrong = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "not-this-one"}}
    answer = await api.admin.request("DELETE", one(space), json=wrong)
    refused(answer, 409, "Conflict", "the UID in the precondition (not-this-one) does not match")
    ok(await api.admin.get(one(space)))


async def test_deleting_an_older_state(api: Api, space: str) -> None:
    old = await made(api, space)
    ok(await api.admin.patch(one(space), content='{"data":{"a":"2"}}', headers=MERGE))
    options = {"preconditions": {"resourceVersion": old["metadata"]["resourceVersion"]}}  # type: ignore[index]
    answer = await api.admin.request("DELETE", one(space), json=options)
    status = refused(answer, 409, "Conflict", "The object might have been modified")
    assert status["details"]["kind"] == "ConfigMap"


async def test_a_patch_of_another_uid_is_invalid(api: Api, space: str) -> None:
    await made(api, space)
    answer = await api.admin.patch(one(space), content='{"metadata":{"uid":"not-this-one"}}', headers=MERGE)
    refused(answer, 422, "Invalid", "metadata.uid")


async def test_a_creation_names_no_revision(api: Api, space: str) -> None:
    body = config_map("it")
    body["metadata"]["resourceVersion"] = "1"
    answer = await api.admin.post(f"/api/v1/namespaces/{space}/configmaps", json=body)
    assert answer.status_code == 500
    assert "resourceVersion should not be set" in answer.text


async def test_a_revision_is_a_number(api: Api, space: str) -> None:
    old = await made(api, space)
    odd = {**old, "metadata": {"name": "it", "resourceVersion": "yesterday"}}
    answer = await api.admin.put(one(space), json=odd)
    assert answer.status_code == 500
    assert "ParseUint" in answer.text


async def test_nothing_new_in_a_namespace_that_ends(api: Api, space: str) -> None:
    body, path = config_map("it"), f"/api/v1/namespaces/{space}/configmaps"
    body["metadata"]["finalizers"] = ["example.test/hold"]
    ok(await api.admin.post(path, json=body), 201)
    assert ok(await api.admin.delete(f"/api/v1/namespaces/{space}"))["status"]["phase"] == "Terminating"
    status = refused(await api.admin.post(path, json=config_map("late")), 403, "Forbidden", "it is being terminated")
    assert [cause["reason"] for cause in status["details"]["causes"]] == ["NamespaceTerminating"]
    ok(await api.admin.patch(one(space), content='{"metadata":{"finalizers":null}}', headers=MERGE))

    async def gone() -> bool:
        return (await api.admin.get(f"/api/v1/namespaces/{space}")).status_code == 404

    await eventually(gone)


async def test_the_systems_namespaces_stay(api: Api) -> None:
    for name in ("default", "kube-system", "kube-public"):
        answer = await api.admin.delete(f"/api/v1/namespaces/{name}")
        refused(answer, 403, "Forbidden", "this namespace may not be deleted")


async def test_an_update_of_another_uid_conflicts(api: Api, space: str) -> None:
    old = await made(api, space)
    ok(await api.admin.delete(one(space)))
    await made(api, space)
    again = {**old, "metadata": {"name": "it", "uid": old["metadata"]["uid"]}}  # type: ignore[index]
    refused(await api.admin.put(one(space), json=again), 409, "Conflict", "UID")


async def test_an_update_of_what_is_gone(api: Api, space: str) -> None:
    refused(await api.admin.put(one(space, "gone"), json=config_map("gone")), 404, "NotFound", '"gone" not found')


async def test_the_name_in_the_body_is_the_name_in_the_path(api: Api, space: str) -> None:
    await made(api, space)
    refused(await api.admin.put(one(space), json=config_map("other")), 400, "BadRequest", "does not match")


async def test_dry_run_changes_nothing(api: Api, space: str) -> None:
    path = f"/api/v1/namespaces/{space}/configmaps"
    ok(await api.admin.post(path, json=config_map("it"), params={"dryRun": "All"}), 201)
    refused(await api.admin.get(one(space)), 404, "NotFound")
    await made(api, space, a="1")
    ok(await api.admin.put(one(space), json=config_map("it", a="2"), params={"dryRun": "All"}))
    ok(await api.admin.request("DELETE", one(space), params={"dryRun": "All"}))
    assert ok(await api.admin.get(one(space)))["data"] == {"a": "1"}


async def test_finalizers_hold_an_object_back(api: Api, space: str) -> None:
    body = config_map("it")
    body["metadata"]["finalizers"] = ["example.test/hold"]
    ok(await api.admin.post(f"/api/v1/namespaces/{space}/configmaps", json=body), 201)
    waiting = ok(await api.admin.delete(one(space)))
    assert waiting["metadata"]["deletionTimestamp"]
    assert ok(await api.admin.get(one(space)))["metadata"]["deletionTimestamp"]
    ok(await api.admin.patch(one(space), content='{"metadata":{"finalizers":null}}', headers=MERGE))
    refused(await api.admin.get(one(space)), 404, "NotFound")
