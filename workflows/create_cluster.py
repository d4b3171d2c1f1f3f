"""CreateCluster: from an accepted spec to Available. Which step comes when is decided by domain.plan alone."""

from temporalio import workflow

from domain.contracts import activities as names
from domain.contracts import jobs as contract
from domain.contracts.activities import JobState
from domain.contracts.jobs import JobInput
from domain.jobs import JobKind
from domain.plan import StepKind
from workflows.loop import ClusterJob

EFFECTS: dict[str, tuple[str, ...]] = {
    StepKind.MAKE_AUTHORITIES: (names.MAKE_AUTHORITIES,),
    StepKind.RESERVE_MACHINES: (names.RESERVE_MACHINES,),
    StepKind.ENSURE_POOL: (names.ENSURE_POOL,),
    StepKind.ENSURE_USER: (names.ENSURE_USER,),
    StepKind.ENSURE_TOKEN: (names.ENSURE_TOKEN,),
    StepKind.GRANT_RIGHTS: (names.GRANT_RIGHTS,),
    StepKind.INSTALL_POD_NETWORK: (names.INSTALL_POD_NETWORK,),
    StepKind.OPEN_JOINING: (names.OPEN_JOINING,),
    StepKind.CLOSE_JOINING: (names.CLOSE_JOINING,),
    StepKind.INSTALL_CLOUD_CONTROLLER: (names.CLOUD_CONTROLLER_SECRET, names.INSTALL_CLOUD_CONTROLLER),
    StepKind.LOOK_AT_ETCD: (names.LOOK_AT_ETCD,),
    StepKind.SET_TAINTS: (names.SET_TAINTS,),
}
"""The effects of each step, in order. Machine steps are children (workflows/loop.py)."""

WAITS: dict[str, str] = {StepKind.AWAIT_API: names.AWAIT_API, StepKind.AWAIT_AVAILABLE: names.AWAIT_AVAILABLE}


@workflow.defn(name=contract.CREATE_CLUSTER)
class CreateCluster(ClusterJob):
    """Creates a cluster. Superseded within seconds when its deletion is recorded."""

    kind = JobKind.CREATE
    step_effects = EFFECTS
    step_waits = WAITS

    @workflow.run
    async def run(self, job: JobInput) -> str:
        """Returns the outcome: `done`, `aborted` or `superseded`."""
        return await self.drive(job)

    def superseded(self, state: JobState) -> str:
        """A create ends when the cluster is to be deleted, or is gone."""
        if not state.exists:
            return "The cluster is no longer recorded"
        if state.deleting:
            return "Its deletion was requested"
        return super().superseded(state)
