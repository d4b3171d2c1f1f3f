"""The fixture `api`: every case of this folder runs unchanged on each backend listed in BACKENDS."""

import uuid
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from tests.contract.backend import Api, Backend, Double, ok

BACKENDS: dict[str, Callable[[], Backend]] = {"double": Double}


@pytest_asyncio.fixture(scope="session", params=sorted(BACKENDS))
async def api(request: pytest.FixtureRequest) -> AsyncIterator[Api]:
    backend = BACKENDS[request.param]()
    await backend.start()
    opened = Api(backend)
    await opened.open()
    yield opened
    await opened.close()
    await backend.stop()


@pytest_asyncio.fixture
async def space(api: Api) -> str:
    """A fresh namespace's path below /api/v1."""
    name = f"case-{uuid.uuid4().hex[:10]}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    ok(await api.admin.post("/api/v1/namespaces", json=body), 201)
    return name
