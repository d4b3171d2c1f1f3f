"""`trilithon up` and `reset` say what stands in their way and what to do, before they touch anything."""

import socket
import sys
from pathlib import Path

import pytest

from cli.datafolder import DataFolder, require_free
from cli.failures import ERROR, Failure
from cli.main import run
from cli.platform import Platform
from cli.supervisor import Part
from store import SecretKey


def test_a_second_up_names_the_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = DataFolder(tmp_path)
    with folder.held({"pid": 4711, "url": "http://127.0.0.1:8080"}):
        assert run(["up", "--data", str(tmp_path)]) == ERROR
    told = capsys.readouterr().err
    assert "already runs" in told
    assert "4711" in told
    assert "http://127.0.0.1:8080" in told
    assert "--data" in told


def test_a_folder_that_was_let_go_is_free_again(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    with folder.held({"pid": 1}):
        assert folder.running() == {"pid": 1}
    assert folder.running() is None


def test_a_busy_port_is_named_with_the_option_that_changes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        assert run(["up", "--data", str(tmp_path), "--port", str(port)]) == ERROR
    told = capsys.readouterr().err
    assert f"Port {port}" in told
    assert "--port" in told
    require_free("127.0.0.1", port, "pages and API", "--port")


def test_a_missing_key_beside_a_store_is_never_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = DataFolder(tmp_path)
    folder.store.touch()
    ports = [_free() for _ in range(3)]
    names = ("--port", "--temporal-port", "--temporal-ui-port")
    options = [text for name, port in zip(names, ports, strict=True) for text in (name, str(port))]
    assert run(["up", "--data", str(tmp_path), *options]) == ERROR
    assert "Put your copy of the key back" in capsys.readouterr().err
    assert not folder.key.exists()


def test_reset_refuses_when_the_store_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = DataFolder(tmp_path)
    folder.store.write_text("not a database, and long enough that SQLite says so")
    SecretKey.create(folder.key)
    assert run(["reset", "--data", str(tmp_path), "--yes"]) == ERROR
    assert "cannot be read" in capsys.readouterr().err
    assert folder.store.exists()


def test_reset_of_nothing_is_fine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reset", "--data", str(tmp_path / "none"), "--yes"]) == 0
    assert "nothing" in capsys.readouterr().err


def _free() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_part_that_ends_at_the_start_is_named_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def part(name: str, work: str) -> Part:
        return Part(name, [sys.executable, "-c", work], tmp_path / f"{name}.log")

    waits, dies = "import time; time.sleep(60)", "raise SystemExit('no room for it')"
    parts = [part("Temporal", waits), part("API", waits), part("worker", dies)]
    monkeypatch.setattr(Platform, "_parts", lambda self: parts)
    platform = Platform(DataFolder(tmp_path), 1, 2, 3, None, None)
    with pytest.raises(Failure, match="worker did not start:\nno room for it"):
        platform.start(until=lambda: False)
    platform.supervisor.stop()
    assert not any(one.alive() for one in parts)
