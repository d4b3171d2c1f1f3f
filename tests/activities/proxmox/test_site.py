"""Watching a site, checking it and trying it out, on the simulated datacenter."""

import asyncio

import pytest
from temporalio.exceptions import ApplicationError

from clients.proxmox import ApiToken, ProxmoxClient, Trust, connect
from clients.proxmox.check import CheckLine, Severity, site_check
from clients.proxmox.setup import setup_lines
from domain.conditions import ConditionType
from domain.contracts.activities import SiteRef
from domain.contracts.jobs import SiteInput
from domain.sites import Template
from tests.activities.proxmox.conftest import K3S, Build, Datacenter, World, a_site


async def site_lines(datacenter: Datacenter, **changes: object) -> list[CheckLine]:
    site = a_site(datacenter, **changes)
    client = connect(site, datacenter.secret.encode(), timeout=10)
    template = Template.model_validate(
        {"id": "t", "site_id": site.id, "distribution": "k3s", "version": K3S, "nodes": {"pve1": 9002}}
    )
    try:
        return await site_check(client, site, [template])
    finally:
        await client.aclose()


async def test_the_lab_is_a_site_without_findings(datacenter: Datacenter) -> None:
    lines = await site_lines(datacenter)
    assert [line for line in lines if line.severity is Severity.ERROR] == []
    assert {"version", "quorum", "privileges", "storage", "bridge", "template", "vm-ids", "role", "pool"} <= {
        line.code for line in lines if line.severity is Severity.OK
    }


async def test_the_check_writes_nothing(datacenter: Datacenter) -> None:
    mark = datacenter.mark()
    await site_lines(datacenter)
    assert datacenter.calls(mark) == []


async def test_what_is_not_there_is_named(datacenter: Datacenter) -> None:
    lines = await site_lines(
        datacenter,
        storages=("shared", "nowhere"),
        bridges=("vmbr0", "vmbr7"),
        iso_storage="fast",
        workload_pool="other",
        vmid_first=9000,
        vmid_last=9099,
        endpoints=(*datacenter.endpoints, "https://127.0.72.9:1"),
    )
    found = {(line.code, line.subject) for line in lines if line.severity is not Severity.OK}
    assert ("storage", "nowhere") in found
    assert ("storage", "fast") in found
    assert ("bridge", "vmbr7") in found
    assert ("vm-ids", "9000-9099") in found
    assert ("endpoint", "https://127.0.72.9:1") in found
    missing = [line for line in lines if line.privilege == "VM.Allocate"]
    assert [line.path for line in missing] == ["/pool/other"]
    make, _, change = missing[0].commands[0].partition(" 2>/dev/null || ")
    assert make.removeprefix("pveum role add") == change.removeprefix("pveum role modify")
    assert missing[0].commands[1] == "pveum acl modify /pool/other --users trilithon@pve --roles TrilithonPlatform"


async def test_an_unknown_token_and_a_foreign_certificate_are_one_finding_each(datacenter: Datacenter) -> None:
    site = a_site(datacenter)
    wrong = ProxmoxClient(site.endpoints, ApiToken(site.token_id, "wrong-secret"), Trust(fingerprint=site.fingerprint))
    lines = await site_check(wrong, site)
    assert [(line.severity, line.code) for line in lines] == [(Severity.ERROR, "token")]
    strange = ProxmoxClient(site.endpoints, ApiToken(site.token_id, datacenter.secret), Trust(fingerprint="ab" * 32))
    lines = await site_check(strange, site)
    assert [(line.severity, line.code) for line in lines] == [(Severity.ERROR, "reachable")]
    assert "wrong-secret" not in repr(lines)
    for client in (wrong, strange):
        await client.aclose()


def test_the_set_up_lines_hold_every_role_and_grant(datacenter: Datacenter) -> None:
    lines = setup_lines(a_site(datacenter))
    assert lines[0].startswith("pveum user add trilithon@pve")
    assert lines[-1] == "pveum user token add trilithon@pve platform --privsep 0"
    made = {line.split()[3] for line in lines if line.startswith("pveum role add")}
    granted = {line.split("--roles ")[1].split()[0] for line in lines if "acl modify" in line}
    assert granted <= made
    assert {"TrilithonCluster", "TrilithonClusterStorage"} <= made


