"""Deaths, lost answers, locks, strangers and absent nodes: one effect each, nobody else's thing touched."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from activities.proxmox.accounts import user_of
from clients.proxmox import ApiToken, ProxmoxClient, Trust
from domain.conditions import Condition, ConditionType, Reason
from domain.contracts.activities import Handle
from domain.machines import Phase
from domain.placement import Placement
from tests.activities.proxmox.conftest import AHEAD, Build, World


class Died(BaseException):
    """Stands for the end of the worker process."""


class Deadly:
    """A crossing at which the process dies the first time before each call, the second time after it."""

    def __init__(self) -> None:
        self.passed: Counter[str] = Counter()
        self.deaths: list[str] = []

    def before(self, name: str) -> None:
        self.passed[name] += 1
        self._die(f"{name}:before", self.passed[name] == 1)

    def after(self, name: str) -> None:
        self._die(f"{name}:after", self.passed[name] == 2)

    def _die(self, point: str, now: bool) -> None:
        if now:
            self.deaths.append(point)
            raise Died(point)


async def surviving(world: World, name: str, ref: Any) -> None:
    """Drives one effect, starting again after every death as Temporal does."""
    for _ in range(20):
        try:
            method = getattr(world.activities, name)
            if name in DEEDS:
                await method(ref)
            else:
                await world.drive(method, ref)
        except Died:
            continue
        return
    raise AssertionError(f"{name} dies for ever")


DEEDS = ("ensure_pool", "ensure_user", "ensure_token", "grant_rights", "revoke_token", "delete_user", "revoke_rights")


async def test_dying_before_and_after_every_call_costs_time_only(world: World) -> None:
    before = world.datacenter.state()
    (machine,) = world.machines
    _, client = await world.activities.sites.by_id(world.site.id)
    deadly = Deadly()
    client.crossing = deadly
    for name in DEEDS[:4]:
        await surviving(world, name, world.ref)
    for name in AHEAD:
        await surviving(world, name, world.of(machine))
    vm = world.datacenter.vm(machine.vmid)
    assert vm is not None
    assert vm["status"] == "running"
    accepted = Counter(
        f"{entry['method']} {entry['path'].rsplit('/', 1)[-1]}"
        for entry in world.datacenter.journal()
        if entry["kind"] == "call" and entry["status"] == 200
    )
    assert accepted["POST clone"] == 1
    assert accepted["POST start"] == 1
    assert accepted["POST upload"] == 2  # a lost upload is sent again: nobody can say what arrived
    for name in ("detach_seed", "stop_machine", "destroy_machine", "delete_seed"):
        await surviving(world, name, world.of(machine))
    for name in (*DEEDS[4:], "delete_pool"):
        await surviving(world, name, world.ref)
    assert world.datacenter.state() == before
    assert len(deadly.deaths) == 2 * len(deadly.passed)
    assert {"proxmox POST nodes/qemu/clone", "proxmox DELETE nodes/qemu", "proxmox DELETE pools"} <= set(deadly.passed)


@pytest.mark.parametrize("cut", ["before", "after"])
async def test_a_cut_answer_of_the_clone_makes_one_machine(world: World, cut: str) -> None:
    (machine,) = world.machines
    await world.groundwork()
    world.datacenter.fault({"cut": cut}, method="POST", path="/clone", nth=1)
    await world.create(machine, up_to="place_machine")
    with pytest.raises(ApplicationError) as lost:
        await world.activities.clone_machine(world.of(machine))
    assert not lost.value.non_retryable
    await world.drive(world.activities.clone_machine, world.of(machine))
    exits = [e["exit"] for e in world.datacenter.journal() if e["kind"] == "task" and e["type"] == "qmclone"]
    assert exits == ["OK"]


async def test_two_living_attempts_make_one_machine(world: World) -> None:
    (machine,) = world.machines
    await world.groundwork()
    await world.create(machine, up_to="place_machine")
    world.datacenter.fault({"delay": 0.4}, method="POST", path="/clone", nth=1)
    older = asyncio.create_task(world.activities.clone_machine(world.of(machine)))
    await asyncio.sleep(0.2)
    await world.drive(world.activities.clone_machine, world.of(machine))
    await older  # its call came late and was refused, or it gave way
    await world.drive(world.activities.clone_machine, world.of(machine))
    assert [vm["vmid"] for vm in world.datacenter.state()["vms"] if vm["vmid"] >= 20000] == [machine.vmid]


async def test_an_older_attempt_gives_way(world: World) -> None:
    (machine,) = world.machines
    scene = await world.activities._take(world.of(machine))
    await world.activities._take(world.of(machine))
    with pytest.raises(ApplicationError) as superseded:
        await world.activities._still_held(scene)
    assert (superseded.value.type, superseded.value.non_retryable) == ("Superseded", False)


@pytest.mark.parametrize("pool", [None, "trilithon"])
async def test_a_strangers_machine_keeps_its_id(world: World, pool: str | None) -> None:
    """Seen or not (without a pool our account cannot see it): the machine takes the next id."""
    (machine,) = world.machines
    row = {"vmid": machine.vmid, "name": machine.name, "tags": "trilithon", "pool": pool, "status": "running"}
    world.datacenter.control("POST", "foreign", row)
    stranger = world.datacenter.vm(machine.vmid)
    await world.groundwork()
    await world.create(machine)
    ours = await world.fresh(machine)
    assert ours.vmid == machine.vmid + 1
    await world.remove(ours)
    assert world.datacenter.vm(machine.vmid) == stranger
    assert world.datacenter.vm(ours.vmid) is None


async def test_a_machine_without_our_marker_is_never_deleted(world: World) -> None:
    (machine,) = world.machines
    await world.groundwork()
    await world.create(machine)
    world.datacenter.control("PUT", f"vms/{machine.vmid}", {"config": {"description": "mine now"}})
    stranger = world.datacenter.vm(machine.vmid)
    await world.remove(machine)
    assert world.datacenter.vm(machine.vmid) == stranger


async def test_a_lock_is_waited_for_and_named(world: World) -> None:
    (machine,) = world.machines
    await world.groundwork()
    await world.create(machine, up_to="clone_machine")
    world.datacenter.control("PUT", f"vms/{machine.vmid}", {"lock": "backup"})
    handle = await world.activities.configure_machine(world.of(machine))
    assert not handle.done
    assert "backup" in handle.waiting_for
    world.datacenter.control("PUT", f"vms/{machine.vmid}", {"lock": None})
    await world.drive(world.activities.configure_machine, world.of(machine))


async def test_without_quorum_effects_wait(world: World) -> None:
    (machine,) = world.machines
    await world.groundwork()
    await world.create(machine, up_to="clone_machine")
    world.datacenter.control("PUT", "quorum", {"quorate": False})
    handle = await world.activities.configure_machine(world.of(machine))
    assert "no quorum" in handle.waiting_for
    world.datacenter.control("PUT", "quorum", {"quorate": True})
    await world.drive(world.activities.configure_machine, world.of(machine))


async def test_an_offline_node_is_waited_for_and_named(world: World) -> None:
    (machine,) = world.machines
    await world.groundwork()
    await world.create(machine)
    node = (await world.fresh(machine)).node
    world.datacenter.control("PUT", f"nodes/{node}", {"online": False})
    for name in ("stop_machine", "destroy_machine"):
        handle = await getattr(world.activities, name)(world.of(machine))
        assert not handle.done
        assert f"node {node} is offline" in handle.waiting_for
    assert world.datacenter.vm(machine.vmid) is not None
    world.datacenter.control("PUT", f"nodes/{node}", {"online": True})
    await world.remove(machine)
    assert world.datacenter.vm(machine.vmid) is None


async def test_absence_is_no_proof_while_the_last_node_is_offline(world: World) -> None:
    (machine,) = world.machines
    await world.drive(world.activities.place_machine, world.of(machine))
    node = (await world.fresh(machine)).node
    world.datacenter.control("PUT", f"nodes/{node}", {"online": False})
    handle = await world.activities.destroy_machine(world.of(machine))
    assert not handle.done
    assert f"node {node} is offline" in handle.waiting_for
    world.datacenter.control("PUT", f"nodes/{node}", {"online": True})
    assert (await world.activities.destroy_machine(world.of(machine))).done


async def test_a_moved_machine_is_found(world: World) -> None:
    (machine,) = world.machines
    await world.groundwork()
    await world.create(machine, up_to="attach_seed")
    node = (await world.fresh(machine)).node
    other = next(name for name in ("pve1", "pve2", "pve3") if name != node)
    world.datacenter.control("PUT", f"vms/{machine.vmid}", {"node": other})
    await world.drive(world.activities.start_machine, world.of(machine))
    vm = world.datacenter.vm(machine.vmid)
    assert vm is not None
    assert (vm["node"], vm["status"]) == (other, "running")
    await world.remove(machine)
    assert world.datacenter.vm(machine.vmid) is None


async def test_a_machine_deleted_by_hand_is_told_and_made_again_only_before_its_start(world: World) -> None:
    (machine,) = world.machines
    await world.groundwork()
    await world.create(machine, up_to="resize_disk")
    world.datacenter.control("DELETE", f"vms/{machine.vmid}")
    with pytest.raises(ApplicationError) as gone:
        await world.activities.upload_seed(world.of(machine))
    assert (gone.value.type, gone.value.non_retryable) == ("NotOurs", True)
    await world.create(machine)
    world.datacenter.control("DELETE", f"vms/{machine.vmid}")
    with pytest.raises(ApplicationError, match="had been started"):
        await world.activities.clone_machine(world.of(machine))


async def test_a_lost_token_value_is_made_anew_and_works(world: World) -> None:
    (machine,) = world.machines
    await world.groundwork()
    await world.create(machine)
    scope = f"cluster/{world.cluster.id}"
    first = await world.store.secrets.get(scope, "proxmox-token")
    await world.store.secrets.delete(scope, "proxmox-token")
    await world.activities.ensure_token(world.ref)
    second = await world.store.secrets.get(scope, "proxmox-token")
    assert first != second
    token_id, _, value = second.decode().partition("=")
    assert token_id == f"{user_of(world.cluster.id)}!cluster"
    own = ProxmoxClient(world.site.endpoints, ApiToken(token_id, value), Trust(fingerprint=world.site.fingerprint))
    rows = await own.get("cluster/resources", type="vm")
    assert [row["vmid"] for row in rows] == [machine.vmid]
    await own.aclose()


async def test_a_pool_of_somebody_else_is_refused_and_stays(world: World) -> None:
    await world.groundwork()
    world.datacenter.control("POST", "reset")
    client = world.client
    await client.post("pools", poolid="trilithon/clusters.edge", comment="mine")
    before = world.datacenter.state()
    with pytest.raises(ApplicationError) as refused:
        await world.activities.ensure_pool(world.ref)
    assert (refused.value.type, refused.value.non_retryable) == ("NotOurs", True)
    await world.clear()
    assert world.datacenter.state() == before


async def test_a_pool_that_still_holds_something_is_waited_for(world: World) -> None:
    await world.groundwork()
    world.datacenter.control("POST", "foreign", {"vmid": 777, "name": "guest", "pool": "trilithon/clusters.edge"})
    handle = await world.activities.delete_pool(world.ref)
    assert not handle.done
    assert "VM 777 (guest)" in handle.waiting_for


async def test_a_strangers_file_is_not_overwritten(world: World) -> None:
    (machine,) = world.machines
    await world.groundwork()
    await world.create(machine, up_to="resize_disk")
    upid = await world.client.upload("pve1", "iso", machine.iso_name, b"\0" * 0x8001 + b"CD001" + b"\0" * 2042)
    await world.wait(upid)
    with pytest.raises(ApplicationError, match="not of this machine"):
        await world.activities.upload_seed(world.of(machine))
    assert (await world.activities.delete_seed(world.of(machine))).done
    assert f"iso/{machine.iso_name}" in str(world.datacenter.state()["storages"])


async def test_a_spoilt_upload_is_sent_again(world: World) -> None:
    (machine,) = world.machines
    await world.groundwork()
    await world.create(machine, up_to="resize_disk")
    exit_text = "checksum mismatch: got 'x' != expect 'y'"
    world.datacenter.fault({"task_exit": exit_text}, method="POST", path="/upload", nth=1)
    handles = await world.drive(world.activities.upload_seed, world.of(machine))
    assert len([handle for handle in handles if handle.upid]) == 2


async def test_missing_rights_name_the_line_that_grants_them(world: World) -> None:
    text = "Permission check failed (/pool/trilithon/clusters.edge, Pool.Allocate)"
    world.datacenter.fault({"status": 403, "text": text}, method="POST", path="/pools")
    with pytest.raises(ApplicationError, match="pveum acl modify /pool/trilithon --users trilithon@pve") as missing:
        await world.activities.ensure_pool(world.ref)
    assert (missing.value.type, missing.value.non_retryable) == ("RightMissing", True)


async def test_a_refused_token_is_named_and_a_rotated_one_used_at_once(world: World) -> None:
    await world.store.secrets.put(f"site/{world.site.id}", "token", b"0000-revoked")
    with pytest.raises(ApplicationError) as refused:
        await world.activities.ensure_pool(world.ref)
    assert refused.value.type == "TokenRefused"
    assert world.site.token_id in refused.value.message
    assert "0000-revoked" not in refused.value.message
    await world.store.secrets.put(f"site/{world.site.id}", "token", world.datacenter.secret.encode())
    await world.activities.ensure_pool(world.ref)


async def test_no_room_is_a_reason_and_passes(build: Build) -> None:
    world = await build(allowed_nodes=("pve2",))
    (machine,) = world.machines
    world.datacenter.control("PUT", "nodes/pve2", {"maxmem": 1024**3})
    handle = await world.activities.place_machine(world.of(machine))
    assert not handle.done
    assert "pve2: needs 2048 MiB" in handle.waiting_for
    assert (await world.fresh(machine)).message == handle.waiting_for
    placed = await placing(world)
    assert (placed.status, placed.reason) == (False, Reason.NO_CAPACITY)
    assert placed.message == f"{machine.name} waits for a node: {handle.waiting_for}"
    world.datacenter.control("PUT", "nodes/pve2", {"maxmem": 32 * 1024**3})
    await world.drive(world.activities.place_machine, world.of(machine))
    found = await world.fresh(machine)
    assert (found.node, found.phase, found.message) == ("pve2", Phase.PLACED, "")
    assert (await placing(world)).status is True


async def test_all_allowed_nodes_down_is_told_as_such(build: Build) -> None:
    world = await build(allowed_nodes=("pve2",))
    (machine,) = world.machines
    world.datacenter.control("PUT", "nodes/pve2", {"online": False})
    handle = await world.activities.place_machine(world.of(machine))
    assert handle.waiting_for == "no node fits: pve2: offline"
    assert (await placing(world)).reason is Reason.NODE_OFFLINE


async def placing(world: World) -> Condition:
    """The cluster's condition MachinesPlaced."""
    cluster = await world.store.clusters.get(world.cluster.id)
    return next(one for one in cluster.conditions if one.type is ConditionType.MACHINES_PLACED)


