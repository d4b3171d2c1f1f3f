"""The laboratory leaves the machine as it was: after a clean end, and after kill -9 once the next one has started."""

import subprocess
import sys
from pathlib import Path

import pytest

from lab.real.layout import cache_folder
from tests.lab.real.boot_data import HandMade
from tests.lab.real.laboratory import ROOT, SPACE, VERSION, Laboratory
from tests.lab.real.machine_state import MachineState

pytestmark = [pytest.mark.real, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def prepared(able: None) -> None:
    """Everything built: a build leaves files in caches, and nothing else is to be compared with it running."""
    subprocess.run([sys.executable, "-m", "lab.real", "--prepare", "--data", "-"], cwd=ROOT, check=True)


def _server(laboratory: Laboratory) -> None:
    """A machine in the middle of much: kubeadm init with its pods, and a second one that waits for it."""
    made = HandMade(f"{laboratory.net}.50", VERSION)
    laboratory.power_on(51, "server", made.first_server(f"{laboratory.net}.51"))
    laboratory.power_on(61, "worker", made.joiner(f"{laboratory.net}.61"))
    laboratory.wait("agent", lambda: laboratory.agent(51) and laboratory.agent(61))

    def pods() -> bool:
        words = ["sh", "-c", "crictl ps -q | wc -l"]
        return int(laboratory.call("POST", "/machines/51/agent/exec", {"command": words})["out"] or 0) >= 4

    laboratory.wait("pods of the control plane", pods)


def test_nothing_is_left_after_a_clean_end(prepared: None, tmp_path: Path) -> None:
    before = MachineState()
    laboratory = Laboratory(tmp_path / "lab")
    _server(laboratory)
    during = MachineState()
    assert any("trilithon" in item for item in before.changes(during)), "the comparison sees nothing"
    # While it runs, too: no setting, no mount, no link of the machine is touched.
    assert (before.settings, before.mounts, before.links) == (during.settings, during.mounts, during.links)
    assert laboratory.stop() == 0
    assert before.changes(MachineState()) == []
    assert not (cache_folder() / "disks").exists()


def test_nothing_is_left_after_kill_9_and_the_next_start(prepared: None, tmp_path: Path) -> None:
    before = MachineState()
    laboratory = Laboratory(tmp_path / "lab")
    _server(laboratory)
    laboratory.kill()
    left = before.changes(MachineState())
    assert [item for item in left if not item.startswith("groups: new")] == []
    following = Laboratory(tmp_path / "lab")
    assert "removed what a dead laboratory left: m51" in following.log.read_text()
    following.power_on(51, "server", "#cloud-config\n")
    following.wait("agent", lambda: following.agent(51))
    assert following.stop() == 0
    assert before.changes(MachineState()) == []
    assert not (cache_folder() / "disks").exists()


def test_second_laboratory_is_told_who_holds_the_machine(prepared: None, tmp_path: Path) -> None:
    laboratory = Laboratory(tmp_path / "lab")
    try:
        done = subprocess.run(
            [sys.executable, "-m", "lab.real", "--space", str(SPACE + 1), "--data", str(tmp_path / "two")],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 75
        assert f"in use by process {laboratory.process.pid} ({tmp_path / 'lab'}, since" in done.stderr
    finally:
        assert laboratory.stop() == 0
