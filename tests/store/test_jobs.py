"""Jobs, steps and log lines."""

import asyncio

import pytest

from domain.jobs import Job, JobKind, JobPhase, Step, StepState
from store import NotFound, Store
from tests.store.conftest import Clock


def job(id: str = "run-1", cluster_id: str = "c1", **fields: object) -> Job:
    return Job.model_validate(
        {"id": id, "workflow_id": "cluster/x", "kind": JobKind.CREATE, "cluster_id": cluster_id, "site_id": "s1"}
        | fields
    )


async def test_begin_is_idempotent(store: Store, clock: Clock) -> None:
    began = await store.jobs.begin(job(generation=3, requested_by="ada"))
    assert began.started_at == clock.now
    clock.forward(seconds=5)
    await store.jobs.set_phase("run-1", JobPhase.WAITING, waiting_for="memory")
    again = await store.jobs.begin(job())
    assert (again.started_at, again.generation, again.phase) == (began.started_at, 3, JobPhase.WAITING)


async def test_how_long_a_job_has_waited(store: Store, clock: Clock) -> None:
    await store.jobs.begin(job())
    began = clock.forward(seconds=1)
    await store.jobs.set_phase("run-1", JobPhase.WAITING, waiting_for="memory on pve1")
    clock.forward(seconds=1)
    await store.jobs.set_phase("run-1", JobPhase.WAITING, waiting_for="memory on pve1")
    assert (await store.jobs.get("run-1")).waiting_since == began
    second = clock.forward(seconds=1)
    await store.jobs.set_phase("run-1", JobPhase.AWAITING_DECISION, waiting_for="a decision", error="no DHCP")
    parked = await store.jobs.get("run-1")
    assert (parked.waiting_since, parked.error) == (second, "no DHCP")
    await store.jobs.set_phase("run-1", JobPhase.RUNNING)
    running = await store.jobs.get("run-1")
    assert (running.waiting_since, running.waiting_for, running.error) == (None, "", "")


async def test_the_first_end_stays(store: Store, clock: Clock) -> None:
    await store.jobs.begin(job())
    ended = clock.forward(seconds=1)
    await store.jobs.finish("run-1", JobPhase.DONE)
    clock.forward(seconds=1)
    await store.jobs.finish("run-1", JobPhase.FAILED, "late")
    await store.jobs.set_phase("run-1", JobPhase.RUNNING)
    kept = await store.jobs.get("run-1")
    assert (kept.phase, kept.ended_at, kept.error) == (JobPhase.DONE, ended, "")
    assert await store.jobs.open_jobs() == []
    with pytest.raises(NotFound):
        await store.jobs.finish("none", JobPhase.DONE)


async def test_steps_keep_their_start_over_attempts(store: Store, clock: Clock) -> None:
    await store.jobs.begin(job())
    began = clock.now
    step = Step(id="m1/clone", job_id="run-1", kind="clone", summary="prod-cp-1: clone 9000", upid="UPID:1")
    await store.jobs.upsert_step(step)
    clock.forward(seconds=3)
    retry = step.model_copy(update={"attempt": 2, "state": StepState.RETRYING, "error": "locked", "upid": ""})
    assert (await store.jobs.upsert_step(retry)).upid == "UPID:1"
    before = await store.feed.last()
    await store.jobs.upsert_step(retry)
    assert await store.feed.last() == before
    ended = clock.forward(seconds=3)
    done = step.model_copy(update={"attempt": 2, "state": StepState.DONE})
    await store.jobs.upsert_step(done)
    clock.forward(seconds=3)
    await store.jobs.upsert_step(done)
    await store.jobs.upsert_step(Step(id="m2/clone", job_id="run-1", kind="clone", summary="prod-cp-2: clone 9000"))
    first, second = await store.jobs.steps("run-1")
    assert (first.started_at, first.ended_at, first.attempt, first.state) == (began, ended, 2, StepState.DONE)
    assert (second.id, second.ended_at) == ("m2/clone", None)


async def test_log_numbers_have_no_gaps_under_fifty_writers(store: Store, another: Store) -> None:
    await store.jobs.begin(job("run-1"))
    await store.jobs.begin(job("run-2"))
    stores = [store, another]
    await asyncio.gather(
        *(
            stores[n % 2].jobs.append_log(f"run-{n % 4 // 2 + 1}", f"line {n}", step_id="s", level="warning")
            for n in range(50)
        )
    )
    for run in ("run-1", "run-2"):
        lines = await store.jobs.log_after(run, 0)
        assert [line.seq for line in lines] == list(range(1, len(lines) + 1))
    assert len(await store.jobs.log_after("run-1")) + len(await store.jobs.log_after("run-2")) == 50
    assert [line.seq for line in await store.jobs.log_after("run-1", 3, limit=2)] == [4, 5]
    with pytest.raises(NotFound):
        await store.jobs.append_log("none", "text")


async def test_a_failed_append_leaves_no_gap(store: Store) -> None:
    await store.jobs.begin(job())
    await store.jobs.append_log("run-1", "one")
    with pytest.raises(ValueError, match="level"):
        await store.jobs.append_log("run-1", "two", level=object())  # type: ignore[arg-type]
    assert (await store.jobs.append_log("run-1", "two")).seq == 2


async def test_a_line_may_hold_what_a_console_says(store: Store) -> None:
    await store.jobs.begin(job())
    await store.jobs.append_log("run-1", "a\0b \udc80 ü 🚀")
    await store.jobs.set_phase("run-1", JobPhase.WAITING, waiting_for="\0")
    (line,) = await store.jobs.log_after("run-1")
    assert line.text == "a\N{REPLACEMENT CHARACTER}b ? ü 🚀"


async def test_pages(store: Store, clock: Clock) -> None:
    for n in range(6):
        clock.forward(seconds=1)
        kind = JobKind.DELETE if n == 5 else JobKind.CREATE
        await store.jobs.begin(job(f"run-{n}", f"c{n % 2}", kind=kind))
    await store.jobs.finish("run-0", JobPhase.DONE)
    assert [found.id for found in await store.jobs.of_cluster("c1")] == ["run-5", "run-3", "run-1"]
    found, total = await store.jobs.page(limit=2, offset=1)
    assert ([one.id for one in found], total) == (["run-4", "run-3"], 6)
    assert (await store.jobs.page(kinds=[JobKind.DELETE]))[1] == 1
    assert (await store.jobs.page(phases=[JobPhase.DONE], site_id="s1"))[1] == 1
    assert (await store.jobs.page(cluster_ids=["c0", "c1"]))[1] == 6
    assert (await store.jobs.page(cluster_ids=[])) == ([], 0)
    assert len(await store.jobs.open_jobs()) == 5
