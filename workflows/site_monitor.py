"""SiteMonitor: one observer per site, whose body is one long heartbeating activity (never one poller per cluster)."""

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError

from domain.contracts import activities as names
from domain.contracts import ids
from domain.contracts import jobs as contract
from domain.contracts.jobs import SiteInput
from workflows import effects

ROUND = timedelta(minutes=20)
"""Backstop of one round of watching; the activity itself returns after about ten minutes."""
ROUNDS = 50
"""Rounds per run before it continues as new."""


@workflow.defn(name=contract.SITE_MONITOR)
class SiteMonitor:
    """Watches a site until the site is gone."""

    @workflow.run
    async def run(self, site: SiteInput) -> None:
        """Watch, round after round; errors are repeated for ever, since a site that is away comes back."""
        for _ in range(ROUNDS):
            try:
                await workflow.execute_activity(
                    names.WATCH_SITE,
                    site,
                    task_queue=ids.site_wait_queue(site.site_id),
                    result_type=type(None),
                    start_to_close_timeout=ROUND,
                    heartbeat_timeout=timedelta(seconds=site.limits.heartbeat),
                    retry_policy=RetryPolicy(
                        initial_interval=timedelta(seconds=site.limits.retry_first),
                        maximum_interval=timedelta(seconds=site.limits.retry_max),
                        non_retryable_error_types=["SiteGone"],
                    ),
                    cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
                    summary=effects.summary(site.site_name, names.WATCH_SITE),
                )
            except ActivityError as error:
                if isinstance(error.cause, ApplicationError) and error.cause.type == "SiteGone":
                    return
                if effects.was_cancelled(error):
                    raise
            # A watcher that returns at once (an empty site, a fault) must not fill the history.
            await workflow.sleep(timedelta(seconds=1), summary=f"{site.site_name}: next round")
            if workflow.info().is_continue_as_new_suggested():
                break
        workflow.continue_as_new(site.model_copy(update={"cycles": site.cycles + 1}))
