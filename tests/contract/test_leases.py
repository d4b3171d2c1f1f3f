"""Leases, as leader elections use them."""

import asyncio
from typing import Any

import httpx

from tests.contract.backend import Api, Obj, ok, refused
from tests.contract.test_rbac import bind, role, rule, user

GROUP = "coordination.k8s.io"


def leases(space: str) -> str:
    return f"/apis/{GROUP}/v1/namespaces/{space}/leases"


def lease(holder: str, **spec: Any) -> Obj:
    times = {"acquireTime": "2026-01-01T00:00:00.000000Z", "renewTime": "2026-01-01T00:00:00.123456Z"}
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Lease",
        "metadata": {"name": "lock"},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 10, "leaseTransitions": 0, **times, **spec},
    }


async def test_a_lease_keeps_microseconds(api: Api, space: str) -> None:
    ok(await api.admin.post(leases(space), json=lease("a")), 201)
    found = ok(await api.admin.get(f"{leases(space)}/lock"))
    assert found["spec"]["renewTime"] == "2026-01-01T00:00:00.123456Z"
    assert found["spec"]["holderIdentity"] == "a"


async def test_of_two_candidates_one_creates_it(api: Api, space: str) -> None:
    answers = await asyncio.gather(*(api.admin.post(leases(space), json=lease(name)) for name in "ab"))
    assert sorted(answer.status_code for answer in answers) == [201, 409]


async def test_of_two_candidates_one_takes_it_over(api: Api, space: str) -> None:
    seen = ok(await api.admin.post(leases(space), json=lease("gone")), 201)

    def take(name: str) -> Any:
        return api.admin.put(f"{leases(space)}/lock", json={**seen, "spec": {**seen["spec"], "holderIdentity": name}})

    answers: list[httpx.Response] = await asyncio.gather(take("a"), take("b"))
    assert sorted(answer.status_code for answer in answers) == [200, 409]


async def test_an_update_needs_a_revision(api: Api, space: str) -> None:
    ok(await api.admin.post(leases(space), json=lease("a")), 201)
    answer = await api.admin.put(f"{leases(space)}/lock", json=lease("b"))
    refused(answer, 422, "Invalid", "metadata.resourceVersion")


async def test_an_update_of_no_lease_creates_it(api: Api, space: str) -> None:
    found = ok(await api.admin.put(f"{leases(space)}/lock", json=lease("a")), 201)
    assert found["spec"]["holderIdentity"] == "a"


async def test_times_have_six_digits(api: Api, space: str) -> None:
    for text in ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.1234567Z", "yesterday"):
        answer = await api.admin.post(leases(space), json=lease("a", renewTime=text))
        refused(answer, 400, "BadRequest", f'parsing time "{text}"')


async def test_transitions_are_not_negative(api: Api, space: str) -> None:
    answer = await api.admin.post(leases(space), json=lease("a", leaseTransitions=-1))
    refused(answer, 422, "Invalid", "leaseTransitions")


async def test_the_duration_is_positive(api: Api, space: str) -> None:
    answer = await api.admin.post(leases(space), json=lease("a", leaseDurationSeconds=0))
    refused(answer, 422, "Invalid", "leaseDurationSeconds")


async def test_the_smallest_rights_of_kube_vip_are_enough(api: Api, space: str) -> None:
    create = rule("create", "leases", group=GROUP)
    hold = rule("get update", "leases", ["lock"], GROUP)
    await role(api, space, "holder", create, hold)
    await bind(api, space, "holder", user(f"vip-{space}"))
    client = await api.client(f"vip-{space}")
    refused(await client.get(f"{leases(space)}/lock"), 404, "NotFound")
    held = ok(await client.post(leases(space), json=lease("a")), 201)
    held["spec"]["renewTime"] = "2026-01-01T00:00:05.000000Z"
    ok(await client.put(f"{leases(space)}/lock", json=held))
    refused(await client.get(leases(space)), 403, "Forbidden")
    refused(await client.get(f"{leases(space)}/other"), 403, "Forbidden")
