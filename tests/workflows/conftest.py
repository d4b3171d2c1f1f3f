"""Workers of a test's own on a real Temporal development server."""

import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import Worker

from domain.contracts import activities as names
from domain.contracts import ids
from domain.contracts.activities import Lane
from domain.contracts.jobs import JobInput, TimeLimits
from tests.temporal_server import client as client
from tests.temporal_server import temporal as temporal
from tests.workflows.world import World
from workers.registry import WORKFLOWS, sandbox

LIMITS = TimeLimits(
    task=20, boot=60, ready=60, available=60, heartbeat=2, effect=5, retry_first=0.05, retry_max=0.2, persist=0.5
)


@pytest.fixture
def place() -> str:
    """A site of this test alone."""
    return uuid.uuid4().hex[:8]


@asynccontextmanager
async def working(client: Client, world: World, site_id: str) -> AsyncIterator[None]:
    """Workers for the control queue and for one site, with the world's fakes."""
    fakes: list[Callable[..., Any]] = world.activities()

    def of(*lanes: Lane) -> list[Callable[..., Any]]:
        return [fake for fake in fakes if names.lane(fake.__temporal_activity_definition.name) in lanes]  # type: ignore[attr-defined]

    queues = {
        ids.CONTROL_QUEUE: of(Lane.CONTROL),
        ids.site_queue(site_id): of(Lane.SITE),
        ids.site_clone_queue(site_id): of(Lane.CLONE),
        ids.site_wait_queue(site_id): of(Lane.WAIT),
    }
    async with AsyncExitStack() as stack:
        for queue, activities in queues.items():
            await stack.enter_async_context(
                Worker(
                    client,
                    task_queue=queue,
                    workflows=WORKFLOWS if queue == ids.CONTROL_QUEUE else [],
                    activities=activities,
                    workflow_runner=sandbox(),
                )
            )
        yield


async def start(client: Client, world: World, site_id: str, kind: str, **limits: float) -> WorkflowHandle[Any, str]:
    """Start a job of the world's cluster under an id of this test's own."""
    return await client.start_workflow(
        kind,
        JobInput(
            cluster_id="c1",
            cluster_name="clusters/prod",
            site_id=site_id,
            site_name="lab",
            limits=LIMITS.model_copy(update=limits),
        ),
        id=f"cluster/clusters.prod/{uuid.uuid4()}",
        task_queue=ids.CONTROL_QUEUE,
        result_type=str,
    )
