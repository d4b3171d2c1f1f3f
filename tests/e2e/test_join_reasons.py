"""A machine that does not join: the job says why in the machine's own words, asks a person, and goes on when told.

What the job page says comes only from what a real node offers: probes of its API, guest agent, cloud-init, journal.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.failures import ERROR
from tests.e2e.running import QUICK_LIMITS, WAY, Trilithon, trilithon

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trilithon]:
    """A platform that asks a person after eight seconds without a node."""
    limits = {**QUICK_LIMITS, "boot": 8.0}
    folder = tmp_path_factory.mktemp("impatient")
    with trilithon(folder, {"TRILITHON_LIMITS": json.dumps(limits)}) as running:
        running.login()
        yield running


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ({"never_agent": True, "kubelet_stuck": True}, ("guest agent has not answered", "console in Proxmox VE")),
        (
            {"supervisor_exits": "flag provided but not defined: -no-such-setting"},
            ("refuses its configuration file", "no-such-setting"),
        ),
        ({"no_network": True}, ("does not answer",)),
    ],
    ids=["silent", "refused-setting", "no-network"],
)
def test_the_reason_is_on_the_job_and_retry_goes_on(
    impatient: Trilithon, fault: dict[str, Any], told: tuple[str, ...]
) -> None:
    nodes = impatient.lab["nodes"]
    WAY.post(f"{nodes}/faults", json=fault, timeout=10).raise_for_status()
    impatient.run("apply", "-f", str(impatient.manifest("edge-k3s.yaml")))

    waited = impatient.run("wait", "cluster/edge", "--for=condition=Available", "--timeout=2m", check=False)
    assert waited.returncode == ERROR
    assert "needs a decision" in waited.stderr
    job = _job(impatient)
    assert job["phase"] == "awaiting-decision"
    for words in told:
        assert words in job["error"], job["error"]
    assert f"trilithon retry job/{job['id']}" in waited.stderr
    available = next(c for c in impatient.cluster("edge")["conditions"] if c["type"] == "Available")
    assert (available["status"], available["reason"]) == (False, "AwaitingDecision")

    WAY.delete(f"{nodes}/faults", timeout=10).raise_for_status()
    vmid = _machines(impatient)[0]["vmid"]
    _power_cycle(impatient, vmid)
    impatient.run("retry", f"job/{job['id']}")
    impatient.run("wait", "cluster/edge", "--for=condition=Available", "--timeout=2m")
    assert _job(impatient)["id"] == job["id"], "the same run went on"
    assert _machines(impatient)[0]["vmid"] == vmid, "and with the same machine"
    impatient.run("delete", "cluster/edge", "--yes", "--wait")


def test_abort_leaves_what_was_made_and_a_delete_removes_it(impatient: Trilithon, tmp_path: Path) -> None:
    before = impatient.state()
    WAY.post(f"{impatient.lab['nodes']}/faults", json={"kubelet_stuck": True}, timeout=10).raise_for_status()
    impatient.run("apply", "-f", str(impatient.manifest("edge-k3s.yaml")))
    assert impatient.run("wait", "cluster/edge", "--for=condition=Available", check=False).returncode == ERROR
    impatient.run("abort", "cluster/edge")
    impatient.until(lambda: _job(impatient)["phase"] == "aborted", 30, "the job to be aborted")
    assert impatient.cluster("edge")["status"] == "Failed"
    assert len(_machines(impatient)) == 1

    WAY.delete(f"{impatient.lab['nodes']}/faults", timeout=10).raise_for_status()
    impatient.run("delete", "cluster/edge", "--yes", "--wait")
    assert impatient.state() == before


def _job(running: Trilithon) -> dict[str, Any]:
    found = running.cluster("edge")["job"]
    return dict(json.loads(running.run("get", f"job/{found['id']}", "-o", "json").stdout))


def _machines(running: Trilithon) -> list[dict[str, Any]]:
    return list(json.loads(running.run("get", "machines", "--cluster", "edge", "-o", "json").stdout)["items"])


def _power_cycle(running: Trilithon, vmid: int) -> None:
    """What an administrator does who has mended the cause: resets the VM."""
    base = f"{running.lab['nodes']}/machines/{vmid}"
    WAY.post(f"{base}/reboot", json={}, timeout=10).raise_for_status()
