"""List and watch."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from tests.contract.backend import PATIENCE, Api, Obj, config_map, ok, refused


def maps(space: str) -> str:
    return f"/api/v1/namespaces/{space}/configmaps"


@asynccontextmanager
async def watching(client: httpx.AsyncClient, path: str, **query: str) -> AsyncIterator[AsyncIterator[Obj]]:
    async with client.stream("GET", path, params={"watch": "true", **query}) as stream:
        assert stream.status_code == 200

        async def events() -> AsyncIterator[Obj]:
            async for line in stream.aiter_lines():
                if line:
                    yield json.loads(line)

        yield events()


def event(space: str, name: str) -> Obj:
    about = {"kind": "Namespace", "namespace": space, "name": space}
    return {"apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "involvedObject": about, "reason": "Test"}


async def take(events: AsyncIterator[Obj], wanted: int) -> list[Obj]:
    """That many events; fails the case with those that came when there are fewer."""
    found: list[Obj] = []
    try:
        async with asyncio.timeout(PATIENCE):
            async for told in events:
                found.append(told)
                if len(found) == wanted:
                    return found
    except TimeoutError:
        pytest.fail(f"the watch told {told_names(found)} and nothing more, {wanted} changes were expected")
    pytest.fail(f"the watch told {told_names(found)} and ended, {wanted} changes were expected")


def told_names(events: list[Obj]) -> list[tuple[str, str]]:
    return [(told["type"], told["object"].get("metadata", {}).get("name", "")) for told in events]


async def test_a_list_is_ordered_by_name_and_carries_a_revision(api: Api, space: str) -> None:
    for name in ("c", "a", "b"):
        ok(await api.admin.post(maps(space), json=config_map(name)), 201)
    found = ok(await api.admin.get(maps(space)))
    mine = [item["metadata"]["name"] for item in found["items"] if item["metadata"]["name"] in "abc"]
    assert found["kind"] == "ConfigMapList"
    assert mine == ["a", "b", "c"]
    assert int(found["metadata"]["resourceVersion"]) > 0


async def test_label_selectors(api: Api, space: str) -> None:
    for name, tier in (("one", "front"), ("two", "back"), ("three", "")):
        body = config_map(name)
        if tier:
            body["metadata"]["labels"] = {"tier": tier}
        ok(await api.admin.post(maps(space), json=body), 201)

    async def names(selector: str) -> set[str]:
        found = ok(await api.admin.get(maps(space), params={"labelSelector": selector}))
        return {item["metadata"]["name"] for item in found["items"]} - {"kube-root-ca.crt"}

    assert await names("tier=front") == {"one"}
    assert await names("tier!=front") == {"two", "three"}
    assert await names("tier in (front,back)") == {"one", "two"}
    assert await names("tier") == {"one", "two"}
    assert await names("!tier") == {"three"}


async def test_field_selectors_and_unknown_fields(api: Api, space: str) -> None:
    for name in ("one", "two"):
        ok(await api.admin.post(maps(space), json=config_map(name)), 201)
    found = ok(await api.admin.get(maps(space), params={"fieldSelector": "metadata.name=two"}))
    assert [item["metadata"]["name"] for item in found["items"]] == ["two"]
    answer = await api.admin.get(maps(space), params={"fieldSelector": "data.x=1"})
    refused(answer, 400, "BadRequest", '"data.x" is not a known field selector')
    answer = await api.admin.get(f"/api/v1/namespaces/{space}/pods", params={"fieldSelector": "spec.x=1"})
    refused(answer, 400, "BadRequest", "field label not supported: spec.x")


async def test_a_watch_tells_each_change_in_order(api: Api, space: str) -> None:
    start = ok(await api.admin.get(maps(space)))["metadata"]["resourceVersion"]
    async with watching(api.admin, maps(space), resourceVersion=start, fieldSelector="metadata.name=seen") as events:
        body = ok(await api.admin.post(maps(space), json=config_map("seen", a="1")), 201)
        body["data"] = {"a": "2"}
        ok(await api.admin.put(f"{maps(space)}/seen", json=body))
        ok(await api.admin.delete(f"{maps(space)}/seen"))
        assert told_names(await take(events, 3)) == [("ADDED", "seen"), ("MODIFIED", "seen"), ("DELETED", "seen")]


async def test_a_watch_with_a_selector_sees_objects_come_and_go(api: Api, space: str) -> None:
    start = ok(await api.admin.get(maps(space)))["metadata"]["resourceVersion"]
    async with watching(api.admin, maps(space), resourceVersion=start, labelSelector="shown=yes") as events:
        ok(await api.admin.post(maps(space), json=config_map("moving")), 201)
        merge = {"Content-Type": "application/merge-patch+json"}
        for labels in ({"shown": "yes"}, {"shown": "no"}):
            patch = json.dumps({"metadata": {"labels": labels}})
            ok(await api.admin.patch(f"{maps(space)}/moving", content=patch, headers=merge))
        assert told_names(await take(events, 2)) == [("ADDED", "moving"), ("DELETED", "moving")]


async def test_a_watch_without_a_revision_begins_with_what_is_there(api: Api, space: str) -> None:
    ok(await api.admin.post(maps(space), json=config_map("old")), 201)
    async with watching(api.admin, maps(space), fieldSelector="metadata.name=old") as events:
        assert told_names(await take(events, 1)) == [("ADDED", "old")]


async def test_a_watch_from_a_past_revision_tells_what_happened_since(api: Api, space: str) -> None:
    body = ok(await api.admin.post(maps(space), json=config_map("before")), 201)
    start = ok(await api.admin.get(maps(space)))["metadata"]["resourceVersion"]
    ok(await api.admin.put(f"{maps(space)}/before", json={**body, "data": {"a": "1"}}))
    ok(await api.admin.post(maps(space), json=config_map("since")), 201)
    async with watching(api.admin, maps(space), resourceVersion=start) as events:
        assert told_names(await take(events, 2)) == [("MODIFIED", "before"), ("ADDED", "since")]


async def test_a_watch_from_a_forgotten_revision_is_expired(api: Api, space: str) -> None:
    path = f"/api/v1/namespaces/{space}/events"
    start = ok(await api.admin.post(path, json=event(space, "one")), 201)["metadata"]["resourceVersion"]
    for name in ("two", "three"):
        ok(await api.admin.post(path, json=event(space, name)), 201)
    await api.backend.forget()
    async with watching(api.admin, path, resourceVersion=start) as events:
        (told,) = await take(events, 1)
    assert told["type"] == "ERROR"
    assert told["object"]["code"] == 410
    assert told["object"]["reason"] == "Expired"


async def test_a_watch_ends_after_its_time(api: Api, space: str) -> None:
    async with asyncio.timeout(PATIENCE):
        async with watching(api.admin, maps(space), timeoutSeconds="1") as events:
            assert [event async for event in events if event["object"]["metadata"]["name"] == "none"] == []


async def test_pages(api: Api, space: str) -> None:
    for number in range(5):
        body = config_map(f"page-{number}")
        body["metadata"]["labels"] = {"paged": "yes"}
        ok(await api.admin.post(maps(space), json=body), 201)
    seen: list[str] = []
    query = {"limit": "2", "labelSelector": "paged=yes"}
    while True:
        page = ok(await api.admin.get(maps(space), params=query))
        assert len(page["items"]) <= 2
        seen += [item["metadata"]["name"] for item in page["items"]]
        if not (mark := page["metadata"].get("continue")):
            break
        query["continue"] = mark
    assert seen == [f"page-{number}" for number in range(5)]


async def test_pages_show_one_moment(api: Api, space: str) -> None:
    for name in ("a", "b", "c"):
        body = config_map(name)
        body["metadata"]["labels"] = {"paged": "yes"}
        ok(await api.admin.post(maps(space), json=body), 201)
    query = {"limit": "1", "labelSelector": "paged=yes"}
    first = ok(await api.admin.get(maps(space), params=query))
    ok(await api.admin.delete(f"{maps(space)}/c"))
    rest = await api.admin.get(maps(space), params={**query, "limit": "9", "continue": first["metadata"]["continue"]})
    assert [item["metadata"]["name"] for item in ok(rest)["items"]] == ["b", "c"]
    assert rest.json()["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_a_list_of_a_past_moment(api: Api, space: str) -> None:
    ok(await api.admin.post(maps(space), json=config_map("early")), 201)
    then = ok(await api.admin.get(maps(space)))["metadata"]["resourceVersion"]
    ok(await api.admin.delete(f"{maps(space)}/early"))
    ok(await api.admin.post(maps(space), json=config_map("late")), 201)
    query = {"resourceVersion": then, "resourceVersionMatch": "Exact"}
    names = {item["metadata"]["name"] for item in ok(await api.admin.get(maps(space), params=query))["items"]}
    assert names - {"kube-root-ca.crt"} == {"early"}


async def test_revisions_that_cannot_be_served(api: Api, space: str) -> None:
    answer = await api.admin.get(maps(space), params={"resourceVersion": "yesterday"})
    refused(answer, 400, "BadRequest", "invalid resource version")
    answer = await api.admin.get(maps(space), params={"resourceVersion": "999999999"})
    status = refused(answer, 504, "Timeout", "Too large resource version")
    assert status["details"]["retryAfterSeconds"] == 1


async def test_what_cannot_be_read_is_a_bad_request(api: Api, space: str) -> None:
    for query in ({"limit": "many"}, {"labelSelector": "a==b==c"}, {"fieldSelector": "name"}, {"continue": "here"}):
        refused(await api.admin.get(maps(space), params=query), 400, "BadRequest")


@pytest.mark.parametrize("path", ["/api/v1/nonsense", "/apis/none.example/v1/things", "/api/v1/namespaces/x/nodes"])
async def test_paths_that_are_not_served(api: Api, path: str) -> None:
    answer = await api.admin.get(path)
    assert answer.status_code == 404


async def test_list_of_all_namespaces(api: Api, space: str) -> None:
    ok(await api.admin.post(maps(space), json=config_map("everywhere")), 201)
    found = ok(await api.admin.get("/api/v1/configmaps", params={"fieldSelector": f"metadata.namespace={space}"}))
    assert "everywhere" in {item["metadata"]["name"] for item in found["items"]}
