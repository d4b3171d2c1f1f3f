"""Eviction and 429."""

import asyncio
from typing import Any

import httpx

from tests.contract.backend import MERGE, Api, Obj, deployment, eventually, ok, pod, refused

READY = [{"type": "Ready", "status": "True"}, {"type": "ContainersReady", "status": "True"}]


def pods(space: str) -> str:
    return f"/api/v1/namespaces/{space}/pods"


async def running(api: Api, space: str, name: str, *, owner: Obj | None = None, **labels: str) -> None:
    """A pod that is Ready, as a kubelet would report it."""
    made = pod(name, **labels)
    made["metadata"]["ownerReferences"] = [owner] if owner else []
    ok(await api.admin.post(pods(space), json=made), 201)
    body = ok(await api.admin.get(f"{pods(space)}/{name}"))
    body["status"] = {**body.get("status", {}), "phase": "Running", "conditions": READY}
    ok(await api.admin.put(f"{pods(space)}/{name}/status", json=body))


async def budget(api: Api, space: str, allowed: int, expected: int, **spec: Any) -> None:
    """A disruption budget over app=web whose status the controller has counted."""
    path = f"/apis/policy/v1/namespaces/{space}/poddisruptionbudgets"
    body = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
    }
    ok(await api.admin.post(path, json=body), 201)

    async def counted() -> bool:
        status = ok(await api.admin.get(f"{path}/web")).get("status") or {}
        return status.get("expectedPods") == expected and status.get("disruptionsAllowed") == allowed

    await eventually(counted)


async def evict(api: Api, space: str, name: str, **more: Any) -> httpx.Response:
    body: Obj = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": space}, **more}
    return await api.admin.post(f"{pods(space)}/{name}/eviction", json=body)


async def test_a_pod_without_a_budget_is_evicted(api: Api, space: str) -> None:
    await running(api, space, "one")
    ok(await evict(api, space, "one"), 201)
    refused(await api.admin.get(f"{pods(space)}/one"), 404, "NotFound")


async def test_a_budget_that_is_used_up_answers_429(api: Api, space: str) -> None:
    await running(api, space, "one", app="web")
    await budget(api, space, allowed=0, expected=1, minAvailable=1)
    status = refused(
        await evict(api, space, "one"), 429, "TooManyRequests", "would violate the pod's disruption budget"
    )
    assert status["details"]["causes"][0]["reason"] == "DisruptionBudget"
    ok(await api.admin.get(f"{pods(space)}/one"))


async def test_a_budget_allows_as_many_as_it_says(api: Api, space: str) -> None:
    await running(api, space, "one", app="web")
    await running(api, space, "two", app="web")
    await budget(api, space, allowed=1, expected=2, minAvailable=1)
    ok(await evict(api, space, "one"), 201)
    refused(await evict(api, space, "two"), 429, "TooManyRequests")


async def test_of_two_evictions_at_once_one_is_allowed(api: Api, space: str) -> None:
    for name in ("one", "two"):
        await running(api, space, name, app="web")
    await budget(api, space, allowed=1, expected=2, minAvailable=1)
    answers = await asyncio.gather(evict(api, space, "one"), evict(api, space, "two"))
    assert sorted(answer.status_code for answer in answers) == [201, 429]


async def test_a_pod_that_has_ended_is_evicted_in_spite_of_the_budget(api: Api, space: str) -> None:
    await running(api, space, "one", app="web")
    await running(api, space, "two", app="web")
    await budget(api, space, allowed=0, expected=2, minAvailable=2)
    body = ok(await api.admin.get(f"{pods(space)}/one"))
    body["status"]["phase"] = "Failed"
    ok(await api.admin.put(f"{pods(space)}/one/status", json=body))
    ok(await evict(api, space, "one"), 201)


