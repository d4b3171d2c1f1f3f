"""What `up` tells a person to type first in another terminal."""

import subprocess
import sys
from pathlib import Path

import pytest

from cli.installation import ways_to_the_command

ROOT = Path(__file__).resolve().parents[2]


def test_the_lines_make_the_command_and_the_examples_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    lines = [*ways_to_the_command(), "test -f examples/edge-k3s.yaml", "command -v trilithon"]
    done = subprocess.run(["bash", "-c", " && ".join(lines)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()) == Path(sys.executable).with_name("trilithon")


def test_an_environment_that_is_active_already_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    assert ways_to_the_command() == [f"cd {ROOT}"]
