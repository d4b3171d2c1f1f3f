"""One connection to the Temporal server, which may be away at any time.

Nothing here decides what a cluster needs: `domain.jobs.wanted_job` does, from the store alone. A call that cannot
reach the server raises `EngineAway` within seconds; the dispatcher (jobs/dispatcher.py) does the same again later.
"""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar
from urllib.parse import quote

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest, ListSearchAttributesRequest
from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import (
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
)
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError
from temporalio.service import RetryConfig, RPCError, RPCStatusCode

from domain.clusters import Cluster
from domain.contracts import ids
from domain.contracts import jobs as contract
from domain.contracts.jobs import JobInput, SiteInput, TimeLimits
from domain.jobs import Decision, Job, JobPhase, wanted_job
from domain.sites import Site
from jobs.errors import EngineAway, NoJob, NotParked, NoWorker

Answer = TypeVar("Answer")
CALL_LIMIT = 5.0
"""Seconds for one call; an API request must not hang because Temporal is away."""
DECISION_LIMIT = 10.0
"""Seconds until a decision that no worker took is reported as such."""
AWAY = (RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED, RPCStatusCode.UNKNOWN)


@dataclass(frozen=True)
class EngineSettings:
    """Where the Temporal server is. `ui` is the base address of its web pages, for links."""

    address: str = "127.0.0.1:7233"
    namespace: str = "default"
    ui: str = ""
    tls: bool = False
    api_key: str | None = field(default=None, repr=False)
    limits: TimeLimits = field(default_factory=TimeLimits)


@dataclass(frozen=True)
class Running:
    """The open run under a workflow id."""

    run_id: str
    kind: str


