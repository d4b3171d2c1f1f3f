"""What cannot be seen is waited for and named; what cannot be used is not; and a dead token is told."""

from typing import Any

import pytest

from tests.faults.running import Hurt

pytestmark = [pytest.mark.lab, pytest.mark.crash, pytest.mark.timeout(600)]


def _online(platform: Hurt, node: str, online: bool) -> None:
    platform.control("PUT", f"nodes/{node}", {"online": online})


def test_a_delete_waits_for_a_node_that_is_offline(platform: Hurt) -> None:
    before = platform.state()
    platform.create("waits", workers=2)
    cluster = platform.living("waits")
    # The templates' node stays, so that only the machine's own node is missed.
    node = next(machine.node for machine in cluster.machines if machine.node not in (None, "pve1"))
    _online(platform, node, False)
    platform.run("delete", "cluster/waits", "--yes")
    platform.until(lambda: node in str(platform.job("waits")["waiting"]), 60, f"the job's page to name {node}")
    platform.until(
        lambda: node in platform.condition("waits", "Deleting").get("message", ""), 30, f"the condition to name {node}"
    )
    kept = {vm["vmid"] for vm in platform.state()["vms"]}
    assert {machine.vmid for machine in cluster.machines if machine.node == node} <= kept
    assert platform.machines("waits"), "what cannot be seen is not called gone"
    _online(platform, node, True)
    platform.run("wait", "cluster/waits", "--for=delete", "--timeout=3m")
    assert platform.gone(cluster, before) == []


def test_a_create_places_elsewhere_while_a_node_is_offline(platform: Hurt) -> None:
    _online(platform, "pve2", False)
    try:
        platform.create("elsewhere", workers=1)
        nodes = {machine.node for machine in platform.machines("elsewhere")}
        assert nodes == {"pve1", "pve3"}
    finally:
        _online(platform, "pve2", True)
    platform.delete("elsewhere")


def test_a_token_revoked_before_the_join_leaves_nodes_uninitialised_and_is_told(platform: Hurt) -> None:
    before = platform.state()
    platform.node_times({"boot": 3.0})
    platform.run("apply", "-f", str(platform.small("dumb", workers=0)))
    point = "proxmox.start_machine > proxmox POST nodes/qemu/status/start:lost"
    begun = platform.passed(point)
    platform.until(lambda: platform.passed(point) > begun, 120, "the machine to be started")
    platform.revoke_cluster_token(platform.living("dumb").id)
    told: list[dict[str, Any]] = []

    def refused() -> bool:
        told.append(platform.condition("dumb", "CloudControllerReady"))
        return told[-1].get("reason") == "TokenRefused"

    platform.until(refused, 120, "the condition to say why")
    assert told[-1]["status"] in (False, "False")
    assert "token" in told[-1]["message"]
    cluster = platform.living("dumb")
    (node,) = platform.unfinished_nodes("dumb")
    assert "node.cloudprovider.kubernetes.io/uninitialized" in {taint["key"] for taint in node["spec"]["taints"]}
    assert "providerID" not in node["spec"]
    platform.node_times({"boot": 0.05})
    platform.delete("dumb")
    assert platform.gone(cluster, before) == []
