"""A whole worker process's work in this process: dispatcher, queues of a site, records and journal on SQLite."""

import asyncio
import socket
import time
from pathlib import Path

import pytest
from temporalio.exceptions import ApplicationError

from domain.clusters import Cluster, ClusterStatus, Outcome
from domain.conditions import ConditionType, Reason
from domain.contracts import activities as names
from domain.contracts import ids
from domain.jobs import Decision, Job, JobKind, JobPhase, StepState
from domain.machines import Phase
from jobs import Engine, EngineAway, EngineSettings, NoJob, NotParked, NoWorker
from jobs.dispatcher import Dispatcher
from store import NotFound, Store
from tests.store.builders import site, spec
from tests.temporal_server import server
from tests.workers.conftest import crew, until
from tests.workers.effects import FakeEffects
from tests.workflows.conftest import LIMITS
from workers.main import now


async def _settled(store: Store, cluster: Cluster) -> bool:
    found = await store.clusters.get(cluster.id)
    return found.settled_generation == found.generation


async def _job(store: Store, cluster: Cluster, phase: JobPhase) -> bool:
    return any(job.phase is phase for job in await store.jobs.of_cluster(cluster.id))


async def test_the_dispatcher_creates_and_deletes_without_a_poke(
    store: Store, engine: Engine, effects: FakeEffects, cluster: Cluster
) -> None:
    async with crew(store, engine, effects):
        await until(lambda: _settled(store, cluster))
        made = await store.clusters.get(cluster.id)
        assert made.status is ClusterStatus.AVAILABLE
        conditions = {condition.type: condition for condition in made.conditions}
        assert conditions[ConditionType.AVAILABLE].status is True
        assert conditions[ConditionType.WORKERS_READY].status is True
        machines = await store.machines.of_cluster(cluster.id)
        assert {machine.phase for machine in machines} == {Phase.READY}
        (job,) = await store.jobs.of_cluster(cluster.id)
        assert (job.kind, job.phase, job.generation) == (JobKind.CREATE, JobPhase.DONE, 1)
        assert engine.link(job).endswith(f"/{job.id}")
        steps = {step.id: step for step in await store.jobs.steps(job.id)}
        server_ = next(machine for machine in machines if machine.is_server)
        clone = steps[f"machine/{server_.name}/{names.CLONE_MACHINE}/{server_.id}"]
        assert clone.state is StepState.DONE
        assert clone.upid == f"UPID:{server_.name}"
        assert clone.summary == f"{server_.name}: clone the template"
        assert all(step.state is StepState.DONE for step in steps.values())
        lines = await store.jobs.log_after(job.id)
        assert any("clone the template: done" in line.text for line in lines)

        await store.clusters.request_deletion(cluster.id, "pat")

        async def gone() -> bool:
            try:
                await store.clusters.get(cluster.id)
            except NotFound:
                return True
            return False

        await until(gone)
        await until(lambda: _no_open_job(store))
    assert [job.kind for job in await store.jobs.of_cluster(cluster.id)] == [JobKind.DELETE, JobKind.CREATE]
    ended = await store.clusters.get(cluster.id, history=True)
    assert (ended.outcome, ended.settled_generation) == (Outcome.DONE, 2)
    assert effects.ran(names.WATCH_SITE) == 1


async def _no_open_job(store: Store) -> bool:
    return not await store.jobs.open_jobs()


async def test_twenty_pokes_at_once_make_one_run(
    store: Store, engine: Engine, effects: FakeEffects, cluster: Cluster
) -> None:
    runs = await asyncio.gather(*(engine.start_or_signal(cluster) for _ in range(20)))
    assert len(set(runs)) == 1
    async with crew(store, engine, effects):
        await until(lambda: _settled(store, cluster))
    assert len(await store.jobs.of_cluster(cluster.id)) == 1
    assert effects.asked(names.PLACE_MACHINE) == 4


async def test_a_parked_job_is_decided_and_the_refusals_are_clear(
    store: Store, engine: Engine, effects: FakeEffects, cluster: Cluster
) -> None:
    effects.failures[names.ENSURE_POOL] = [
        ApplicationError("pool /trilithon/x exists and is not ours", type="NotOurs", non_retryable=True)
    ]
    effects.hold(names.AWAIT_AVAILABLE)
    async with crew(store, engine, effects):
        await engine.start_or_signal(cluster)
        await until(lambda: _job(store, cluster, JobPhase.AWAITING_DECISION))
        (job,) = await store.jobs.of_cluster(cluster.id)
        assert "not ours" in job.error
        parked = await store.clusters.get(cluster.id)
        assert parked.status is ClusterStatus.FAILED
        reason = next(c for c in parked.conditions if c.type is ConditionType.AVAILABLE).reason
        assert reason is Reason.AWAITING_DECISION
        assert "ensure-pool" in await engine.decide(job, Decision.RETRY)
        await until(lambda: _ran(effects, names.AWAIT_AVAILABLE))
        with pytest.raises(NotParked, match="not parked"):
            await engine.decide(job, Decision.ABORT)
        effects.holds[names.AWAIT_AVAILABLE].set()
        await until(lambda: _settled(store, cluster))
        await until(lambda: _no_open_job(store))
        with pytest.raises(NoJob):
            await engine.decide(job, Decision.RETRY)