async def watch(world: World) -> None:
    world.activities.watch_for, world.activities.watch_every, world.activities.patience = 0.2, 0.05, 1
    await world.activities.watch_site(SiteInput(site_id=world.site.id, site_name="lab"))


async def reachable(world: World) -> tuple[bool | None, str]:
    cluster = await world.store.clusters.get(world.cluster.id)
    (found,) = (item for item in cluster.conditions if item.type is ConditionType.SITE_REACHABLE)
    return found.status, found.message


async def test_watching_names_an_offline_node_and_its_machines(world: World) -> None:
    (machine,) = world.machines
    await world.groundwork()
    await world.create(machine)
    node = (await world.fresh(machine)).node
    await watch(world)
    assert await reachable(world) == (True, "")
    world.datacenter.control("PUT", f"nodes/{node}", {"online": False})
    await watch(world)
    assert await reachable(world) == (True, f"node {node} is offline")
    assert (await world.fresh(machine)).message == f"node {node} is offline"
    world.datacenter.control("PUT", f"nodes/{node}", {"online": True})
    await watch(world)
    assert await reachable(world) == (True, "")
    assert (await world.fresh(machine)).message == ""


async def test_watching_writes_only_changes(world: World) -> None:
    await watch(world)
    seq = (await world.store.changes_after(0))[-1].seq
    await watch(world)
    assert await world.store.changes_after(seq) == []


async def test_watching_tells_when_nothing_answers_and_when_the_site_is_gone(world: World) -> None:
    world.datacenter.fault({"status": 500, "text": "cannot"}, path="/cluster/resources")
    await watch(world)
    status, message = await reachable(world)
    assert status is False
    assert "cannot" in message
    with pytest.raises(ApplicationError) as gone:
        await world.activities.watch_site(SiteInput(site_id="nowhere", site_name="nowhere"))
    assert (gone.value.type, gone.value.non_retryable) == ("SiteGone", True)


async def test_a_site_whose_token_is_lost_is_not_gone(world: World) -> None:
    await world.store.secrets.delete(f"site/{world.site.id}", "token")
    await watch(world)
    status, message = await reachable(world)
    assert status is False
    assert "trilithon site rotate-token" in message


async def test_the_self_test_leaves_nothing(build: Build, caplog: pytest.LogCaptureFixture) -> None:
    world = await build()
    before = world.datacenter.state()
    with caplog.at_level("INFO", logger="activities.journal"):
        await world.activities.self_test(SiteRef(job_id="job-1", site_id=world.site.id))
    assert world.datacenter.state() == before
    assert "Self-test passed" in caplog.text
    assert await world.store.secrets.names(f"site/{world.site.id}") == ["token"]


async def test_a_failing_self_test_says_so_and_leaves_nothing(build: Build) -> None:
    world = await build()
    before = world.datacenter.state()
    world.datacenter.fault({"task_exit": "start failed: QEMU exited with code 1"}, method="POST", path="status/start")
    with pytest.raises(ApplicationError, match="QEMU exited"):
        await world.activities.self_test(SiteRef(job_id="job-1", site_id=world.site.id))
    assert world.datacenter.state() == before


async def test_a_self_test_that_died_is_cleared_by_the_next_attempt(build: Build) -> None:
    world = await build()
    before = world.datacenter.state()
    world.datacenter.control("PUT", "latency", {"clone": 0.3})
    ref = SiteRef(job_id="job-1", site_id=world.site.id)
    dying = asyncio.create_task(world.activities.self_test(ref))
    for _ in range(200):
        if any(call.endswith("/clone") for call in world.datacenter.calls()):
            break
        await asyncio.sleep(0.02)
    dying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await dying
    await world.activities.self_test(ref)
    assert world.datacenter.state() == before
