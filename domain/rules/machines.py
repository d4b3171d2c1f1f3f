"""Rules of the wizard's page Machines: storage, sizes, placement."""

from collections.abc import Iterator

from domain.clusters import ClusterSpec, Distribution, MachineSize
from domain.errors import Violation, ViolationCode, shown
from domain.rules.context import SiteContext
from domain.rules.forms import bounded, duplicate, is_node_name, is_proxmox_name, malformed, out_of_range, variable

MEMORY_STEP_MIB = 8
CONTROL_PLANE_MEMORY_MIB = {Distribution.KUBEADM: 2048, Distribution.RKE2: 3072, Distribution.K3S: 2048}
WORKER_MEMORY_MIB = 1024
MIN_DISK_GIB = 20
KUBEADM_CORES = 2
"""kubeadm's own preflight refuses a control plane with fewer."""

# Beyond these a number is a slip of the keyboard; Proxmox VE's own bounds are no tighter for cores and memory.
MAX_CORES = 512
MAX_MEMORY_MIB = 8 * 1024 * 1024
MAX_DISK_GIB = 64 * 1024
MAX_NODES = 64


def check(spec: ClusterSpec, context: SiteContext) -> Iterator[Violation]:
    """Everything wrong on this page."""
    path = variable("storage")
    if not is_proxmox_name(spec.storage):
        yield malformed(path, spec.storage, "a name of a storage", "write it as Proxmox VE does, like local-lvm")
    elif context.storages and spec.storage not in context.storages:
        yield Violation(
            path=path,
            code=ViolationCode.NOT_ALLOWED,
            message=f"clusters may not use storage {spec.storage}",
            remedy=f"use {' or '.join(context.storages)}",
        )
    least = CONTROL_PLANE_MEMORY_MIB[spec.distribution]
    cores = KUBEADM_CORES if spec.distribution is Distribution.KUBEADM else 1
    whose = f"a {spec.distribution} control-plane node"
    yield from _size("controlPlaneMachine", spec.control_plane_machine, cores, least, whose)
    yield from _size("workerMachine", spec.worker_machine, 1, WORKER_MEMORY_MIB, "a worker")
    yield from _allowed_nodes(spec, context)


def _size(name: str, size: MachineSize, least_cores: int, least_memory: int, whose: str) -> Iterator[Violation]:
    yield from bounded(variable(name, "cores"), size.cores, least_cores, MAX_CORES, f"the number of cores of {whose}")
    path = variable(name, "memoryMiB")
    if size.memory_mib % MEMORY_STEP_MIB:
        yield out_of_range(
            path,
            f"memory comes in steps of {MEMORY_STEP_MIB} MiB, so it cannot be {shown(size.memory_mib)}",
            f"use a multiple of {MEMORY_STEP_MIB}",
        )
    yield from bounded(path, size.memory_mib, least_memory, MAX_MEMORY_MIB, f"the memory of {whose} in MiB")
    yield from bounded(
        variable(name, "diskGiB"), size.disk_gib, MIN_DISK_GIB, MAX_DISK_GIB, f"the disk of {whose} in GiB"
    )


def _allowed_nodes(spec: ClusterSpec, context: SiteContext) -> Iterator[Violation]:
    if spec.allowed_nodes is None:
        return
    path = variable("allowedNodes")
    if not 1 <= len(spec.allowed_nodes) <= MAX_NODES:
        yield out_of_range(
            path,
            f"{len(spec.allowed_nodes)} nodes are named",
            f"name 1 to {MAX_NODES} nodes, or leave allowedNodes out for every node",
        )
        return
    for index, node in enumerate(spec.allowed_nodes):
        if not is_node_name(node):
            yield malformed(f"{path}[{index}]", node, "a name of a Proxmox VE node", "write it as Proxmox VE does")
        elif context.nodes is not None and node not in context.nodes:
            yield Violation(
                path=f"{path}[{index}]",
                code=ViolationCode.NOT_ALLOWED,
                message=f"the site has no node {node}, or you may not see it",
                remedy=f"use {' or '.join(sorted(context.nodes))}" if context.nodes else "leave allowedNodes out",
            )
        if node in spec.allowed_nodes[:index]:
            yield duplicate(f"{path}[{index}]", node)