class Engine:
    """The Temporal server as the rest of the product uses it. Make one with `connect`."""

    def __init__(self, client: Client, settings: EngineSettings) -> None:
        self.client = client
        self.settings = settings
        self._attributes_ready = False

    @classmethod
    async def connect(cls, settings: EngineSettings) -> "Engine":
        """A connection that is made with the first call, and again whenever it broke: never raises EngineAway."""
        return cls(await _client(settings, lazy=True), settings)

    async def worker_client(self, *, pause: float = 0.5) -> Client:
        """A client for workers, when the server answers; waits for one that is not there yet.

        The SDK refuses workers on a connection that is made with the first call.
        """
        while True:
            try:
                await self.ensure_search_attributes()
                return await _client(self.settings, lazy=False)
            except (EngineAway, RuntimeError):
                await asyncio.sleep(pause)

    async def ensure_search_attributes(self) -> None:
        """Register our search attributes where they are missing (also after Temporal's data was lost)."""
        namespace = self.settings.namespace
        service = self.client.operator_service
        listed = await self._reach(service.list_search_attributes(ListSearchAttributesRequest(namespace=namespace)))
        missing = [name for name in contract.SEARCH_ATTRIBUTES if name not in listed.custom_attributes]
        if missing:
            keyword = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD
            request = AddSearchAttributesRequest(namespace=namespace, search_attributes=dict.fromkeys(missing, keyword))
            try:
                await self._reach(service.add_search_attributes(request))
            except RPCError as error:
                if error.status is not RPCStatusCode.ALREADY_EXISTS:
                    raise
        self._attributes_ready = True

    async def poke(self, cluster: Cluster, site: Site | None = None) -> bool:
        """`start_or_signal` for who has just written a change: False when the engine does not answer.

        Nothing is lost then: the dispatcher does the same when it is back.
        """
        try:
            await self.start_or_signal(cluster, site.name if site else "")
        except EngineAway:
            return False
        return True

    async def answers(self) -> bool:
        """Whether the server can be reached, within seconds."""
        try:
            await self.running("nobody")
        except EngineAway:
            return False
        return True

    async def start_or_signal(self, cluster: Cluster, site_name: str = "") -> str | None:
        """Tell the cluster's running job to look again, or start the job that the cluster needs now.

        One atomic call, so that of any number at once one run comes out. Returns the run id, or None when the cluster
        needs no job. Raises EngineAway.
        """
        kind = wanted_job(cluster)
        if kind is None:
            return None
        name = f"{cluster.namespace}/{cluster.name}"
        site = site_name or cluster.site_id
        job = JobInput(
            cluster_id=cluster.id,
            cluster_name=name,
            site_id=cluster.site_id,
            site_name=site,
            limits=self.settings.limits,
        )
        return await self._start(
            kind.value,
            job,
            ids.cluster_workflow(cluster),
            attributes={"ClusterName": name, "Site": site, "JobKind": kind.value, "JobPhase": JobPhase.RUNNING.value},
            summary=f"{'Delete' if cluster.deleting else 'Create'} cluster {name}",
            details=f"Cluster `{name}` on site `{site}`, generation {cluster.generation}.",
            signal=contract.CHANGED,
        )

    async def watch(self, site: Site) -> str:
        """Make sure that the site's monitor runs. Returns its run id. Raises EngineAway."""
        return await self._start(
            contract.SITE_MONITOR,
            SiteInput(site_id=site.id, site_name=site.name, limits=self.settings.limits),
            ids.site_monitor(site.id),
            attributes={"Site": site.name, "JobKind": contract.SITE_MONITOR},
            summary=f"Watch site {site.name}",
            details=f"Observes the machines and clusters of site `{site.name}`.",
        )

    async def start_self_test(self, site: Site) -> str:
        """Start the site's self-test, or find the one that runs. Returns its run id, which is the job's id."""
        return await self._start(
            contract.SELF_TEST,
            SiteInput(site_id=site.id, site_name=site.name, limits=self.settings.limits),
            ids.self_test(site.id),
            attributes={"Site": site.name, "JobKind": contract.SELF_TEST},
            summary=f"Self-test of site {site.name}",
            details=f"Clones, boots and deletes one small VM on site `{site.name}`.",
        )

    async def decide(self, job: Job, decision: Decision) -> str:
        """Tell a parked job to `retry` or `abort`. Returns its answer.

        Raises NotParked, NoJob, NoWorker or EngineAway, each with a text for people.
        """
        workflow_id = job.workflow_id
        handle = self.client.get_workflow_handle(workflow_id, run_id=job.id)
        try:
            async with asyncio.timeout(DECISION_LIMIT + CALL_LIMIT):
                answer: str = await handle.execute_update(
                    decision.value, result_type=str, rpc_timeout=timedelta(seconds=DECISION_LIMIT)
                )
                return answer
        except WorkflowUpdateFailedError as error:
            cause = error.cause
            text = cause.message if isinstance(cause, ApplicationError) else str(cause)
            raise NotParked(text) from error
        except (WorkflowUpdateRPCTimeoutOrCancelledError, TimeoutError) as error:
            await self.running(workflow_id)  # raises EngineAway when it is the server that is silent
            raise NoWorker(
                f"No worker took the decision within {DECISION_LIMIT:.0f} s; the job stays parked. Is a worker running?"
            ) from error
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                raise NoJob("This cluster has no open job; there is nothing to decide.") from error
            if error.status in AWAY:
                raise EngineAway(f"The Temporal server at {self.settings.address} does not answer") from error
            raise
        except RuntimeError as error:
            raise EngineAway(f"The Temporal server at {self.settings.address} does not answer") from error

    async def running(self, workflow_id: str) -> Running | None:
        """The open run under a workflow id, or None. Raises EngineAway."""
        try:
            found = await self._reach(self.client.get_workflow_handle(workflow_id).describe())
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return None
            raise
        if found.status is not WorkflowExecutionStatus.RUNNING:
            return None
        return Running(run_id=found.run_id, kind=found.workflow_type)

    def link(self, job: Job) -> str:
        """The job's page in the Temporal UI; empty where no UI is set up."""
        if not self.settings.ui:
            return ""
        workflow_id = quote(job.workflow_id, safe="")
        return f"{self.settings.ui.rstrip('/')}/namespaces/{self.settings.namespace}/workflows/{workflow_id}/{job.id}"

    async def _start(
        self,
        workflow: str,
        arg: JobInput | SiteInput,
        workflow_id: str,
        *,
        attributes: dict[str, str],
        summary: str,
        details: str,
        signal: str | None = None,
    ) -> str:
        if not self._attributes_ready:
            await self.ensure_search_attributes()
        pairs = [SearchAttributePair(SearchAttributeKey.for_keyword(name), value) for name, value in attributes.items()]

        async def start() -> str:
            handle = await self.client.start_workflow(
                workflow,
                arg,
                id=workflow_id,
                task_queue=ids.CONTROL_QUEUE,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                search_attributes=TypedSearchAttributes(pairs),
                static_summary=summary,
                static_details=details,
                start_signal=signal,
                rpc_timeout=timedelta(seconds=CALL_LIMIT),
            )
            return handle.result_run_id or handle.first_execution_run_id or ""

        try:
            return await self._reach(start())
        except RPCError as error:
            if error.status is not RPCStatusCode.INVALID_ARGUMENT:
                raise
            # A server that lost its data does not know our search attributes any more.
            await self.ensure_search_attributes()
            return await self._reach(start())
        except WorkflowAlreadyStartedError as error:
            return error.run_id or ""

    async def _reach(self, call: Awaitable[Answer]) -> Answer:
        """Await one call; a silent server becomes EngineAway, every other answer stays as it is."""
        try:
            async with asyncio.timeout(CALL_LIMIT):
                return await call
        except TimeoutError as error:
            raise EngineAway(f"The Temporal server at {self.settings.address} does not answer") from error
        except RPCError as error:
            if error.status in AWAY:
                raise EngineAway(f"The Temporal server at {self.settings.address} does not answer") from error
            raise
        except RuntimeError as error:
            # A lazy client that cannot connect says so with RuntimeError.
            raise EngineAway(f"The Temporal server at {self.settings.address} does not answer") from error


async def _client(settings: EngineSettings, *, lazy: bool) -> Client:
    # Calls give up within seconds: whoever made them is told, and the dispatcher comes again.
    retry = RetryConfig(initial_interval_millis=100, max_elapsed_time_millis=3000, max_retries=4) if lazy else None
    return await Client.connect(
        settings.address,
        namespace=settings.namespace,
        tls=settings.tls,
        api_key=settings.api_key,
        data_converter=pydantic_data_converter,
        lazy=lazy,
        retry_config=retry,
    )
