"""One simulated Proxmox VE for all API tests; a fresh copy of a filled store for each."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.api.world import PYTHON, Base, Lab, World, build, start_lab, stop_lab


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    if not PYTHON.exists():
        pytest.fail("make the lab's own environment first: make setup")
    process, lab = start_lab("127.0.72")
    yield lab
    stop_lab(process, lab)


@pytest.fixture(scope="session")
async def base(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Base:
    """A store with clusters, and everybody signed in."""
    return await build(lab, tmp_path_factory.mktemp("base"), clusters=True)


@pytest.fixture(scope="session")
async def empty_base(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Base:
    """A store with the site and no cluster."""
    return await build(lab, tmp_path_factory.mktemp("empty"), clusters=False)


@pytest.fixture
async def world(base: Base, tmp_path: Path) -> AsyncIterator[World]:
    async with base.copy(tmp_path) as world:
        yield world


@pytest.fixture
async def empty(empty_base: Base, tmp_path: Path) -> AsyncIterator[World]:
    async with empty_base.copy(tmp_path) as world:
        yield world
