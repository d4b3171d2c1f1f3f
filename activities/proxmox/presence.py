"""Where a machine's VM is, and whether the VM of that id is ours.

Ours = the reserved VM id together with our marker in the description, or a clone task of our own account that is still
making it (early in a clone the configuration holds only a lock, and no pool: it cannot even be seen by an account
whose rights hang on pools). Name, pool and tags prove nothing: VM ids are used again at once (CAPMOX #842, #56).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from activities.proxmox.vm_config import marker_of
from clients.proxmox import AlreadyExists, BadParameter, Locked, NotThere, ProxmoxClient, RightMissing
from domain.machines import Machine

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Resources:
    """One answer of /cluster/resources: the whole site in one call."""

    rows: Sequence[Row]

    @classmethod
    async def read(cls, client: ProxmoxClient) -> "Resources":
        """One GET. Guests, nodes and storages that our account may see."""
        return cls([row for row in await client.get("cluster/resources") if isinstance(row, dict)])

    def vm(self, vmid: int) -> Row | None:
        """The row of a VM, wherever it is."""
        found = (row for row in self.rows if row.get("type") in ("qemu", "lxc") and int(row.get("vmid") or 0) == vmid)
        return next(found, None)

    @property
    def nodes(self) -> dict[str, bool]:
        """Every node of the datacenter, and whether it is online."""
        return {str(row["node"]): row.get("status") == "online" for row in self.rows if row.get("type") == "node"}

    def offline(self, node: str | None) -> bool:
        return node is not None and self.nodes.get(node) is False

    def storage(self, name: str, node: str) -> Row | None:
        """The row of a storage on a node."""
        found = (
            row
            for row in self.rows
            if row.get("type") == "storage" and row.get("storage") == name and row.get("node") == node
        )
        return next(found, None)


class State(Enum):
    """What there is under a machine's VM id."""

    ABSENT = "absent"
    OURS = "ours"
    MAKING = "making"
    """A clone of ours is under way (or somebody's VM is just being made: nobody can tell until the lock goes)."""
    FOREIGN = "foreign"
    AWAY = "away"
    """On a node that is offline: nothing can be said or done."""


@dataclass(frozen=True)
class Sight:
    """What was seen. `why` says what to wait for when the state is MAKING or AWAY."""

    state: State
    resources: Resources
    node: str = ""
    running: bool = False
    config: Row = field(default_factory=dict)
    upid: str = ""
    why: str = ""
    id_free: bool = False
    """Nobody in the datacenter has the VM id."""


async def look(client: ProxmoxClient, machine: Machine) -> Sight:
    """Looks for the machine's VM through the whole datacenter; about two GETs."""
    resources = await Resources.read(client)
    row = resources.vm(machine.vmid)
    if row is None:
        if not await taken(client, machine.vmid):
            return _absent(resources, machine)
        upid = await own_clone_task(client, resources, machine)
        if upid:
            return Sight(State.MAKING, resources, upid=upid, why=f"VM {machine.vmid} is being cloned")
        # The clone may have ended between the two questions: only a second look tells ours from somebody's.
        resources = await Resources.read(client)
        row = resources.vm(machine.vmid)
        if row is None:
            return Sight(State.FOREIGN, resources)
    return await _seen(client, resources, machine, row)


async def _seen(client: ProxmoxClient, resources: Resources, machine: Machine, row: Row) -> Sight:
    node = str(row["node"])
    if resources.offline(node) or row.get("status") == "unknown":
        return Sight(State.AWAY, resources, node=node, why=f"node {node} is offline; VM {machine.vmid} is on it")
    if row.get("type") != "qemu":
        return Sight(State.FOREIGN, resources, node=node)
    try:
        config = await client.get(f"nodes/{node}/qemu/{machine.vmid}/config")
    except (NotThere, RightMissing) as moved:
        # A VM that was just destroyed has left its pool, and with it our right to ask for it: no right is missing.
        raise Locked(f"VM {machine.vmid} left node {node} while we looked: {moved.text}") from moved
    lock = str(config.get("lock") or "")
    ours = marker_of(config) == machine.marker
    if ours and lock not in ("clone", "create"):
        running = row.get("status") == "running"
        return Sight(State.OURS, resources, node=node, running=running, config=config)
    if lock in ("clone", "create"):
        upid = await own_clone_task(client, resources, machine)
        why = f"VM {machine.vmid} is locked ({lock}) and is being made"
        return Sight(State.MAKING, resources, node=node, config=config, upid=upid, why=why)
    return Sight(State.FOREIGN, resources, node=node, config=config)


def _absent(resources: Resources, machine: Machine) -> Sight:
    """Not there. It is no proof while the node that it was last on cannot be seen."""
    if resources.offline(machine.node):
        why = f"node {machine.node} is offline; whether VM {machine.vmid} is on it cannot be seen"
        return Sight(State.AWAY, resources, node=machine.node or "", why=why, id_free=True)
    return Sight(State.ABSENT, resources, id_free=True)


async def taken(client: ProxmoxClient, vmid: int) -> bool:
    """True when any guest has this id, also one that our account may not see."""
    try:
        await client.get("cluster/nextid", vmid=vmid)
    except (AlreadyExists, BadParameter):
        return True
    return False


async def own_clone_task(client: ProxmoxClient, resources: Resources, machine: Machine) -> str:
    """The UPID of a clone of the machine's template that our own account has running; empty when there is none.

    Proxmox VE files a clone under its source's id, so with several machines of one template this may be another
    machine's clone. Waiting for it costs time only.
    """
    source = resources.vm(machine.template_vmid or 0)
    node = str(source["node"]) if source is not None else machine.node
    if node is None or resources.offline(node):
        return ""
    return await active_task(client, node, "qmclone", {str(machine.template_vmid), str(machine.vmid)})


async def own_task(client: ProxmoxClient, sight: Sight, machine: Machine) -> str:
    """The UPID of a task that our own account already has running on the machine's VM, or empty.

    Asked right before a call that becomes a task: the answer to an earlier one may have been lost (quality.md F7).
    """
    return await active_task(client, sight.node, None, {str(machine.vmid)})


async def active_task(client: ProxmoxClient, node: str, kind: str | None, ids: set[str]) -> str:
    """The UPID of a running task of our own account on a node, of a kind or of any, or empty."""
    try:
        rows = await client.get(f"nodes/{node}/tasks", source="active", typefilter=kind, limit=500)
    except RightMissing:
        return ""
    users = {client.account, client.account.partition("!")[0]}
    for row in rows:
        running = not row.get("endtime") and row.get("status") in (None, "", "running", "RUNNING")
        if running and str(row.get("user")) in users and str(row.get("id")) in ids and kind in (None, row.get("type")):
            return str(row["upid"])
    return ""
