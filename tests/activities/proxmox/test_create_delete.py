"""A machine from reservation to power-on and away again, on the simulated datacenter."""

import base64

import pytest

from activities.proxmox import power
from domain.contracts.activities import Handle
from domain.machines import Phase
from tests.activities.proxmox.conftest import Build, World


async def test_a_machine_comes_and_goes_without_a_trace(world: World) -> None:
    before = world.datacenter.state()
    (machine,) = world.machines
    await world.groundwork()
    await world.create(machine)
    vm = world.datacenter.vm(machine.vmid)
    assert vm is not None
    config = vm["config"]
    assert (vm["status"], vm["name"], vm["pool"]) == ("running", machine.name, "trilithon/clusters.edge")
    assert config["description"].splitlines()[0] == machine.marker
    assert set(config["tags"].split(";")) == {"trilithon", "clusters.edge"}
    assert config["net0"] == f"virtio={machine.mac.upper()},bridge=vmbr0,firewall=0"
    serial = base64.b64encode(f"i={machine.vmid}".encode()).decode()
    assert config["smbios1"] == f"uuid={machine.bios_uuid},serial={serial},base64=1"
    assert (str(config["cores"]), str(config["memory"]), str(config["onboot"])) == ("2", "2048", "1")
    assert config["agent"] == "enabled=1,fstrim_cloned_disks=1"
    assert "size=20G" in config["scsi0"]
    assert config["ide2"].startswith(f"iso:iso/{machine.iso_name},media=cdrom")
    assert (await world.fresh(machine)).phase is Phase.STARTED
    await world.drive(world.activities.detach_seed, world.of(machine))
    await world.drive(world.activities.delete_seed, world.of(machine))
    vm = world.datacenter.vm(machine.vmid)
    assert vm is not None
    assert vm["config"]["ide2"] == "none,media=cdrom"
    await world.remove(machine)
    await world.clear()
    assert world.datacenter.state() == before
    assert (await world.fresh(machine)).phase is Phase.GONE


async def test_everything_done_is_seen_done_and_not_done_again(world: World) -> None:
    (machine,) = world.machines
    await world.groundwork()
    await world.create(machine)
    mark = world.datacenter.mark()
    await world.groundwork()
    await world.create(machine)
    assert world.datacenter.calls(mark) == []
    await world.remove(machine)
    mark = world.datacenter.mark()
    for name in ("stop_machine", "destroy_machine", "delete_seed"):
        handles = await world.drive(getattr(world.activities, name), world.of(machine))
        assert handles == [Handle(done=True)]
    await world.clear()
    calls = world.datacenter.calls(mark)
    await world.clear()
    assert world.datacenter.calls(mark) == calls


async def test_nothing_is_powered_on_over_somebody_elses_address(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    (machine,) = world.machines
    endpoint, there = (await world.store.clusters.get(machine.cluster_id)).spec.endpoint, set[str]()

    async def answering(address: str) -> int | None:
        return 22 if address in there else None

    monkeypatch.setattr(power, "answering_port", answering)
    await world.groundwork()
    await world.create(machine, up_to="attach_seed")
    for address, what in ((machine.address, f"address of {machine.name}"), (endpoint, "virtual IP of edge")):
        there.add(address)
        handle = await world.activities.start_machine(world.of(machine))
        assert not handle.done
        assert handle.waiting_for.startswith(f"{address} is to be the {what}, and another device takes connections")
        vm = world.datacenter.vm(machine.vmid)
        assert vm is not None
        assert vm["status"] == "stopped"
        there.remove(address)
    await world.drive(world.activities.start_machine, world.of(machine))
    there |= {machine.address, endpoint}  # our own machine answers now
    assert (await world.activities.start_machine(world.of(machine))).done


async def test_two_servers_and_workers_stand_apart_by_role(build: Build) -> None:
    world = await build(control_planes=3)
    for machine in world.machines:
        await world.drive(world.activities.place_machine, world.of(machine))
    nodes = {(await world.fresh(machine)).node for machine in world.machines}
    assert nodes == {"pve1", "pve2", "pve3"}
    await world.groundwork()
    for machine in world.machines:
        await world.create(machine, up_to="clone_machine")
        placed = await world.fresh(machine)
        vm = world.datacenter.vm(machine.vmid)
        assert vm is not None
        assert vm["node"] == placed.node


async def test_local_storage_uses_the_template_of_its_node(build: Build) -> None:
    world = await build(
        templates=[
            {"id": "shared", "nodes": {"pve1": 9002}, "shared": True},
            {"id": "local", "nodes": {"pve1": 9011, "pve2": 9012, "pve3": 9013}},
        ],
        storage="fast",
        allowed_nodes=("pve2",),
    )
    await world.groundwork()
    (machine,) = world.machines
    await world.create(machine)
    placed = await world.fresh(machine)
    assert (placed.node, placed.template_vmid) == ("pve2", 9012)
    vm = world.datacenter.vm(machine.vmid)
    assert vm is not None
    assert vm["node"] == "pve2"
    assert vm["config"]["scsi0"].startswith("fast:")
