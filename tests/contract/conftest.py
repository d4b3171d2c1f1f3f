"""The fixture `api`: every case of this folder runs unchanged on each backend listed in BACKENDS."""

import uuid
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from lab.programs.needs import Missing
from tests.contract.backend import Api, Backend, Double, eventually, ok
from tests.contract.real_control_plane import RealControlPlane

Say = Callable[[str], None]
BACKENDS: dict[str, Callable[[Say], Backend]] = {"double": lambda _: Double(), "real": RealControlPlane}
BUILD_LIMIT = 1500
"""Seconds for the case that comes first on the real control plane, and may have to wait for its build."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        calls = getattr(item, "callspec", None)
        if calls is not None and calls.params.get("api") == "real":
            item.add_marker(pytest.mark.timeout(BUILD_LIMIT))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "api" in metafunc.fixturenames:
        metafunc.parametrize("api", sorted(BACKENDS), indirect=True, scope="session")


@pytest_asyncio.fixture(scope="session")
async def api(request: pytest.FixtureRequest) -> AsyncIterator[Api]:
    def say(line: str) -> None:
        reporter = request.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.write_line(line)

    backend = BACKENDS[request.param](say)
    try:
        await backend.start()
    except Missing as missing:
        pytest.skip(f"no real control plane here: {missing}")
    opened = Api(backend)
    try:
        await opened.open()
        yield opened
    finally:
        await opened.close()
        await backend.stop()


@pytest_asyncio.fixture
async def space(api: Api) -> str:
    """A fresh namespace's name, with its default account."""
    name = f"case-{uuid.uuid4().hex[:10]}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    ok(await api.admin.post("/api/v1/namespaces", json=body), 201)

    async def equipped() -> bool:
        return (await api.admin.get(f"/api/v1/namespaces/{name}/serviceaccounts/default")).status_code == 200

    await eventually(equipped)
    return name
