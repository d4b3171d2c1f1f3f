"""kubeadm's boot script and the script of kube-vip's role, run for real in a folder that stands for the machine's root.

kubeadm, the kubelet, kubectl, containerd and systemctl are stand-ins that note how they are called; `reset` takes away
what the real one takes away (kubernetes cmd/kubeadm/app/cmd/phases/reset/cleanupnode.go).
"""

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from bootstrap import boot_data
from bootstrap.install import CLOUD_INIT_OFF, DONE_MARKER, script_path
from bootstrap.kubeadm_node import API_SERVED, ROLE_SCRIPT, SEED
from domain.clusters import Distribution
from domain.diagnosis import Evidence, diagnose
from tests.bootstrap.examples import ROLES, VERSIONS, example_input

VERSION = VERSIONS[Distribution.KUBEADM][0]
TOOLS = (
    *("cat", "chmod", "cmp", "cp", "cut", "echo", "env", "grep", "mkdir", "mv", "rm", "sed", "sh", "sleep", "tail"),
    *("tee", "timeout", "touch", "tr"),
)
FAKES = {
    "kubeadm": r"""
case $1 in
    version) cat "$TRILITHON_ROOT/says/kubeadm-version" ;;
    config) printf 'registry.k8s.io/%s\n' "kube-apiserver:$5" pause:3.10.2 etcd:3.6.8-0 ;;
    reset)
        rm -rf "$TRILITHON_ROOT/etc/kubernetes/pki" "$TRILITHON_ROOT/etc/kubernetes/manifests"
        rm -f "$TRILITHON_ROOT"/etc/kubernetes/*.conf
        ;;
    init | join)
        for file in pki/ca.key pki/etcd/ca.key manifests/kube-vip.yaml; do
            if [ -s "$TRILITHON_ROOT/etc/kubernetes/$file" ]; then echo "$file" >>"$TRILITHON_ROOT/found"; fi
        done
        if [ -e "$TRILITHON_ROOT/says/failure" ]; then cat "$TRILITHON_ROOT/says/failure"; exit 1; fi
        echo "kubelet" >"$TRILITHON_ROOT/etc/kubernetes/kubelet.conf"
        ;;
esac
""",
    "kubelet": 'cat "$TRILITHON_ROOT/says/kubelet-version"\n',
    "containerd": r"""
case $1 in
    --version) cat "$TRILITHON_ROOT/says/containerd-version" ;;
    config) cat "$TRILITHON_ROOT/says/containerd-dump" 2>/dev/null ;;
esac
""",
    "kubectl": '[ ! -e "$TRILITHON_ROOT/says/refused" ] || { cat "$TRILITHON_ROOT/says/refused"; exit 1; }\n',
    "systemctl": '! grep -qxF -- "$*" "$TRILITHON_ROOT/says/systemctl-fails" 2>/dev/null\n',
    "modprobe": "exit 1\n",
    "sysctl": "exit 1\n",
    "swapoff": "",
}


@dataclass
class Node:
    """A folder as a machine's root, with the files that cloud-init would have written."""

    root: Path
    bin: Path

    def path(self, path: str) -> Path:
        return Path(f"{self.root}{path}")

    @property
    def calls(self) -> list[str]:
        log = self.root / "calls"
        return log.read_text().splitlines() if log.exists() else []

    @property
    def kubeadm(self) -> list[str]:
        """How kubeadm was called, apart from questions."""
        return [call for call in self.calls if call.split()[:2][0] == "kubeadm" and call.split()[1] in DOES]

    def says(self, name: str, text: str) -> None:
        (self.root / "says" / name).write_text(text + "\n")

    def run(self, script: str = script_path("kubeadm")) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": str(self.bin), "TRILITHON_ROOT": str(self.root)}
        return subprocess.run([self.path(script)], capture_output=True, text=True, timeout=60, env=environment)


DOES = ("init", "join", "reset")
MakeNode = Callable[[str], Node]


