"""A process of `up` that dies is started again: soon, and less soon when it dies again and again.

A program that `up` has loaded begins as a copy of it, and is as much a process of its own as a command.
"""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from cli.failures import Failure
from cli.supervisor import PAUSE_VARIABLE, Part, Supervisor
from tests.e2e.running import ROOT, Trilithon

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


COPY = """
import os, signal, sys, time
from pathlib import Path
from cli.supervisor import Part
held = open(sys.argv[1] + "/lock", "w")
def main():
    print(Path("/proc/self/comm").read_text().strip(), os.environ["GREETING"], held.fileno() in map(int, open_files()))
    print("to stderr", file=sys.stderr, flush=True)
    sys.stdout.flush()
    if sys.argv[2] == "wait":
        time.sleep(600)
    sys.exit(3 if sys.argv[2] == "code" else "no settings" if sys.argv[2] == "text" else None)
def open_files():
    return [name for name in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + name)]
signal.signal(signal.SIGTERM, lambda *_: print("the parent's handler"))
print("not twice")
part = Part("Worker", ["false"], Path(sys.argv[1], "log"), {"GREETING": "hello"}, main=main)
part.start()
print(part.process.pid, flush=True)
print(part.process.wait(60), flush=True)
"""


def _copy(folder: Path, how: str) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, "-c", COPY, str(folder), how], cwd=ROOT, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize(("how", "code", "last"), [("code", "3", ""), ("text", "1", "no settings\n"), ("end", "0", "")])
def test_a_loaded_program_begins_as_a_copy(tmp_path: Path, how: str, code: str, last: str) -> None:
    said, _ = _copy(tmp_path, how).communicate(timeout=60)
    first, _pid, exit_code = said.split("\n")[:3]
    assert (first, exit_code) == ("not twice", code), "what the parent had not written yet is written once"
    log = (tmp_path / "log").read_text()
    assert sorted(log.splitlines(keepends=True)) == sorted(
        ["worker hello False\n", "to stderr\n", *([last] if last else [])]
    ), "name, variables, no file of the parent's, both outputs"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_copy_ends_by_signal_and_with_its_parent(tmp_path: Path, number: signal.Signals) -> None:
    parent = _copy(tmp_path, "wait")
    assert parent.stdout is not None
    parent.stdout.readline()
    copy = int(parent.stdout.readline())
    Trilithon.until(lambda: "to stderr" in (tmp_path / "log").read_text(), 60, "the copy to run")
    if number == signal.SIGTERM:
        os.kill(copy, number)
        assert parent.stdout.readline() == f"{-signal.SIGTERM}\n", "the parent's handler is not the copy's"
    else:
        parent.kill()
        Trilithon.until(lambda: not Path(f"/proc/{copy}").exists(), 60, "the copy to end")
    parent.communicate(timeout=60)
