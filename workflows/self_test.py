"""SelfTest: proves on a real site that the platform's account can clone, upload, start and delete one small VM."""

from temporalio import workflow
from temporalio.exceptions import FailureError

from domain.clusters import Outcome
from domain.contracts import activities as names
from domain.contracts import jobs as contract
from domain.contracts.activities import BeginJob, FinishJob, JobState, SiteRef
from domain.contracts.jobs import SiteInput
from domain.jobs import JobKind
from workflows import effects


@workflow.defn(name=contract.SELF_TEST)
class SelfTest:
    """Runs the self-test once. Its report is in the store; a failure is the job's error, never a parked job."""

    @workflow.run
    async def run(self, site: SiteInput) -> str:
        """Returns `done` or `aborted`."""
        info = workflow.info()
        caller = effects.Caller(job_id=info.run_id, site_id=site.site_id, who=site.site_name, limits=site.limits)
        begin = BeginJob(job_id=info.run_id, workflow_id=info.workflow_id, kind=JobKind.SELF_TEST, site_id=site.site_id)
        await effects.call(caller, names.BEGIN_JOB, begin, JobState)
        ref = SiteRef(
            job_id=info.run_id, site_id=site.site_id, summary=effects.summary(site.site_name, names.SELF_TEST_STEP)
        )
        outcome, error = Outcome.DONE, ""
        try:
            await effects.run_wait(caller, names.SELF_TEST_STEP, ref, limit=site.limits.task)
        except FailureError as failure:
            outcome, error = Outcome.ABORTED, effects.explain(failure)
        finish = FinishJob(job_id=info.run_id, outcome=outcome, error=error)
        await effects.call(caller, names.FINISH_JOB, finish, type(None))
        return outcome
