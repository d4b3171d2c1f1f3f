"""The install script, run for real in a folder that stands for the machine's root, against a local artifact address."""

import hashlib
import io
import os
import shutil
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest
import yaml

from bootstrap import boot_data
from bootstrap.install import CLOUD_INIT_OFF, DONE_MARKER, script_path
from domain.clusters import Distribution
from tests.bootstrap.examples import ROLES, SUPERVISORS, VERSIONS, example_input

FETCHERS = ("curl", "wget", "python3")
TOOLS = (
    *("awk", "cat", "chmod", "cp", "cut", "echo", "grep", "mkdir", "mv", "rm", "sed", "sha256sum", "sh", "tar", "gzip"),
    *("uname", "env"),
)


@dataclass
class Artifacts:
    """A local artifact address: files by path, and what was asked for."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def artifacts() -> Iterator[Artifacts]:
    given = Artifacts()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = unquote(self.path)
            given.asked.append(path)
            content = given.files.get(path)
            self.send_response(404 if content is None else 200)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    given.url = f"http://127.0.0.1:{server.server_port}"
    yield given
    server.shutdown()
    server.server_close()
    thread.join()


@dataclass
class MachineRoot:
    """A folder as a machine's root, with the files that cloud-init would have written."""

    root: Path
    distribution: Distribution
    bin: Path

    @property
    def program(self) -> Path:
        return self.root / f"usr/local/bin/{self.distribution.value}"

    @property
    def calls(self) -> list[str]:
        log = self.root / "calls"
        return log.read_text().splitlines() if log.exists() else []

    def run(self) -> subprocess.CompletedProcess[str]:
        script = f"{self.root}{script_path(self.distribution.value)}"
        environment = {"PATH": str(self.bin), "TRILITHON_ROOT": str(self.root)}
        return subprocess.run([script], capture_output=True, text=True, timeout=60, env=environment)

    def has(self, path: str) -> bool:
        return Path(f"{self.root}{path}").exists()


