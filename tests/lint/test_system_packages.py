"""What `make` says and does on a machine that lacks a program: seen with stand-ins for the system's own commands."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / ".ci" / "system-packages"


class Machine:
    """A search path with nothing on it but what is put there; apt-get writes down what it is asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked = folder / "asked"
        for name in ("bash", "sort", "head", "printf", "sed"):
            (folder / name).symlink_to(str(shutil.which(name)))
        self.has("python3", "exit 0")
        self.has("apt-get", f'echo "$*" >>{self.asked}')
        self.user(0)

    def has(self, name: str, does: str = "exit 0") -> None:
        (self.folder / name).write_text(f"#!{shutil.which('bash')}\n{does}\n")
        (self.folder / name).chmod(0o755)

    def node(self, version: str) -> None:
        self.has("node", f"echo {version}")

    def offers_node(self, version: str) -> None:
        self.has("apt-cache", f"printf 'nodejs:\\n  Installed: (none)\\n  Candidate: {version}+dfsg-1\\n'")

    def user(self, number: int) -> None:
        self.has("id", f"echo {number}")

    def look(self, what: str) -> "subprocess.CompletedProcess[str]":
        environment = {**os.environ, "PATH": str(self.folder)}
        environment.pop("PYTHON", None)
        return subprocess.run(
            [str(self.folder / "bash"), str(SCRIPT), what],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def installed(self) -> list[str]:
        asked = self.asked.read_text().splitlines() if self.asked.exists() else []
        return [word for line in asked if line.startswith("install") for word in line.split()[1:] if word[0] != "-"]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_machine_with_python_and_node_lacks_nothing_for_up(machine: Machine) -> None:
    machine.node("v20.20.2")
    machine.has("npm")
    done = machine.look("up")
    assert (done.returncode, done.stdout + done.stderr, machine.installed()) == (0, "", [])


@pytest.mark.parametrize("found", ["v18.20.4", "v20.9.0"])
def test_a_node_that_is_too_old_is_named_with_its_version(machine: Machine, found: str) -> None:
    machine.node(found)
    machine.has("npm")
    machine.offers_node("18.20.4")
    done = machine.look("up")
    assert done.returncode == 1
    assert f"found: {found}" in done.stderr
    assert "bring 18.20.4, which is too old" in done.stderr
    assert machine.installed() == []


def test_root_gets_node_where_the_system_has_one_that_is_new_enough(machine: Machine) -> None:
    machine.offers_node("20.19.2")
    assert machine.look("up").returncode == 0
    assert machine.installed() == ["nodejs", "npm"]


def test_an_ordinary_user_is_told_what_to_install(machine: Machine) -> None:
    machine.user(1000)
    machine.offers_node("20.19.2")
    machine.has("python3", "exit 1")
    done = machine.look("up")
    assert done.returncode == 1
    assert "python3-venv nodejs npm" in done.stderr
    assert not machine.asked.exists()


def test_programs_that_only_tests_need_are_no_condition_of_up(machine: Machine) -> None:
    machine.node("v22.12.0")
    machine.has("npm")
    assert machine.look("up").returncode == 0
    assert machine.look("tests").returncode == 0
    assert {"chromium", "cloud-init", "procps", "git"} <= set(machine.installed())
