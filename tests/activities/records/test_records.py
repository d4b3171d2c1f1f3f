"""records.*: what is reserved, planned, reported and settled; twice is the same as once."""

from collections.abc import Sequence

import pytest
from temporalio.exceptions import ApplicationError

from activities.records import RecordActivities
from bootstrap.authorities import Authorities
from bootstrap.tokens import Tokens
from domain.clusters import Cluster, ClusterStatus, Mark, Outcome
from domain.conditions import ConditionType, Reason
from domain.contracts.activities import BeginJob, ClusterRef, FinishJob, MachineRef, PlanRequest, ReportJob
from domain.jobs import JobKind, JobPhase
from domain.machines import Machine, MachineDraft, Phase
from domain.plan import StepKind
from store import Conflict, NotFound, Store
from tests.activities.records.conftest import clock
from tests.store.builders import spec


@pytest.fixture
def records(store: Store) -> RecordActivities:
    return RecordActivities(store, clock)


@pytest.fixture
async def cluster(store: Store) -> Cluster:
    return await store.clusters.create(spec(), "site-lab", "pat")


def ref(cluster: Cluster) -> ClusterRef:
    return ClusterRef(job_id="run-1", cluster_id=cluster.id, site_id=cluster.site_id)


def request(cluster: Cluster, kind: JobKind = JobKind.CREATE, epoch: int = 1) -> PlanRequest:
    return PlanRequest(job_id="run-1", cluster_id=cluster.id, site_id=cluster.site_id, kind=kind, epoch=epoch)


def begin(cluster: Cluster, kind: JobKind = JobKind.CREATE) -> BeginJob:
    return BeginJob(job_id="run-1", workflow_id="w", kind=kind, cluster_id=cluster.id, site_id=cluster.site_id)


async def test_begin_opens_one_record(store: Store, records: RecordActivities, cluster: Cluster) -> None:
    state = await records.begin_job(begin(cluster))
    assert await records.begin_job(begin(cluster)) == state
    assert (state.generation, state.deleting, state.exists) == (1, False, True)
    (job,) = await store.jobs.of_cluster(cluster.id)
    assert (job.id, job.phase, job.generation) == ("run-1", JobPhase.RUNNING, 1)


async def test_a_job_names_who_asked_for_it(store: Store, records: RecordActivities, cluster: Cluster) -> None:
    await store.clusters.request_deletion(cluster.id, "ann@pve")
    await records.begin_job(begin(cluster, JobKind.DELETE))
    (job,) = await store.jobs.of_cluster(cluster.id)
    assert job.requested_by == "ann@pve"


async def test_authorities_are_made_once(store: Store, records: RecordActivities, cluster: Cluster) -> None:
    await records.make_authorities(ref(cluster))
    scope = f"cluster/{cluster.id}"
    first = [await store.secrets.get(scope, name) for name in ("authorities", "tokens")]
    await records.make_authorities(ref(cluster))
    assert [await store.secrets.get(scope, name) for name in ("authorities", "tokens")] == first
    assert Authorities.from_json(first[0]).distribution == cluster.spec.distribution
    assert Tokens.from_json(first[1]).server != Tokens.from_json(first[1]).agent
    assert (await store.clusters.get(cluster.id)).marks == (Mark.AUTHORITIES,)


async def test_machines_are_reserved_once(store: Store, records: RecordActivities, cluster: Cluster) -> None:
    await records.reserve_machines(ref(cluster))
    first = await store.machines.of_cluster(cluster.id)
    await records.reserve_machines(ref(cluster))
    assert await store.machines.of_cluster(cluster.id) == first
    assert len(first) == 4
    assert len({machine.vmid for machine in first}) == 4
    assert [machine.initialiser for machine in first].count(True) == 1


async def test_too_few_addresses_ask_a_person(store: Store, records: RecordActivities) -> None:
    network = spec().network.model_copy(update={"addresses": ("10.0.1.1-10.0.1.2",)})
    small = await store.clusters.create(spec("small", number=3, network=network), "site-lab", "pat")
    with pytest.raises(ApplicationError) as refused:
        await records.reserve_machines(ref(small))
    assert refused.value.non_retryable
    assert await store.machines.of_cluster(small.id) == []


async def test_the_plan_knows_a_machine_that_was_powered_on_before(
    store: Store, records: RecordActivities, cluster: Cluster
) -> None:
    await records.reserve_machines(ref(cluster))
    await store.clusters.add_marks(cluster.id, Mark.AUTHORITIES, Mark.POOL, Mark.USER, Mark.TOKEN, Mark.RIGHTS)
    server = next(machine for machine in await store.machines.of_cluster(cluster.id) if machine.initialiser)
    await store.machines.advance(server.id, Phase.STARTED)
    epoch = await store.epoch()
    answer = await records.plan(request(cluster, epoch=epoch))
    creates = {step.machine_id: step.permitted for step in answer.steps if step.kind == StepKind.CREATE_MACHINE}
    assert len(creates) == 4
    assert [machine for machine, permitted in creates.items() if permitted] == [server.id]