async def _ran(effects: FakeEffects, name: str) -> bool:
    return effects.ran(name) > 0


async def test_an_aborted_generation_stays_as_it_is_until_the_deletion(
    store: Store, engine: Engine, effects: FakeEffects, cluster: Cluster
) -> None:
    effects.failures[names.ENSURE_POOL] = [ApplicationError("refused", type="RightMissing", non_retryable=True)]
    async with crew(store, engine, effects):
        await until(lambda: _job(store, cluster, JobPhase.AWAITING_DECISION))
        (job,) = await store.jobs.of_cluster(cluster.id)
        await engine.decide(job, Decision.ABORT)
        await until(lambda: _job(store, cluster, JobPhase.ABORTED))
        assert await store.clusters.unsettled(now()) == []
        assert (await store.clusters.get(cluster.id)).status is ClusterStatus.FAILED
        await store.clusters.request_deletion(cluster.id, "pat")

        async def deleted() -> bool:
            found = await store.clusters.get(cluster.id, history=True)
            return found.settled_generation == 2

        await until(deleted)


async def test_a_deletion_during_a_long_join_takes_over_within_seconds(
    store: Store, engine: Engine, effects: FakeEffects, cluster: Cluster
) -> None:
    effects.hold(names.AWAIT_JOINED)
    async with crew(store, engine, effects):
        await until(lambda: _ran(effects, names.AWAIT_JOINED))
        began = time.monotonic()
        wanted = await store.clusters.request_deletion(cluster.id, "pat")
        await engine.poke(wanted)
        await until(lambda: _ran(effects, names.REVOKE_TOKEN))
        assert time.monotonic() - began < 8


async def test_a_terminated_run_is_followed_by_another_which_is_counted(
    store: Store, engine: Engine, effects: FakeEffects, cluster: Cluster
) -> None:
    effects.hold(names.AWAIT_JOINED)
    async with crew(store, engine, effects):
        await until(lambda: _ran(effects, names.AWAIT_JOINED))
        await engine.client.get_workflow_handle(ids.cluster_workflow(cluster)).terminate("by hand")
        effects.holds[names.AWAIT_JOINED].set()
        await until(lambda: _settled(store, cluster), 60)
        await until(lambda: _no_open_job(store))
    assert sorted(job.phase for job in await store.jobs.of_cluster(cluster.id)) == [JobPhase.DONE, JobPhase.FAILED]
    assert effects.ran(names.RESERVE_MACHINES) == 0  # it is a record, not an effect: still four machines
    assert len(await store.machines.of_cluster(cluster.id)) == 4


async def test_nobody_answers_is_said_as_it_is(store: Store, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.engine.DECISION_LIMIT", 0.5)
    lab = await store.sites.add(site(id="site-nobody"))
    made = await store.clusters.create(spec("alone", number=9), lab.id, "pat")
    run = await engine.start_or_signal(made)
    job = Job(id=run or "", workflow_id=ids.cluster_workflow(made), kind=JobKind.CREATE)
    with pytest.raises(NoWorker, match="No worker"):
        await engine.decide(job, Decision.RETRY)
    await engine.client.get_workflow_handle(ids.cluster_workflow(made)).terminate()


async def test_the_engine_away_is_a_condition_and_no_error(store: Store, cluster: Cluster) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    engine = await Engine.connect(EngineSettings(address=address, limits=LIMITS))
    assert await engine.poke(cluster) is False
    assert await engine.answers() is False
    with pytest.raises(EngineAway):
        await engine.running("cluster/x")
    await Dispatcher(store, engine, now).look()
    (condition,) = (await store.clusters.get(cluster.id)).conditions
    assert (condition.type, condition.status, condition.reason) == (
        ConditionType.JOB_PENDING,
        True,
        Reason.ENGINE_AWAY,
    )


async def test_a_create_goes_on_after_the_server_lost_all_its_data(
    store: Store, effects: FakeEffects, cluster: Cluster, tmp_path: Path
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    effects.hold(names.AWAIT_JOINED)
    engine = await Engine.connect(EngineSettings(address=f"127.0.0.1:{port}", limits=LIMITS))
    async with crew(store, engine, effects):
        async with server(port):
            await until(lambda: _ran(effects, names.AWAIT_JOINED))
            before = {machine.name: machine.vmid for machine in await store.machines.of_cluster(cluster.id)}
        effects.holds[names.AWAIT_JOINED].set()
        async with server(port, attributes=False):
            await until(lambda: _settled(store, cluster), 90)
            after = {machine.name: machine.vmid for machine in await store.machines.of_cluster(cluster.id)}
            assert after == before
            await until(lambda: _no_open_job(store))
