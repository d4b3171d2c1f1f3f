"""Where a new machine goes: one pure choice from facts that are seconds old.

The store runs `place` on all machines of the site inside one serialised transaction, so that creates that run at the
same time count each other's reservations (F-041).
"""

from collections.abc import Collection, Mapping, Sequence

from domain.conditions import Reason
from domain.frozen import Frozen
from domain.machines import Machine, Phase
from domain.sites import Template

_OFFLINE = "offline"


class Placement(Frozen):
    """The node that a machine was given and the template that it is cloned from there."""

    node: str
    template_vmid: int


class NodeFacts(Frozen):
    """What is known of one Proxmox VE node right now.

    `memory_free_mib` is total less used as Proxmox VE reports it (page cache counts as free), None while unknown.
    `storages` are the storages that are active on the node, `bridges` the bridges and VNets that it has.
    """

    name: str
    online: bool
    memory_free_mib: int | None = None
    storages: frozenset[str] = frozenset()
    bridges: frozenset[str] = frozenset()


class Refusals(Frozen):
    """No node fits now. That passes: the machine waits, and these are the reasons by node."""

    reasons: dict[str, str]

    @property
    def message(self) -> str:
        """One line for people, nodes in alphabetical order."""
        if not self.reasons:
            return "no node of the datacenter is known"
        return "no node fits: " + "; ".join(f"{node}: {why}" for node, why in sorted(self.reasons.items()))

    @property
    def reason(self) -> Reason:
        """`NodeOffline` where every node that may take the machine is down (F-043), else `NoCapacity`."""
        down = bool(self.reasons) and set(self.reasons.values()) == {_OFFLINE}
        return Reason.NODE_OFFLINE if down else Reason.NO_CAPACITY


def place(
    machine: Machine,
    others: Sequence[Machine],
    nodes: Sequence[NodeFacts],
    template: Template,
    *,
    storage: str,
    bridge: str,
    allowed: Collection[str] | None = None,
    seen_on: Mapping[int, str] | None = None,
) -> Placement | Refusals:
    """Choose the node for `machine`.

    Of the nodes that are online, allowed, have `storage` and `bridge` and a template to clone from, and enough
    memory: the one with fewest machines of this cluster and role; on a tie the one with more free memory, then the
    first by name (F-041). Allowed nodes that are all down mean no placement at all, never another node (F-043).

    `others` are all machines of the site (`machine` itself may be among them and is left out). Memory that counts is
    what a node has free now less what is reserved there and not started. `allowed` None means every node, also nodes
    added later. `seen_on` maps VM ids to the nodes where Proxmox VE shows them now: a VM moved by hand or by HA counts
    where it is, not where it was made.
    """
    seen_on = seen_on or {}
    others = [other for other in others if other.id != machine.id and other.node is not None and not other.leaving]
    reasons: dict[str, str] = {}
    fitting: list[tuple[int, int, str, int]] = []
    for node in nodes:
        if allowed is not None and node.name not in allowed:
            continue
        here = [other for other in others if seen_on.get(other.vmid, other.node) == node.name]
        # A just started VM is counted by the node itself; before that only we know of it.
        promised = sum(other.memory_mib for other in here if not other.phase.reached(Phase.STARTED))
        template_vmid = _template_on(template, node.name)
        why = _refusal(node, machine, template, template_vmid, promised, storage=storage, bridge=bridge)
        if why or template_vmid is None or node.memory_free_mib is None:
            reasons[node.name] = why
            continue
        alike = sum(1 for other in here if other.cluster_id == machine.cluster_id and other.role is machine.role)
        fitting.append((alike, promised - node.memory_free_mib, node.name, template_vmid))
    for name in sorted(set(allowed or ()) - {node.name for node in nodes}):
        reasons[name] = "not a node of this datacenter"
    if not fitting:
        return Refusals(reasons=reasons)
    _, _, name, vmid = min(fitting)
    return Placement(node=name, template_vmid=vmid)


def _refusal(
    node: NodeFacts,
    machine: Machine,
    template: Template,
    template_vmid: int | None,
    promised: int,
    *,
    storage: str,
    bridge: str,
) -> str:
    """Why a node cannot take the machine now; empty when it can."""
    if not node.online:
        return _OFFLINE
    if storage not in node.storages:
        return f"storage {storage} is not active here"
    if bridge not in node.bridges:
        return f"has no bridge {bridge}"
    if template_vmid is None:
        return f"no template of {template.distribution} {template.version} on its local storage"
    if node.memory_free_mib is None:
        return "its free memory is not known"
    free = node.memory_free_mib - promised
    if free < machine.memory_mib:
        return f"needs {machine.memory_mib} MiB of memory, {max(0, free)} MiB free ({promised} MiB reserved by us)"
    return ""


def _template_on(template: Template, node: str) -> int | None:
    """VM id of the template that a machine on `node` is cloned from: any on shared storage, the node's own if not."""
    if node in template.nodes:
        return template.nodes[node]
    if template.shared and template.nodes:
        return template.nodes[min(template.nodes)]
    return None
