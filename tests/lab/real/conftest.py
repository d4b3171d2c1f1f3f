"""One laboratory of real nodes for the tests that need one; where it cannot run they say why."""

from collections.abc import Iterator

import pytest

from lab.programs.needs import missing_for_nodes
from tests.lab.real.laboratory import Laboratory


@pytest.fixture(scope="session")
def able() -> None:
    """Skips where the machine cannot run real nodes."""
    lacks = missing_for_nodes()
    if lacks:
        pytest.skip(f"no real nodes here: {'; '.join(lacks)}")


@pytest.fixture(scope="module")
def laboratory(able: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    """A laboratory without machines; the tests of a module share it."""
    running = Laboratory(tmp_path_factory.mktemp("real"))
    yield running
    assert running.stop() == 0, running.log.read_text()[-2000:]
