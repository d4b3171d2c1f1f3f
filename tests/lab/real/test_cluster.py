"""A real kubeadm cluster of one server and two workers from hand-written boot data, by the control API alone."""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.real.boot_data import HandMade
from tests.lab.real.laboratory import VERSION, Laboratory
from tests.lab.real.workload import NAME, web

pytestmark = [pytest.mark.real, pytest.mark.timeout(1800)]

KUBECTL = Path(sys.executable).with_name("kubectl")
NODES = {51: "server", 61: "worker-a", 62: "worker-b"}


class Cluster:
    """The cluster and a kubectl that reaches it from outside, through the laboratory's proxy."""

    def __init__(self, laboratory: Laboratory, folder: Path) -> None:
        self.laboratory = laboratory
        made = HandMade(f"{laboratory.net}.50", VERSION)
        self._config = folder / "kubeconfig"
        self._config.write_text(made.admin())
        for vmid, name in NODES.items():
            address = f"{laboratory.net}.{vmid}"
            laboratory.power_on(vmid, name, made.first_server(address) if name == "server" else made.joiner(address))

    def kubectl(self, *words: str, given: str = "", check: bool = True) -> str:
        """Runs the program from PyPI, on the machine."""
        done = subprocess.run(
            [str(KUBECTL), "--kubeconfig", str(self._config), *words],
            input=given,
            env={**os.environ, "HTTPS_PROXY": self.laboratory.proxy},
            capture_output=True,
            text=True,
            check=False,
        )
        assert not check or done.returncode == 0, done.stderr
        return done.stdout

    def ready(self) -> set[str]:
        """Names of the nodes that are Ready."""
        said = self.kubectl("get", "nodes", "--no-headers", "--request-timeout=3s", check=False)
        return {line.split()[0] for line in said.splitlines() if line.split()[1] == "Ready"}


@pytest.fixture(scope="module")
def cluster(laboratory: Laboratory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(laboratory, tmp_path_factory.mktemp("cluster"))
    try:
        took = laboratory.wait("three nodes Ready", lambda: made.ready() == set(NODES.values()), 300)
        sys.stderr.write(f"\n1+2 real nodes Ready {took:.1f} s after power-on\n")
        yield made
    finally:
        laboratory.call("POST", "/reset")


def test_nodes_are_the_vms(cluster: Cluster) -> None:
    rows = json.loads(cluster.kubectl("get", "nodes", "-o", "json"))["items"]
    assert {row["metadata"]["name"]: row["status"]["nodeInfo"]["systemUUID"] for row in rows} == {
        name: str(uuid.uuid5(uuid.NAMESPACE_DNS, name)) for name in NODES.values()
    }
    assert {row["status"]["nodeInfo"]["kubeletVersion"] for row in rows} == {VERSION}


def test_service_answers_from_both_nodes_by_its_name(cluster: Cluster) -> None:
    # The controller that makes it may come after the first Ready node; until then pods are refused.
    cluster.laboratory.wait(
        "the default service account",
        lambda: "default" in cluster.kubectl("get", "serviceaccounts", "-o", "name", check=False),
    )
    cluster.kubectl("apply", "-f", "-", given=web(apart=True))
    cluster.kubectl("rollout", "status", "deployment/web", "--timeout=120s")
    cluster.kubectl("-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=120s")
    cluster.kubectl("wait", "pod/client", "--for=condition=Ready", "--timeout=60s")
    rows = json.loads(cluster.kubectl("get", "pods", "-l", "app=web", "-o", "json"))["items"]
    assert len({row["spec"]["nodeName"] for row in rows}) == 2
    wanted, answered = {row["metadata"]["name"] for row in rows}, set()

    def both() -> bool:
        answered.add(cluster.kubectl("exec", "client", "--", "wget", "-qO-", f"http://{NAME}", check=False).strip())
        return answered >= wanted

    cluster.laboratory.wait("an answer of both pods", both, 60)


def test_node_that_reboots_without_its_iso_returns(cluster: Cluster) -> None:
    before = next(row for row in cluster.laboratory.call("GET", "/state")["machines"] if row["vmid"] == 61)["boot_id"]
    answer = cluster.laboratory.call("POST", "/machines/61/reboot", {"iso": None})
    assert answer["boot_id"] != before

    def back() -> bool:
        row = json.loads(cluster.kubectl("get", "node", "worker-a", "-o", "json"))
        ready = next(item["status"] for item in row["status"]["conditions"] if item["type"] == "Ready")
        if ready != "True" or not cluster.laboratory.agent(61):
            return False
        return bool(row["status"]["nodeInfo"]["bootID"]) and "active" in cluster.laboratory.run(
            61, "sh", "-c", "systemctl is-active kubelet || true"
        )

    cluster.laboratory.wait("the node's return", back, 120)
    assert not (cluster.laboratory.run(61, "sh", "-c", "ls /var/lib/cloud/seed")).strip()
