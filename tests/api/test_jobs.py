"""Jobs as they are shown, what may be said to them, and the two streams by real HTTP."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import uvicorn

from api.app import create_app
from domain.jobs import JobPhase, Step, StepState
from tests.api.world import LOCAL, World


@asynccontextmanager
async def served(world: World) -> AsyncIterator[str]:
    """The application behind uvicorn on a free port: streams need a connection that can be cut."""
    app = create_app(world.services)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", timeout_graceful_shutdown=1, ws="none"))
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.wait({task}, timeout=0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}/api/v1"
    finally:
        server.should_exit = True
        await task


async def events(
    world: World, url: str, who: str, *, until: str = "", count: int = 0, last: str | None = None
) -> AsyncIterator[tuple[str, str, Any]]:
    """The events of a stream as (name, id, data), until one of that name or so many have come."""
    headers = {"Cookie": world.signed_in[who][0]} | ({"Last-Event-ID": last} if last is not None else {})
    seen = 0
    async with httpx.AsyncClient(timeout=20) as http, http.stream("GET", url, headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        name = seq = ""
        async for line in answer.aiter_lines():
            field, _, value = line.partition(": ")
            if field == "event":
                name, seq = value, ""
            elif field == "id":
                seq = value
            elif field == "data":
                yield name, seq, json.loads(value)
                seen += 1
                if name == until or (count and seen == count):
                    return


async def test_a_job_with_its_steps_and_links(world: World) -> None:
    job = (await world.person("dev@pve").get("/jobs/job-parked")).json()
    assert job["cluster"] == {"namespace": "clusters", "name": "edge"}
    assert (job["site"], job["phase"], job["decisions"]) == ("lab", "awaiting-decision", ["retry", "abort"])
    assert job["may_decide"]["allowed"]
    assert job["error"] == "VM 20000 was not cloned: no space"
    assert job["links"]["engine"] == "http://temporal.example/job-parked"
    step = job["steps"][0]
    assert step["links"]["proxmox"].startswith(f"{world.lab.endpoints[0]}/#")
    assert "pve2" in step["links"]["proxmox"]
    assert (job["steps_done"], job["last_log"]) == (1, 3)
    auditor = (await world.person("auditor@pve").get("/jobs/job-parked")).json()
    assert auditor["may_decide"]["missing"]["privilege"] == "VM.Allocate"


async def test_the_number_of_the_last_line(world: World) -> None:
    from api.job_views import last_log

    assert await last_log(world.services, "job-selftest") == 0
    for number in range(4, 12):
        await world.store.jobs.append_log("job-parked", "more")
        assert await last_log(world.services, "job-parked") == number


async def test_the_log_in_parts(world: World) -> None:
    person = world.person("dev@pve")
    first = (await person.get("/jobs/job-done/log?limit=2")).json()
    assert [line["text"] for line in first["items"]] == ["one", "two"]
    assert (first["next_after"], first["ended"]) == (2, False)
    rest = (await person.get("/jobs/job-done/log?after=2&limit=2")).json()
    assert ([line["seq"] for line in rest["items"]], rest["next_after"], rest["ended"]) == ([3], 3, True)


@pytest.mark.parametrize("decision", ["retry", "abort"])
async def test_a_decision_is_delivered_and_recorded(world: World, decision: str) -> None:
    answer = await world.person("dev@pve").post(f"/jobs/job-parked/{decision}")
    assert answer.status_code == 202
    assert world.engine.decided == [("job-parked", decision)]
    entry = (await world.person(LOCAL).get(f"/audit?action=job.{decision}")).json()["items"][0]
    assert (entry["actor"], entry["result"]) == ("dev@pve", "done")


async def test_a_decision_nobody_waits_for(world: World) -> None:
    answer = await world.person("dev@pve").post("/jobs/job-done/retry")
    assert (answer.status_code, answer.json()["code"]) == (409, "not-awaiting")


async def test_a_decision_that_cannot_be_delivered(world: World) -> None:
    world.engine.away = True
    answer = await world.person("dev@pve").post("/jobs/job-parked/retry")
    assert (answer.status_code, answer.json()["code"]) == (503, "engine-away")


async def test_jobs_by_phase(world: World) -> None:
    page = (await world.person("dev@pve").get("/jobs?phase=awaiting-decision")).json()
    assert ([row["id"] for row in page["items"]], page["total"], page["unfiltered_total"]) == (["job-parked"], 1, 2)


async def test_a_job_is_followed_to_its_end(world: World) -> None:
    async with served(world) as url:
        seen: list[tuple[str, str, Any]] = []
        async for one in events(world, f"{url}/jobs/job-parked/events", "dev@pve", until="end"):
            seen.append(one)
            if one[0] == "job" and one[2]["phase"] == "awaiting-decision":
                step = Step(id="s2", job_id="job-parked", kind="x", summary="y", state=StepState.RUNNING)
                await world.store.jobs.upsert_step(step)
                await world.store.jobs.append_log("job-parked", "four")
                await world.store.jobs.finish("job-parked", JobPhase.DONE)
    lines = [(seq, data["text"]) for name, seq, data in seen if name == "log"]
    assert lines == [("1", "one"), ("2", "two"), ("3", "three"), ("4", "four")]
    assert [data["phase"] for name, _, data in seen if name == "job"][-1] == "done"
    assert seen[-1][0] == "end"


async def test_a_cut_stream_goes_on_where_it_was_cut(world: World) -> None:
    async with served(world) as url:
        address = f"{url}/jobs/job-done/events"
        first = [one async for one in events(world, address, "dev@pve", count=2)]
        rest = [one async for one in events(world, f"{address}?after=0", "dev@pve", until="end", last=first[-1][1])]
    texts = [data["text"] for name, _, data in first + rest if name == "log"]
    assert texts == ["one", "two", "three"]


async def test_changes_are_heard_by_those_who_see_them(world: World) -> None:
    begin = await world.store.feed.last()
    prod = await world.store.clusters.find("clusters", "prod")
    edge = await world.store.clusters.find("clusters", "edge")
    assert prod is not None
    assert edge is not None
    await world.store.clusters.add_marks(edge.id)
    await world.store.clusters.record_attempt(edge.id, world.clock())
    await world.store.jobs.append_log("job-parked", "not a change of a list")
    await world.store.clusters.record_attempt(prod.id, world.clock())
    async with served(world) as url:
        address = f"{url}/events?after={begin}"
        owner = [one async for one in events(world, address, "owner@pve", count=1)]
        dev = [one async for one in events(world, address, "dev@pve", count=2)]
        resumed = [one async for one in events(world, address, "dev@pve", count=1, last=dev[0][1])]
    assert [data["cluster"]["name"] for _, _, data in owner] == ["prod"]
    assert [data["cluster"]["name"] for _, _, data in dev] == ["edge", "prod"]
    assert resumed == dev[1:]


async def test_a_change_is_heard_at_once(world: World) -> None:
    prod = await world.store.clusters.find("clusters", "prod")
    assert prod is not None

    async def change() -> None:
        await world.store.clusters.record_attempt(prod.id, world.clock())

    async with served(world) as url:
        stream = events(world, f"{url}/events", "dev@pve", count=1)
        first = asyncio.ensure_future(anext(stream))
        while not world.store.feed._waiters:
            await asyncio.wait({first}, timeout=0.01)
        await change()
        async with asyncio.timeout(2):
            name, _, data = await first
        await stream.aclose()
    assert (name, data["kind"], data["id"]) == ("change", "cluster", prod.id)


async def test_a_number_from_elsewhere_resets(world: World) -> None:
    async with served(world) as url:
        found = [one async for one in events(world, f"{url}/events", "dev@pve", count=1, last="999999")]
    assert found[0][0] == "reset"
    assert int(found[0][1]) == await world.store.feed.last()


async def test_signing_out_ends_the_streams(world: World) -> None:
    person = await world.sign_in("dev@pve")
    world.signed_in = {**world.signed_in, "mine": (person.cookie, person.csrf)}

    async def read(url: str) -> int:
        return len([one async for one in events(world, f"{url}/events", "mine")])

    async with served(world) as url:
        reading = asyncio.ensure_future(read(url))
        while not world.store.feed._waiters:
            await asyncio.wait({reading}, timeout=0.01)
        await person.delete("/session")
        prod = await world.store.clusters.find("clusters", "prod")
        assert prod is not None
        await world.store.clusters.record_attempt(prod.id, world.clock())
        async with asyncio.timeout(5):
            assert await reading == 0
