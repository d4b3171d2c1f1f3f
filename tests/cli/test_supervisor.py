"""A process of `up` that dies is started again: soon, and less soon when it dies again and again."""

import sys
import threading
from pathlib import Path

import pytest

from cli.failures import Failure
from cli.supervisor import PAUSE_VARIABLE, Part, Supervisor
from tests.e2e.running import Trilithon

LIVES = 3


def _lives(folder: Path) -> Part:
    """A part that dies at once, after it was started LIVES times at least."""
    part = Part("worker", [sys.executable, "-c", "print('here')"], folder / "worker.log")
    supervisor = Supervisor([part])
    supervisor.start(part)
    watching = threading.Thread(target=supervisor.watch)
    watching.start()
    try:
        Trilithon.until(lambda: part.log.read_text().count("here") >= LIVES, 60, "some lives")
    finally:
        supervisor.request_stop()
        watching.join()
        supervisor.stop()
    return part


def test_the_pause_grows_while_a_process_dies_at_its_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PAUSE_VARIABLE, raising=False)
    assert _lives(tmp_path).pause >= 0.2 * 2 ** (LIVES - 1)


def test_the_longest_pause_is_a_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PAUSE_VARIABLE, "0.2")
    assert _lives(tmp_path).pause == 0.2


def test_a_pause_that_is_no_number_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PAUSE_VARIABLE, "soon")
    with pytest.raises(Failure, match=PAUSE_VARIABLE):
        Supervisor([])