async def test_a_plan_that_changes_nothing_writes_nothing(
    store: Store, records: RecordActivities, cluster: Cluster
) -> None:
    epoch = await store.epoch()
    await records.plan(request(cluster, epoch=epoch))
    last = await store.feed.last()
    await records.plan(request(cluster, epoch=epoch))
    assert await store.feed.last() == last


async def test_the_wrong_kind_or_epoch_gets_no_steps(store: Store, records: RecordActivities, cluster: Cluster) -> None:
    epoch = await store.epoch()
    assert (await records.plan(request(cluster, JobKind.DELETE, epoch))).steps == ()
    assert (await records.plan(request(cluster, JobKind.CREATE, epoch + 1))).steps == ()
    await store.clusters.request_deletion(cluster.id, "pat")
    answer = await records.plan(request(cluster, JobKind.CREATE, epoch))
    assert answer.steps == ()
    assert answer.state.deleting


async def test_a_parked_job_is_failed_with_its_reason_and_running_again_is_not(
    store: Store, records: RecordActivities, cluster: Cluster
) -> None:
    await records.begin_job(begin(cluster))
    report = ReportJob(job_id="run-1", cluster_id=cluster.id, phase=JobPhase.AWAITING_DECISION, error="no template")
    await records.report_job(report)
    parked = await store.clusters.get(cluster.id)
    (condition,) = [c for c in parked.conditions if c.type is ConditionType.AVAILABLE]
    assert (parked.status, condition.status, condition.reason) == (
        ClusterStatus.FAILED,
        False,
        Reason.AWAITING_DECISION,
    )
    assert "no template" in condition.message
    await records.report_job(report.model_copy(update={"phase": JobPhase.RUNNING, "error": ""}))
    assert (await store.clusters.get(cluster.id)).status is ClusterStatus.PROVISIONING


@pytest.mark.parametrize(
    ("outcome", "settled", "phase"),
    [
        (Outcome.DONE, 1, JobPhase.DONE),
        (Outcome.ABORTED, 0, JobPhase.ABORTED),
        (Outcome.SUPERSEDED, 0, JobPhase.SUPERSEDED),
    ],
)
async def test_finish_settles(
    store: Store, records: RecordActivities, cluster: Cluster, outcome: Outcome, settled: int, phase: JobPhase
) -> None:
    await records.begin_job(begin(cluster))
    finish = FinishJob(job_id="run-1", cluster_id=cluster.id, generation=1, outcome=outcome, error="why")
    await records.finish_job(finish)
    await records.finish_job(finish)
    found = await store.clusters.get(cluster.id)
    assert (found.settled_generation, found.outcome) == (settled, outcome)
    assert (await store.jobs.get("run-1")).phase is phase


async def test_release_and_forget_can_be_repeated(store: Store, records: RecordActivities, cluster: Cluster) -> None:
    await records.reserve_machines(ref(cluster))
    for machine in await store.machines.of_cluster(cluster.id):
        machine_ref = MachineRef(
            job_id="run-1", cluster_id=cluster.id, site_id=cluster.site_id, machine_id=machine.id, name=machine.name
        )
        await records.release_machine(machine_ref)
        await records.release_machine(machine_ref)
    await records.forget_cluster(ref(cluster))
    await records.forget_cluster(ref(cluster))
    with pytest.raises(NotFound):
        await store.clusters.get(cluster.id)
    answer = await records.plan(request(cluster, JobKind.DELETE, await store.epoch()))
    assert answer.finished
    assert not answer.state.exists


async def test_a_mac_in_use_is_drawn_again(store: Store, records: RecordActivities, cluster: Cluster) -> None:
    """MACs have 24 bits of their own: with thousands of machines two draws are the same now and then."""
    reserve, refused = store.machines.reserve, []

    async def once_in_use(cluster_id: str, wanted: Sequence[MachineDraft]) -> list[Machine]:
        if not refused:
            refused.append([one.mac for one in wanted])
            raise Conflict("machines.mac")
        return await reserve(cluster_id, wanted)

    store.machines.reserve = once_in_use  # type: ignore[method-assign]
    await records.reserve_machines(ref(cluster))
    kept = {machine.mac for machine in await store.machines.of_cluster(cluster.id)}
    assert kept
    assert not kept & set(refused[0])