def machine_root(folder: Path, distribution: Distribution, url: str, fetcher: str = "curl") -> MachineRoot:
    """Lays a worker's files under a folder, and a PATH that holds one way to fetch only."""
    data = boot_data(example_input("worker", distribution, artifact_url=url, has_programs=False))
    root, tools = folder / "root", folder / "bin"
    for entry in yaml.safe_load(data.user_data)["write_files"]:
        path = Path(f"{root}{entry['path']}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(entry["content"])
        path.chmod(int(entry["permissions"], 8))
    tools.mkdir()
    for tool in (*TOOLS, fetcher):
        # A machine's Python is the system's, whatever stands first in this session's PATH.
        found = "/usr/bin/python3" if tool == "python3" else shutil.which(tool)
        assert found, f"{tool} is needed"
        (tools / tool).symlink_to(found)
    for tool in ("systemctl", "sysctl"):
        (tools / tool).write_text(f'#!/bin/sh\necho "{tool} $*" >>"$TRILITHON_ROOT/calls"\n')
        (tools / tool).chmod(0o755)
    return MachineRoot(root, distribution, tools)


def program(distribution: Distribution, version: str) -> bytes:
    """A program that knows its version."""
    return f'#!/bin/sh\necho "{distribution.value} version {version} (abc1234)"\n'.encode()


def publish(artifacts: Artifacts, distribution: Distribution, version: str) -> str:
    """Puts a release at the artifact address; returns the path of its folder."""
    content = program(distribution, version)
    name = distribution.value
    if distribution is Distribution.RKE2:
        name = f"rke2.linux-{'amd64' if os.uname().machine == 'x86_64' else 'arm64'}.tar.gz"
        content = tarball({"bin/rke2": content, "lib/systemd/system/rke2-agent.service": b"[Unit]\n"})
    elif os.uname().machine != "x86_64":
        name += "-arm64"
    folder = f"/{distribution.value}/{version}"
    artifacts.files[f"{folder}/{name}"] = content
    sums = f"{'0' * 64}  another-file\n{hashlib.sha256(content).hexdigest()}  {name}\n"
    artifacts.files[f"{folder}/SHA256SUMS"] = sums.encode()
    return folder


def tarball(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o755 if name.startswith("bin/") else 0o644
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def version_of(distribution: Distribution) -> str:
    return VERSIONS[distribution][0]


def unit(distribution: Distribution) -> str:
    return f"{distribution.value}-agent.service"


@pytest.mark.parametrize("distribution", SUPERVISORS)
@pytest.mark.parametrize("role", ROLES)
def test_it_is_a_posix_script(distribution: Distribution, role: str, tmp_path: Path) -> None:
    document = yaml.safe_load(boot_data(example_input(role, distribution)).user_data)
    path = script_path(distribution.value)
    script = next(entry["content"] for entry in document["write_files"] if entry["path"] == path)
    for shell in (["dash", "-n"], ["bash", "--posix", "-n"]):
        done = subprocess.run([*shell, "-c", script], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
    assert not [gap for gap in ("@distribution@", "@file@", "@place@", "@-arch@") if gap in script]


@pytest.mark.parametrize("distribution", SUPERVISORS)
@pytest.mark.parametrize("fetcher", FETCHERS)
def test_programs_are_fetched_and_started(
    distribution: Distribution, fetcher: str, artifacts: Artifacts, tmp_path: Path
) -> None:
    folder = publish(artifacts, distribution, version_of(distribution))
    machine = machine_root(tmp_path, distribution, artifacts.url, fetcher)
    done = machine.run()
    assert done.returncode == 0, done.stderr
    assert artifacts.asked[0] == f"{folder}/SHA256SUMS"
    assert machine.program.stat().st_mode & 0o777 == 0o755
    assert machine.calls[-3:] == [
        "systemctl daemon-reload",
        f"systemctl enable {unit(distribution)}",
        f"systemctl start --no-block {unit(distribution)}",
    ]
    assert machine.has(CLOUD_INIT_OFF)
    assert Path(f"{machine.root}{DONE_MARKER}").read_text() == f"{distribution.value} {version_of(distribution)}\n"
    assert not machine.has("/var/lib/trilithon/fetched")


@pytest.mark.parametrize("distribution", SUPERVISORS)
def test_a_template_with_the_programs_fetches_nothing(
    distribution: Distribution, artifacts: Artifacts, tmp_path: Path
) -> None:
    machine = machine_root(tmp_path, distribution, artifacts.url)
    in_template(machine, version_of(distribution))
    done = machine.run()
    assert done.returncode == 0, done.stderr
    assert artifacts.asked == []
    assert machine.has(DONE_MARKER)


def in_template(machine: MachineRoot, version: str) -> None:
    machine.program.parent.mkdir(parents=True, exist_ok=True)
    machine.program.write_bytes(program(machine.distribution, version))
    machine.program.chmod(0o755)
    units = machine.root / "usr/local/lib/systemd/system"
    units.mkdir(parents=True, exist_ok=True)
    (units / unit(machine.distribution)).touch()


@pytest.mark.parametrize("distribution", SUPERVISORS)
@pytest.mark.parametrize("other", ["v1.35.1", "longer"])
def test_another_version_in_the_template_is_replaced(
    distribution: Distribution, other: str, artifacts: Artifacts, tmp_path: Path
) -> None:
    wanted = version_of(distribution)
    publish(artifacts, distribution, wanted)
    machine = machine_root(tmp_path, distribution, artifacts.url)
    in_template(machine, wanted + "0" if other == "longer" else other)
    assert machine.run().returncode == 0
    assert machine.program.read_bytes() == program(distribution, wanted)


@pytest.mark.parametrize("distribution", SUPERVISORS)
def test_a_wrong_checksum_runs_nothing_and_is_tried_again(
    distribution: Distribution, artifacts: Artifacts, tmp_path: Path
) -> None:
    folder = publish(artifacts, distribution, version_of(distribution))
    good = artifacts.files[f"{folder}/SHA256SUMS"]
    broken = [f"{'1' * 64}{line[64:]}" for line in good.decode().splitlines()]
    artifacts.files[f"{folder}/SHA256SUMS"] = "\n".join(broken).encode()
    machine = machine_root(tmp_path, distribution, artifacts.url)
    done = machine.run()
    assert done.returncode != 0
    assert "checksum" in done.stderr
    assert not machine.program.exists()
    assert not machine.has(DONE_MARKER)
    assert not machine.has(CLOUD_INIT_OFF)
    assert not any("start" in call for call in machine.calls)
    artifacts.files[f"{folder}/SHA256SUMS"] = good
    assert machine.run().returncode == 0
    assert machine.has(DONE_MARKER)


@pytest.mark.parametrize(
    ("lost", "said"), [("SHA256SUMS", "cannot fetch"), ("k3s", "cannot fetch"), ("sums without it", "does not name")]
)
@pytest.mark.parametrize("fetcher", FETCHERS)
def test_a_missing_file_is_named(lost: str, said: str, fetcher: str, artifacts: Artifacts, tmp_path: Path) -> None:
    folder = publish(artifacts, Distribution.K3S, version_of(Distribution.K3S))
    if lost == "sums without it":
        artifacts.files[f"{folder}/SHA256SUMS"] = b"0000  another-file\n"
    else:
        del artifacts.files[next(path for path in artifacts.files if path.startswith(f"{folder}/{lost}"))]
    machine = machine_root(tmp_path, Distribution.K3S, artifacts.url, fetcher)
    done = machine.run()
    assert done.returncode != 0
    assert said in done.stderr
    assert artifacts.url in done.stderr
    assert not machine.has(DONE_MARKER)


@pytest.mark.parametrize("distribution", SUPERVISORS)
def test_running_it_again_changes_nothing(distribution: Distribution, artifacts: Artifacts, tmp_path: Path) -> None:
    publish(artifacts, distribution, version_of(distribution))
    machine = machine_root(tmp_path, distribution, artifacts.url)
    assert machine.run().returncode == 0
    asked = len(artifacts.asked)
    first = snapshot(machine.root)
    assert machine.run().returncode == 0
    assert len(artifacts.asked) == asked
    assert snapshot(machine.root) == first


def snapshot(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file() and path.name != "calls"}


def test_an_interrupted_unpacking_begins_again(artifacts: Artifacts, tmp_path: Path) -> None:
    """The program comes last: a run that was cut leaves none, so the next one fetches again."""
    version = version_of(Distribution.RKE2)
    publish(artifacts, Distribution.RKE2, version)
    machine = machine_root(tmp_path, Distribution.RKE2, artifacts.url)
    left = machine.root / "var/lib/trilithon/fetched/unpacked"
    left.mkdir(parents=True)
    (left / "half").touch()
    machine.program.parent.mkdir(parents=True, exist_ok=True)
    machine.program.with_suffix(".new").write_bytes(b"half")
    assert machine.run().returncode == 0
    assert machine.program.read_bytes() == program(Distribution.RKE2, version)
    assert (machine.root / "usr/local/lib/systemd/system/rke2-agent.service").exists()
