"""The fixture `api`: every case of this folder runs unchanged on each backend listed in BACKENDS.

With `--wrong` (test_wrong_doubles.py) each heading's cases run on its deliberately wrong doubles instead.
"""

import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from lab.programs.needs import Missing
from tests.contract import backend
from tests.contract.backend import Api, Backend, Double, eventually, ok
from tests.contract.real_control_plane import RealControlPlane
from tests.contract.wrong_doubles import FAULTS, WrongDouble

Say = Callable[[str], None]
BACKENDS: dict[str, Callable[[Say], Backend]] = {"double": lambda _: Double(), "real": RealControlPlane}
BUILD_LIMIT = 1500
"""Seconds for the case that comes first on the real control plane, and may have to wait for its build."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        calls = getattr(item, "callspec", None)
        if calls is not None and calls.params.get("api") == "real":
            item.add_marker(pytest.mark.timeout(BUILD_LIMIT))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--wrong", action="store_true", help="run each heading on its deliberately wrong doubles")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--wrong", default=False):
        backend.PATIENCE = 2.0  # here a case that waits is one that fails


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "api" not in metafunc.fixturenames:
        return
    names = sorted(BACKENDS)
    if metafunc.config.getoption("--wrong", default=False):
        heading = Path(metafunc.module.__file__).stem
        names = [fault.name for fault in FAULTS if fault.heading == heading]
    metafunc.parametrize("api", names, indirect=True, scope="session")


@pytest_asyncio.fixture(scope="session")
async def api(request: pytest.FixtureRequest) -> AsyncIterator[Api]:
    def say(line: str) -> None:
        reporter = request.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.write_line(line)

    wrong = {fault.name: fault for fault in FAULTS}
    chosen = WrongDouble(wrong[request.param]) if request.param in wrong else BACKENDS[request.param](say)
    try:
        await chosen.start()
    except Missing as missing:
        pytest.skip(f"no real control plane here: {missing}")
    opened = Api(chosen)
    try:
        await opened.open()
        yield opened
    finally:
        await opened.close()
        await chosen.stop()


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