@pytest.fixture
def make(tmp_path: Path) -> MakeNode:
    def node(role: str) -> Node:
        root, tools = tmp_path / "root", tmp_path / "bin"
        data = boot_data(example_input(role, Distribution.KUBEADM))
        for entry in yaml.safe_load(data.user_data)["write_files"]:
            path = Path(f"{root}{entry['path']}")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(entry["content"])
            path.chmod(int(entry["permissions"], 8))
        tools.mkdir()
        for tool in TOOLS:
            found = shutil.which(tool)
            assert found, f"{tool} is needed"
            (tools / tool).symlink_to(found)
        for tool, body in FAKES.items():
            (tools / tool).write_text(f'#!/bin/sh\necho "{tool} $*" >>"$TRILITHON_ROOT/calls"\n{body}')
            (tools / tool).chmod(0o755)
        for folder in ("says", "proc", "etc/kubernetes"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        (root / "proc/swaps").write_text("Filename\tType\tSize\tUsed\tPriority\n")
        made = Node(root, tools)
        made.says("kubeadm-version", VERSION)
        made.says("kubelet-version", f"Kubernetes {VERSION}")
        made.says("containerd-version", "containerd github.com/containerd/containerd 1.7.24~ds1 1.7.24~ds1-6")
        return made

    return node


@pytest.mark.parametrize("role", ROLES)
def test_they_are_posix_scripts(make: MakeNode, role: str) -> None:
    node = make(role)
    scripts = list(node.path("/usr/local/lib/trilithon").iterdir())
    assert len(scripts) == (2 if role == "first-server" else 1)
    for script in scripts:
        for shell in (["dash", "-n"], ["bash", "--posix", "-n"]):
            done = subprocess.run([*shell, str(script)], capture_output=True, text=True)
            assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("role", "called"),
    [
        ("first-server", "kubeadm init --skip-token-print --config {seed}/kubeadm.yaml --v=1"),
        ("joining-server", "kubeadm join --config {seed}/kubeadm.yaml --v=1"),
        ("worker", "kubeadm join --config {seed}/kubeadm.yaml --v=1"),
    ],
)
def test_a_machine_becomes_a_node(make: MakeNode, role: str, called: str) -> None:
    node = make(role)
    done = node.run()
    assert done.returncode == 0, done.stderr
    assert node.kubeadm == [called.format(seed=f"{node.root}{SEED}")]
    found = node.root / "found"
    seen = found.read_text().splitlines() if found.exists() else []
    assert seen == ([] if role == "worker" else ["pki/ca.key", "pki/etcd/ca.key", "manifests/kube-vip.yaml"])
    starts_role = "systemctl restart --no-block trilithon-kube-vip-role.service" in node.calls
    assert starts_role == (role == "first-server")
    assert "systemctl enable kubelet" in node.calls
    assert node.path(CLOUD_INIT_OFF).exists()
    assert node.path(DONE_MARKER).read_text() == f"kubeadm {VERSION}\n"


def test_after_success_the_secrets_are_in_kubeadms_own_places_only(make: MakeNode) -> None:
    node = make("first-server")
    assert node.run().returncode == 0
    assert not node.path(f"{SEED}/pki").exists()
    assert not node.path(f"{SEED}/kubeadm.yaml").exists()
    key = node.path("/etc/kubernetes/pki/etcd/ca.key")
    assert key.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("role", ROLES)
def test_running_it_again_changes_nothing(make: MakeNode, role: str) -> None:
    node = make(role)
    assert node.run().returncode == 0
    before, calls = snapshot(node.root), node.calls
    assert node.run().returncode == 0
    assert snapshot(node.root) == before
    assert node.calls == calls


