"""DeleteCluster: token first, then the machines, then user, rights and pool, then what we know (F-100, F-101)."""

from temporalio import workflow

from domain.contracts import activities as names
from domain.contracts import jobs as contract
from domain.contracts.activities import JobState
from domain.contracts.jobs import JobInput
from domain.jobs import JobKind
from domain.plan import StepKind
from workflows.loop import ClusterJob

EFFECTS: dict[str, tuple[str, ...]] = {
    StepKind.REVOKE_TOKEN: (names.REVOKE_TOKEN,),
    StepKind.DELETE_USER: (names.DELETE_USER,),
    StepKind.REVOKE_RIGHTS: (names.REVOKE_RIGHTS,),
    StepKind.DELETE_POOL: (names.DELETE_POOL,),
    StepKind.FORGET_CLUSTER: (names.FORGET_CLUSTER,),
}
"""The effects of each step. Machine steps are children (workflows/loop.py)."""


@workflow.defn(name=contract.DELETE_CLUSTER)
class DeleteCluster(ClusterJob):
    """Deletes a cluster. Refuses to run unless its deletion is recorded in the store."""

    kind = JobKind.DELETE
    step_effects = EFFECTS

    @workflow.run
    async def run(self, job: JobInput) -> str:
        """Returns the outcome: `done`, `aborted` or `superseded` (restored store)."""
        return await self.drive(job)

    def refusal(self, state: JobState) -> str:
        """Only a recorded deletion may delete; starting this workflow by hand proves nothing."""
        if state.exists and not state.deleting:
            return "DeleteCluster refused: no deletion of this cluster is recorded"
        return ""

    def superseded(self, state: JobState) -> str:
        """A deletion goes on until nothing is left, unless the store was restored to a time before it."""
        if state.exists and not state.deleting:
            return "The recorded deletion is gone from the store"
        return super().superseded(state)
