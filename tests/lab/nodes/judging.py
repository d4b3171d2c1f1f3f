"""Judges one row of the table of mutations on simulated machines: does the machine join, and what is broken?"""

import asyncio
import contextlib
import ipaddress
from dataclasses import dataclass

from domain.clusters import Cni, Distribution
from domain.machines import Machine, Role
from lab.nodes.programs import CONTAINERD
from lab.nodes.settings import Fault
from tests.bootstrap.mutation_rows import FIRST, JOINING, Breaks, Mutation
from tests.lab.nodes.harness import Simulated, eventually, is_ready

_CNIS = {"": None, "cilium": Cni.CILIUM, "calico": Cni.CALICO}
_PATIENCE = 2.0
"""Seconds after which a machine that has not joined is taken not to join: many tries of a unit."""

_LONG = 40.0
"""Seconds that a busy machine may take for what is to happen."""

_NEWER = "2.2.1"
"""containerd where the other of the two configurations is chosen."""

UNSEEN = {Breaks.AUTHENTICATION, Breaks.AGGREGATION, Breaks.IMAGES}
"""What the simulation does not show: the row is judged by `joins` alone."""


@dataclass
class Verdict:
    """What came of it."""

    joins: bool
    broken: bool | None
    """None when the row's kind of breakage cannot be seen."""
    log: str


async def _within(look: object, seconds: float = _PATIENCE) -> bool:
    with contextlib.suppress(TimeoutError):
        return bool(await eventually(look, seconds))  # type: ignore[arg-type]
    return False


async def judge(row: Mutation, distribution: Distribution) -> Verdict:
    """Boots what the row needs and looks."""
    cni = _CNIS[row.case]
    lab = Simulated(
        distribution, cni, cni is Cni.CILIUM, in_template=row.in_template,
        containerd=_NEWER if row.file == "config-2.toml" else CONTAINERD,
    )  # fmt: skip
    try:
        if row.machine == FIRST:
            machine = lab.server(1, change=row.change)
            host = machine.address
        else:
            lab_programs = row.in_template
            lab.in_template = True
            first = lab.server(1)
            await eventually(lambda: lab.node(first), _LONG)
            await install_pod_network(lab, row, first.address)
            await eventually(lambda: lab.ready(first), _LONG)
            await open_joining(lab, first.address)
            lab.in_template = lab_programs
            machine = (lab.server if row.machine == JOINING else lab.worker)(2, change=row.change)
            host = first.address
        # A row that is to join gets the time that a busy machine needs.
        joins = await _within(lambda: lab.node(machine, host), _LONG if row.joins else _PATIENCE)
        if row.machine == FIRST and joins:
            await install_pod_network(lab, row, host)
        broken = await _broken(lab, row, machine, host) if joins and row.breaks not in UNSEEN else None
        return Verdict(joins, broken, lab.log(machine))
    finally:
        await lab.close()


async def install_pod_network(lab: Simulated, row: Mutation, host: str) -> None:
    """What the platform does where the cluster has another pod network than the distribution brings."""
    if lab.distribution is Distribution.KUBEADM or (row.case and lab.distribution is Distribution.K3S):
        await lab.install_pod_network(host)


async def open_joining(lab: Simulated, host: str) -> None:
    """What the platform does before anybody joins by kubeadm."""
    if lab.distribution is Distribution.KUBEADM:
        await lab.open_joining(host)


async def _broken(lab: Simulated, row: Mutation, machine: Machine, host: str) -> bool:
    patience = _PATIENCE if row.breaks else _LONG
    if row.breaks in (Breaks.NOTHING, Breaks.VIRTUAL_IP):
        if row.breaks is Breaks.VIRTUAL_IP:
            # Some hold it until the first renewal: what counts is how it is after a while.
            await asyncio.sleep(_PATIENCE)
            return await lab.get("/version") is None
        if row.machine == FIRST and not await _within(lambda: lab.get("/version"), patience):
            return True
        return not await _within(lambda: lab.ready(machine, host), patience)
    if row.breaks in (Breaks.SERVERS, Breaks.WORKERS):
        lab.in_template = True
        await open_joining(lab, host)
        second = (lab.server if row.breaks is Breaks.SERVERS else lab.worker)(7)
        return not await _within(lambda: lab.node(second, host), patience)
    if row.key.endswith("certSANs") and lab.distribution is Distribution.KUBEADM:
        program = lab.world.machines[machine.vmid].program
        return program is not None and "127.0.0.1" not in program.sans
    if row.breaks is Breaks.CLOUD_CONTROLLER:
        return await _within(lambda: _wrongly_initialised(lab, machine, host), _LONG)
    if row.breaks is Breaks.POD_NETWORK:
        await asyncio.sleep(_PATIENCE)  # how it is after a while: it may have been Ready before
        return not await _ready_in_range(lab, machine, host)
    if row.breaks is Breaks.NAMES:
        name = "kube-dns" if lab.distribution is Distribution.K3S else "rke2-coredns-rke2-coredns"
        return not await _within(lambda: lab.get(f"/api/v1/namespaces/kube-system/services/{name}", host))
    if row.breaks is Breaks.VOLUMES:
        path = "/apis/storage.k8s.io/v1/storageclasses/local-path"
        return await _within(lambda: lab.get(path, host), _LONG)
    return await _gone_after_reboot(lab, row, machine, host)


async def _wrongly_initialised(lab: Simulated, machine: Machine, host: str) -> bool:
    node = await lab.node(machine, host)
    taints = {item["key"] for item in (node or {}).get("spec", {}).get("taints", [])}
    return node is not None and "node.cloudprovider.kubernetes.io/uninitialized" not in taints


async def _ready_in_range(lab: Simulated, machine: Machine, host: str) -> bool:
    node = await lab.node(machine, host)
    cidr = (node or {}).get("spec", {}).get("podCIDR")
    wide = ipaddress.ip_network(lab.spec.pod_cidrs[0])
    inside = bool(cidr) and ipaddress.ip_network(cidr).network_address in wide
    return is_ready(node) and inside


async def _gone_after_reboot(lab: Simulated, row: Mutation, machine: Machine, host: str) -> bool:
    simulated = lab.world.machines[machine.vmid]
    if lab.distribution is Distribution.KUBEADM:
        return await _gone_after_an_early_power_cut(lab, row, host)
    if "Install.WantedBy" not in row.key or row.file.startswith("trilithon"):
        # Shown only when the power goes before the install script has ended.
        del simulated.disk.files["/var/lib/trilithon/boot.done"]
        simulated.disk.enabled -= {"k3s.service", "k3s-agent.service", "rke2-server.service", "rke2-agent.service"}
    await lab.world.power_off(machine.vmid)
    lab.world.power_on(lab.hardware(machine, None))

    async def back() -> bool:
        program = simulated.program
        await asyncio.sleep(0)
        return program is not None and program.phase == "running"

    return not await _within(back)


async def _gone_after_an_early_power_cut(lab: Simulated, row: Mutation, host: str) -> bool:
    """The same for kubeadm, whose seed is gone once it has joined: another such machine loses power before that."""
    apart = Fault(name=lab.machine(8, Role.WORKER).name, unreachable=True)
    lab.world.faults.rules.append(apart)
    early = lab.worker(8, change=row.change)
    await eventually(lambda: "Retrying due to error" in lab.log(early), _LONG)
    await lab.world.power_off(early.vmid)
    lab.world.faults.rules.remove(apart)
    lab.world.power_on(lab.hardware(early, row.change(lab.data(early))))
    return not await _within(lambda: lab.node(early, host))