def snapshot(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("role", ROLES)
def test_a_failed_try_is_cleaned_and_tried_again(make: MakeNode, role: str) -> None:
    node = make(role)
    node.says("failure", "[preflight] Running pre-flight checks\nerror: error execution phase preflight: no luck")
    done = node.run()
    verb = "init" if role == "first-server" else "join"
    assert done.returncode != 0
    assert done.stderr.splitlines()[-1] == (
        f"trilithon: kubeadm {verb} failed and is tried again: error: error execution phase preflight: no luck "
    )
    assert not node.path(DONE_MARKER).exists()
    assert not node.path(CLOUD_INIT_OFF).exists()
    (node.root / "says/failure").unlink()
    (node.root / "found").unlink(missing_ok=True)
    assert node.run().returncode == 0
    assert [call.split()[1] for call in node.kubeadm] == [verb, "reset", verb]
    assert "--force --cri-socket unix:///run/containerd/containerd.sock" in node.kubeadm[1]
    # What reset took away was laid into place again before the next try.
    assert (node.root / "found").exists() == (role != "worker")
    assert node.path(DONE_MARKER).exists()


def test_what_an_api_server_has_served_is_never_wiped(make: MakeNode) -> None:
    node = make("first-server")
    node.says("failure", "error: error execution phase addon/coredns: no luck")
    assert node.run().returncode != 0
    node.path(API_SERVED).touch()
    (node.root / "says/failure").unlink()
    assert node.run().returncode == 0
    assert [call.split()[1] for call in node.kubeadm] == ["init", "init"]
    assert "DirAvailable--var-lib-etcd" in node.kubeadm[1]
    assert "Port-6443" in node.kubeadm[1]


def test_a_worker_that_has_joined_is_not_joined_twice(make: MakeNode) -> None:
    """Power was cut between kubeadm's end and the marker."""
    node = make("worker")
    node.path("/var/lib/trilithon").mkdir(parents=True)
    node.path("/var/lib/trilithon/kubeadm.begun").touch()
    node.path("/etc/kubernetes/kubelet.conf").write_text("kubelet")
    assert node.run().returncode == 0
    assert node.kubeadm == []
    assert node.path(DONE_MARKER).exists()


@pytest.mark.parametrize(
    ("said", "chosen"),
    [
        ("containerd github.com/containerd/containerd 1.7.24~ds1 1.7.24~ds1-6", 1),
        ("containerd containerd.io 1.7.28 b98a3aace656320842a23f4a392a33f46af97866", 1),
        ("containerd github.com/containerd/containerd/v2 v2.1.3 1.7.0", 2),
        ("containerd github.com/containerd/containerd/v2 2.3.0~ds1 2.3.0~ds1-1", 2),
    ],
)
def test_containerd_is_configured_by_its_version(make: MakeNode, said: str, chosen: int) -> None:
    node = make("worker")
    node.says("containerd-version", said)
    assert node.run().returncode == 0
    text = node.path("/etc/containerd/config.toml").read_text()
    assert f"version = {chosen + 1}\n" in text
    assert '"registry.k8s.io/pause:3.10.2"' in text
    assert "SystemdCgroup = true" in text
    assert "@" not in text
    assert "systemctl restart containerd" in node.calls


def test_containerd_is_left_alone_when_nothing_changes(make: MakeNode) -> None:
    node = make("worker")
    node.says("failure", "error: no luck")
    assert node.run().returncode != 0
    assert node.run().returncode != 0
    assert node.calls.count("systemctl restart containerd") == 1
    assert node.calls.count("systemctl start containerd") == 1


@pytest.mark.parametrize("lacks", ["nothing", "SystemdCgroup = true", "/opt/cni/bin", "registry.k8s.io/pause:3.10.2"])
def test_a_templates_own_containerd_stays_when_it_fits(make: MakeNode, lacks: str) -> None:
    node = make("worker")
    node.says(
        "containerd-dump",
        """\
bin_dir = "/opt/cni/bin"
sandbox_image = "registry.k8s.io/pause:3.10.2"
SystemdCgroup = true
""".replace(lacks, "another"),
    )
    assert node.run().returncode == 0
    kept = not node.path("/etc/containerd/config.toml").exists()
    assert kept == (lacks == "nothing")
    assert f"systemctl {'start' if kept else 'restart'} containerd" in node.calls


def test_swap_is_turned_off_where_there_is_some(make: MakeNode) -> None:
    node = make("worker")
    (node.root / "proc/swaps").write_text("Filename\tType\n/dev/sda2\tpartition\t1\t0\t-2\n")
    assert node.run().returncode == 0
    assert "swapoff -a" in node.calls
    assert "systemctl mask swap.target" in node.calls


def test_swap_of_others_is_not_touched(make: MakeNode) -> None:
    node = make("worker")
    assert node.run().returncode == 0
    assert "swapoff -a" not in node.calls


WRONG: dict[str, tuple[Callable[[Node], object], str]] = {
    "no kubeadm": (lambda node: (node.bin / "kubeadm").unlink(), "the template does not hold kubeadm"),
    "no kubelet": (lambda node: (node.bin / "kubelet").unlink(), "the template does not hold kubelet"),
    "no kubectl": (lambda node: (node.bin / "kubectl").unlink(), "the template does not hold kubectl"),
    "no containerd": (lambda node: (node.bin / "containerd").unlink(), "the template does not hold containerd"),
    "other kubeadm": (
        lambda node: node.says("kubeadm-version", "v1.35.4"),
        f"the template holds kubeadm v1.35.4, wanted is {VERSION}",
    ),
    "other kubelet": (
        lambda node: node.says("kubelet-version", "Kubernetes v1.36.30"),
        f"the template holds kubelet v1.36.30, wanted is {VERSION}",
    ),
    "no etcd key": (lambda node: node.path(f"{SEED}/pki/etcd/ca.key").unlink(), "the boot data lacks pki/etcd/ca.key"),
    "empty key": (lambda node: node.path(f"{SEED}/pki/sa.key").write_text(""), "the boot data lacks pki/sa.key"),
    "containerd": (
        lambda node: node.says("systemctl-fails", "restart containerd"),
        "containerd does not start",
    ),
    "no unit": (
        lambda node: node.says("systemctl-fails", "enable kubelet"),
        "there is no unit kubelet.service",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_in_the_last_line(make: MakeNode, name: str) -> None:
    change, text = WRONG[name]
    node = make("first-server")
    change(node)
    done = node.run()
    assert done.returncode != 0
    assert done.stderr.splitlines()[-1] == f"trilithon: {text}"
    assert node.kubeadm == []
    assert not node.path(DONE_MARKER).exists()
    found = diagnose(Evidence(powered_on=True, agent=True, cloud_init="done", journal=(f"trilithon: {text}",)), 30.0)
    assert text in found.text
    assert found.final == (name not in ("containerd",))


def test_the_role_waits_for_the_machines_own_api_server(make: MakeNode) -> None:
    node = make("first-server")
    node.path("/var/lib/trilithon").mkdir(parents=True)
    node.says("refused", 'Error: namespaces "kube-system" not found')
    environment = {"PATH": str(node.bin), "TRILITHON_ROOT": str(node.root)}
    with subprocess.Popen([node.path(ROLE_SCRIPT)], stdout=subprocess.PIPE, text=True, env=environment) as running:
        try:
            assert until(lambda: node.path("/var/lib/trilithon").exists())
            assert node.calls == []
            node.path("/etc/kubernetes/super-admin.conf").write_text("master")
            assert until(lambda: bool(node.calls))
            assert not node.path(API_SERVED).exists()
            (node.root / "says/refused").unlink()
            out, _ = running.communicate(timeout=30)
        finally:
            running.kill()
    assert running.returncode == 0
    assert out == "trilithon: kube-vip has its role\n"
    assert node.path(API_SERVED).exists()
    assert "--server https://192.0.2.51:6443 " in node.calls[-1]
    assert f"-f {node.root}/etc/trilithon/trilithon-kube-vip.yaml" in node.calls[-1]


def until(seen: Callable[[], bool], limit: float = 20.0) -> bool:
    """Looks again and again; true as soon as it is seen."""
    end = time.monotonic() + limit
    while not seen():
        if time.monotonic() > end:
            return False
        os.sched_yield()
        time.sleep(0.01)
    return True