async def test_no_template_is_final(build: Build) -> None:
    world = await build(templates=[{"id": "gone", "nodes": {"pve1": 9999}, "shared": True}])
    (machine,) = world.machines
    with pytest.raises(ApplicationError, match="gone or cannot be seen") as missing:
        await world.activities.place_machine(world.of(machine))
    assert missing.value.type == "TemplateMissing"


@pytest.mark.parametrize(
    ("do", "ok", "vanished"),
    [
        ({"task_exit": "WARNINGS: 1"}, True, False),
        ({"task_exit": "can't lock file '/var/lock/x' - got timeout"}, False, False),
        ({"task_lost": True}, False, True),
    ],
)
async def test_how_a_task_ended(world: World, do: dict[str, Any], ok: bool, vanished: bool) -> None:
    (machine,) = world.machines
    await world.groundwork()
    await world.create(machine, up_to="attach_seed")
    world.datacenter.fault(do, method="POST", path="status/start", nth=1)
    handle = await world.activities.start_machine(world.of(machine))
    outcome = await world.wait(handle.upid)
    assert (outcome.ok, outcome.vanished) == (ok, vanished)
    await world.drive(world.activities.start_machine, world.of(machine))


async def test_a_task_of_a_node_that_died_is_not_waited_for_ever(world: World) -> None:
    (machine,) = world.machines
    await world.groundwork()
    await world.create(machine, up_to="place_machine")
    world.datacenter.control("PUT", "latency", {"clone": 30})
    handle = await world.activities.clone_machine(world.of(machine))
    waiting = asyncio.create_task(world.wait(handle.upid))
    await asyncio.sleep(0.1)
    world.datacenter.control("PUT", "nodes/pve1", {"online": False})
    outcome = await waiting
    assert (outcome.ok, outcome.vanished) == (False, True)
    handle = await world.activities.clone_machine(world.of(machine))
    assert "node pve1 is offline" in handle.waiting_for


