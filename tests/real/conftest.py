"""One platform on real nodes for all tests of this folder; where it cannot run they say why."""

import sys
from collections.abc import Iterator

import pytest

from lab.programs.needs import missing_for_nodes
from lab.real.layout import cache_folder
from tests.real.hurt import RealWatched
from tests.real.running import ended_with_us, machine_state


@pytest.fixture(scope="session")
def able() -> None:
    """Skips where the machine cannot run real nodes."""
    lacks = missing_for_nodes()
    if lacks:
        pytest.skip(f"no real nodes here: {'; '.join(lacks)}")


@pytest.fixture(scope="session")
def platform(able: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealWatched]:
    """Signed in as the administrator. Its end is the end of everything, and the machine is as it was before."""
    before = machine_state()
    running = RealWatched(tmp_path_factory.mktemp("real"))
    with ended_with_us(running.data):
        try:
            running.start()
            running.login()
            yield running
        finally:
            running.end()
    assert before.changes(machine_state()) == []
    assert not (cache_folder() / "disks").exists()
    log = (running.data / "lab" / "nodes.log").read_text()
    assert "Traceback" not in log, log[-3000:]
    sys.stderr.write("\nafter all real nodes nothing is left on the machine\n")
