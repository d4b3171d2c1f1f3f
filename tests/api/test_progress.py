"""A cluster that a job works on: how far it is, and which of its conditions are no reason to look."""

from domain.clusters import ClusterStatus, Mark
from domain.conditions import Condition, ConditionType, Reason
from domain.jobs import Job, JobKind, Step, StepState
from domain.machines import drafts, identities
from tests.api.test_rights import NEW
from tests.api.world import World

FRESH = "/clusters/clusters/fresh"
SAID = (
    (ConditionType.AVAILABLE, Reason.WAITING),
    (ConditionType.CONTROL_PLANE_READY, Reason.NODES_NOT_READY),
    (ConditionType.MACHINES_PLACED, Reason.NO_CAPACITY),
)


async def _at_work(world: World) -> str:
    """The cluster `fresh`, some steps into its create job; returns its id."""
    made = (await world.person("dev@pve").post("/clusters", json=NEW)).json()["cluster"]
    store, id_ = world.store, made["id"]
    for type_, reason in SAID:
        await store.clusters.set_condition(id_, Condition(type=type_, status=False, reason=reason))
    await store.jobs.begin(
        Job(id="job", workflow_id=f"cluster/clusters.fresh/{id_}", kind=JobKind.CREATE, cluster_id=id_)
    )
    for number, state in enumerate((StepState.DONE, StepState.RUNNING)):
        await store.jobs.upsert_step(
            Step(id=f"job/{number}", job_id="job", kind="x", summary=f"step {number}", state=state)
        )
    return str(id_)


async def test_progress_is_counted_from_the_plan_and_names_what_runs(world: World) -> None:
    id_ = await _at_work(world)
    person = world.person("dev@pve")
    begun = (await person.get(FRESH)).json()["progress"]
    assert (begun["done"], [one["summary"] for one in begun["now"]]) == (0, ["step 1"])
    assert begun["now"][0]["since"] is not None
    assert "groundwork" in begun["waiting_for"]
    assert (await person.get("/jobs/job")).json()["progress"] == begun
    await world.store.clusters.add_marks(id_, Mark.POOL, Mark.USER)
    cluster = await world.store.clusters.get(id_)
    await world.store.machines.reserve(id_, drafts(cluster.spec, id_, [], identities(id_, 0)))
    later = (await person.get(FRESH)).json()["progress"]
    assert (later["done"], later["total"]) == (2, begun["total"])
    await world.store.clusters.request_deletion(id_, "dev@pve")
    assert (await person.get(FRESH)).json()["progress"] is None


async def test_what_a_job_works_on_is_in_progress_and_what_waits_for_people_is_not(world: World) -> None:
    id_ = await _at_work(world)
    person = world.person("dev@pve")
    rows = {one["type"]: one for one in (await person.get(FRESH)).json()["conditions"]}
    for type_ in (ConditionType.AVAILABLE, ConditionType.CONTROL_PLANE_READY):
        assert (rows[type_]["in_progress"], rows[type_]["worth_a_look"]) == (True, False), type_
    assert (rows["MachinesPlaced"]["in_progress"], rows["MachinesPlaced"]["worth_a_look"]) == (False, True)
    unbuilt = [one for one in rows.values() if one["reason"] == Reason.NOT_BUILT_YET]
    assert unbuilt
    assert not any(one["worth_a_look"] or one["in_progress"] for one in unbuilt)
    await world.store.clusters.set_status(id_, ClusterStatus.FAILED)
    rows = {one["type"]: one for one in (await person.get(FRESH)).json()["conditions"]}
    for type_, _ in SAID:
        assert (rows[type_]["in_progress"], rows[type_]["worth_a_look"]) == (False, True), type_