async def test_a_node_that_goes_before_the_clone_gives_the_machine_to_another(world: World) -> None:
    (machine,) = world.machines
    await world.groundwork()
    await world.store.machines.place(machine.id, lambda _: Placement(node="pve2", template_vmid=9002))
    world.datacenter.control("PUT", "nodes/pve2", {"online": False})
    await world.drive(world.activities.clone_machine, world.of(machine))
    vm = world.datacenter.vm(machine.vmid)
    assert vm is not None
    assert vm["node"] == (await world.fresh(machine)).node != "pve2"


async def test_chosen_nodes_that_are_all_down_are_waited_for(build: Build) -> None:
    world = await build(allowed_nodes=("pve2",))
    (machine,) = world.machines
    await world.groundwork()
    await world.create(machine, up_to="place_machine")
    world.datacenter.control("PUT", "nodes/pve2", {"online": False})
    handle = await world.activities.clone_machine(world.of(machine))
    assert "pve2: offline" in handle.waiting_for
    world.datacenter.control("PUT", "nodes/pve2", {"online": True})
    await world.drive(world.activities.clone_machine, world.of(machine))


async def test_a_node_that_keeps_the_template_is_waited_for(world: World) -> None:
    """All endpoints but the dead node's are used meanwhile."""
    world.datacenter.control("PUT", "nodes/pve1", {"online": False})
    await world.groundwork()
    (machine,) = world.machines
    handle: Handle = await world.activities.place_machine(world.of(machine))
    assert handle.waiting_for == "node pve1 is offline, which keeps the template"
