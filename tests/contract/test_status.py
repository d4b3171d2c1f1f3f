"""The status subresource."""

import json

from tests.contract.backend import APPLY, MERGE, Api, deployment, ok, refused


def one(space: str) -> str:
    return f"/apis/apps/v1/namespaces/{space}/deployments/it"


async def made(api: Api, space: str) -> None:
    ok(await api.admin.post(one(space).rsplit("/", 1)[0], json=deployment("it", replicas=0)), 201)


async def test_status_given_at_creation_is_dropped(api: Api, space: str) -> None:
    body = {**deployment("it"), "status": {"readyReplicas": 7}}
    found = ok(await api.admin.post(one(space).rsplit("/", 1)[0], json=body), 201)
    assert "readyReplicas" not in (found.get("status") or {})


async def test_a_main_update_leaves_the_status_alone(api: Api, space: str) -> None:
    await made(api, space)
    ok(await api.admin.patch(f"{one(space)}/status", content='{"status":{"replicas":3}}', headers=MERGE))
    body = ok(await api.admin.get(one(space)))
    body["status"] = {"replicas": 9}
    body["spec"]["paused"] = True
    found = ok(await api.admin.put(one(space), json=body))
    assert found["spec"]["paused"] is True
    assert found["status"]["replicas"] == 3


async def test_a_status_update_leaves_the_spec_alone(api: Api, space: str) -> None:
    await made(api, space)
    body = ok(await api.admin.get(one(space)))
    body["spec"]["replicas"] = 9
    body["status"] = {"replicas": 2, "readyReplicas": 1}
    found = ok(await api.admin.put(f"{one(space)}/status", json=body))
    assert found["spec"]["replicas"] == 0
    assert found["status"]["readyReplicas"] == 1


async def test_generation_counts_changes_of_the_spec_only(api: Api, space: str) -> None:
    await made(api, space)
    first = ok(await api.admin.get(one(space)))["metadata"]["generation"]
    ok(await api.admin.patch(f"{one(space)}/status", content='{"status":{"replicas":1}}', headers=MERGE))
    ok(await api.admin.patch(one(space), content='{"metadata":{"labels":{"x":"y"}}}', headers=MERGE))
    assert ok(await api.admin.get(one(space)))["metadata"]["generation"] == first
    ok(await api.admin.patch(one(space), content='{"spec":{"paused":true}}', headers=MERGE))
    assert ok(await api.admin.get(one(space)))["metadata"]["generation"] == first + 1


async def test_a_stale_status_update_conflicts(api: Api, space: str) -> None:
    await made(api, space)
    old = ok(await api.admin.get(one(space)))
    ok(await api.admin.patch(one(space), content='{"metadata":{"labels":{"x":"y"}}}', headers=MERGE))
    old["status"] = {"replicas": 4}
    refused(await api.admin.put(f"{one(space)}/status", json=old), 409, "Conflict")


async def test_reading_the_status_gives_the_whole_object(api: Api, space: str) -> None:
    await made(api, space)
    found = ok(await api.admin.get(f"{one(space)}/status"))
    assert found["kind"] == "Deployment"
    assert "spec" in found


async def test_applying_to_the_status_is_owned_apart(api: Api, space: str) -> None:
    await made(api, space)
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "it"}, "status": {"replicas": 6}}
    answer = await api.admin.patch(
        f"{one(space)}/status", content=json.dumps(body), params={"fieldManager": "counter"}, headers=APPLY
    )
    found = ok(answer)
    assert found["status"]["replicas"] == 6
    entry = next(item for item in found["metadata"]["managedFields"] if item["manager"] == "counter")
    assert entry["subresource"] == "status"


async def test_a_kind_without_status_has_no_such_path(api: Api, space: str) -> None:
    answer = await api.admin.get(f"/api/v1/namespaces/{space}/configmaps/it/status")
    assert answer.status_code == 404
