"""A real Temporal development server for tests (facts/temporal.md 6). Import the fixtures into a folder's conftest."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.common import SearchAttributeKey
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment

from domain.contracts import jobs as contract

PROGRAM = str(Path(sys.executable).with_name("temporal"))
FAST_TIMERS = ["--dynamic-config-value", 'history.timerProcessorMaxTimeShift="1ms"']


@asynccontextmanager
async def server(
    port: int | None = None, *, file: Path | None = None, attributes: bool = True
) -> AsyncIterator[WorkflowEnvironment]:
    """A server of one's own: on a fixed port, with a data file, or without our search attributes."""
    names = contract.SEARCH_ATTRIBUTES if attributes else ()
    async with await WorkflowEnvironment.start_local(
        port=port,
        data_converter=pydantic_data_converter,
        search_attributes=[SearchAttributeKey.for_keyword(name) for name in names],
        dev_server_existing_path=PROGRAM,
        dev_server_database_filename=str(file) if file else None,
        dev_server_extra_args=FAST_TIMERS,
    ) as env:
        yield env


@pytest.fixture(scope="session")
async def temporal() -> AsyncIterator[WorkflowEnvironment]:
    async with server() as env:
        yield env


@pytest.fixture
def client(temporal: WorkflowEnvironment) -> Client:
    return temporal.client