async def test_a_budget_of_other_pods_does_not_count(api: Api, space: str) -> None:
    await running(api, space, "one", app="other")
    await running(api, space, "two", app="web")
    await budget(api, space, allowed=0, expected=1, minAvailable=1)
    ok(await evict(api, space, "one"), 201)


async def test_pods_of_no_controller_have_no_share_to_lose(api: Api, space: str) -> None:
    """A share or a number that may be missing is counted against what controllers want; these pods have none."""
    for name in ("one", "two"):
        await running(api, space, name, app="web")
    await budget(api, space, allowed=0, expected=0, maxUnavailable=1)
    status = refused(await evict(api, space, "one"), 429, "TooManyRequests")
    assert "does not allow evicting pods currently" in status["details"]["causes"][0]["message"]


async def test_a_share_is_counted_against_what_the_controller_wants(api: Api, space: str) -> None:
    path = f"/apis/apps/v1/namespaces/{space}/replicasets"
    body = {**deployment("web", replicas=4), "kind": "ReplicaSet"}
    found = ok(await api.admin.post(path, json=body), 201)
    about = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": found["metadata"]["uid"]}
    for name in ("one", "two", "three"):
        await running(api, space, name, owner={**about, "controller": True}, app="web")
    await budget(api, space, allowed=1, expected=4, minAvailable="50%")
    ok(await evict(api, space, "one"), 201)
    refused(await evict(api, space, "two"), 429, "TooManyRequests", "would violate the pod's disruption budget")


async def test_two_budgets_over_one_pod_are_an_error(api: Api, space: str) -> None:
    await running(api, space, "one", app="web")
    await budget(api, space, allowed=1, expected=1, minAvailable=0)
    path = f"/apis/policy/v1/namespaces/{space}/poddisruptionbudgets"
    spec = {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 0}
    ok(await api.admin.post(path, json={"metadata": {"name": "again"}, "spec": spec}), 201)
    answer = await evict(api, space, "one")
    assert answer.status_code == 500
    assert "more than one PodDisruptionBudget" in answer.text
    both = {"metadata": {"name": "both"}, "spec": {**spec, "maxUnavailable": 1}}
    refused(await api.admin.post(path, json=both), 422, "Invalid", "cannot be both set")


async def test_eviction_of_what_is_gone(api: Api, space: str) -> None:
    refused(await evict(api, space, "gone"), 404, "NotFound", '"gone" not found')


async def test_a_dry_run_evicts_nothing(api: Api, space: str) -> None:
    await running(api, space, "one")
    ok(await evict(api, space, "one", deleteOptions={"dryRun": ["All"]}), 201)
    ok(await api.admin.get(f"{pods(space)}/one"))


async def test_after_the_budget_is_gone_eviction_goes_on(api: Api, space: str) -> None:
    await running(api, space, "one", app="web")
    await budget(api, space, allowed=0, expected=1, minAvailable=1)
    refused(await evict(api, space, "one"), 429, "TooManyRequests")
    path = f"/apis/policy/v1/namespaces/{space}/poddisruptionbudgets/web"
    ok(await api.admin.delete(path))

    async def gone() -> bool:
        return (await evict(api, space, "one")).status_code == 201

    await eventually(gone)


async def test_a_pod_patch_by_its_kubelet_counts(api: Api, space: str) -> None:
    await running(api, space, "one", app="web")
    await running(api, space, "two", app="web")
    await budget(api, space, allowed=1, expected=2, minAvailable=1)
    unready = '{"status":{"conditions":[{"type":"Ready","status":"False"}]}}'
    ok(await api.admin.patch(f"{pods(space)}/two/status", content=unready, headers=MERGE))

    async def used_up() -> bool:
        path = f"/apis/policy/v1/namespaces/{space}/poddisruptionbudgets/web"
        return bool(ok(await api.admin.get(path))["status"]["disruptionsAllowed"] == 0)

    await eventually(used_up)
    refused(await evict(api, space, "one"), 429, "TooManyRequests")
