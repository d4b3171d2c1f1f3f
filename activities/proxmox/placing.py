"""Which node a machine goes to: live facts, and the pure choice under the store's lock."""

from collections.abc import Sequence

from temporalio import activity

from activities.proxmox.acting import AWAY_PAUSE, DONE, Acting, MachineScene, effect, final, waiting
from activities.proxmox.presence import Resources
from activities.proxmox.vm_config import drives, is_cdrom, storage_of
from clients.proxmox import ProxmoxClient, ProxmoxError
from domain.conditions import Condition, ConditionType, Reason
from domain.contracts import activities as names
from domain.contracts.activities import Handle, MachineRef
from domain.machines import Machine, Phase
from domain.placement import NodeFacts, Placement, Refusals, place
from domain.sites import Template

_MIB = 2**20


class _NothingFits(Exception):
    """Ends the store's transaction without a choice."""

    def __init__(self, refusals: Refusals) -> None:
        super().__init__(refusals.message)
        self.reason = refusals.reason


class Placing(Acting):
    """proxmox.place_machine."""

    @activity.defn(name=names.PLACE_MACHINE)
    @effect
    async def place_machine(self, ref: MachineRef) -> Handle:
        """Chooses the machine's node and the template that it is cloned from there.

        Effect: node and template in the machine's row, the cluster's condition MachinesPlaced; nothing outside.
        Key: the machine; the choice is made among all machines of the site in one transaction.
        Done-when: the row has both. A machine that is placed stays placed.
        Final: no template of the cluster's version is registered, or none is there.
        """
        scene = await self._take(ref)
        if scene.machine.phase.reached(Phase.PLACED) and scene.machine.node and scene.machine.template_vmid:
            await self._tell_placed(scene)
            return DONE
        return await self._place(scene, await Resources.read(scene.client))

    async def _place(self, scene: MachineScene, resources: Resources) -> Handle:
        """Chooses anew, from what was just read; also for a machine whose node went away before its VM was made."""
        template = await self._template(scene, resources)
        if isinstance(template, Handle):
            return template
        facts = await node_facts(scene.client, resources)
        await self._still_held(scene)

        def choose(others: Sequence[Machine]) -> Placement:
            spec = scene.cluster.spec
            chosen = place(
                scene.machine,
                others,
                facts,
                template,
                storage=spec.storage,
                bridge=spec.network.bridge,
                allowed=spec.allowed_nodes,
                seen_on={int(row["vmid"]): str(row["node"]) for row in resources.rows if row.get("type") == "qemu"},
            )
            if isinstance(chosen, Refusals):
                raise _NothingFits(chosen)
            return chosen

        try:
            await self._store.machines.place(scene.machine.id, choose)
        except _NothingFits as nothing:
            return await self._unplaced(scene, nothing.reason, str(nothing))
        if scene.machine.message:
            await self._store.machines.note(scene.machine.id, "")
        await self._tell_placed(scene)
        return DONE

    async def _unplaced(self, scene: MachineScene, reason: Reason, why: str) -> Handle:
        """Waits, and says so on the machine and in the cluster's condition."""
        await self._store.machines.note(scene.machine.id, why)
        await self._store.clusters.set_condition(
            scene.cluster.id,
            Condition(
                type=ConditionType.MACHINES_PLACED,
                status=False,
                reason=reason,
                message=f"{scene.machine.name} waits for a node: {why}",
            ),
        )
        return waiting(why, AWAY_PAUSE)

    async def _tell_placed(self, scene: MachineScene) -> None:
        """MachinesPlaced becomes true when no machine of the cluster is without a node."""
        machines = await self._store.machines.of_cluster(scene.cluster.id)
        if all(machine.node for machine in machines):
            told = Condition(type=ConditionType.MACHINES_PLACED, status=True, reason=Reason.READY)
            await self._store.clusters.set_condition(scene.cluster.id, told)

    async def _template(self, scene: MachineScene, resources: Resources) -> Template | Handle:
        """The registered template that suits best, with the nodes where it really is now; or what to wait for.

        One whose disks lie on the cluster's own storage comes first: it can be cloned in place. A template can be
        cloned to another node only where both storages are shared (facts/proxmox.md 1.9).
        """
        spec = scene.cluster.spec
        registered = await self._store.templates.find_all(scene.site.id, spec.distribution, scene.machine.version)
        there = [
            (template, {str(row["node"]): vmid for vmid, row in _rows_of(template, resources)})
            for template in registered
        ]
        # The node that keeps a template's configuration is the one that clones it, wherever its disks are.
        online = [
            (template, {node: vmid for node, vmid in nodes.items() if not resources.offline(node)})
            for template, nodes in there
        ]
        here = [(template, nodes) for template, nodes in online if nodes]
        away = sorted({node for _, nodes in there for node in nodes if resources.offline(node)})
        if not here and away:
            why = f"node {away[0]} is offline, which keeps the template"
            return await self._unplaced(scene, Reason.NODE_OFFLINE, why)
        if not here:
            known = "none is registered" if not registered else "the registered ones are gone or cannot be seen"
            raise final(
                f"There is no template of {spec.distribution} {scene.machine.version} at site {scene.site.name}: "
                f"{known}. Register one (`trilithon template add`), then retry.",
                "TemplateMissing",
            )
        ranked = []
        for template, nodes in here:
            source, vmid = next(iter(nodes.items()))
            stores = await _stores_of(scene.client, source, vmid)
            in_place = stores == {spec.storage}
            row = resources.storage(spec.storage, source)
            shared = template.shared and bool(row is not None and int(row.get("shared") or 0))
            ranked.append((not in_place, not shared, template.model_copy(update={"nodes": nodes, "shared": shared})))
        ranked.sort(key=lambda item: item[:2])
        return ranked[0][2]


def _rows_of(template: Template, resources: Resources) -> list[tuple[int, dict[str, object]]]:
    """The template's VMs that are there, with their rows."""
    found = []
    for vmid in sorted(set(template.nodes.values())):
        row = resources.vm(vmid)
        if row is not None and int(row.get("template") or 0):
            found.append((vmid, dict(row)))
    return found


async def _stores_of(client: ProxmoxClient, node: str, vmid: int) -> set[str]:
    """The storages of a template's disks; empty when its node does not say."""
    try:
        config = await client.get(f"nodes/{node}/qemu/{vmid}/config")
    except ProxmoxError:
        return set()
    return {storage_of(drive) for drive in drives(config).values() if not is_cdrom(drive)}


async def node_facts(client: ProxmoxClient, resources: Resources) -> list[NodeFacts]:
    """What placement needs to know of every node; one GET for each that is online."""
    facts = []
    for name, online in sorted(resources.nodes.items()):
        row = next(row for row in resources.rows if row.get("type") == "node" and row.get("node") == name)
        free = None
        if row.get("maxmem") is not None and row.get("mem") is not None:
            free = (int(row["maxmem"]) - int(row["mem"])) // _MIB
        bridges = await _bridges(client, name) if online else frozenset()
        storages = frozenset(
            str(storage["storage"])
            for storage in resources.rows
            if storage.get("type") == "storage"
            and storage.get("node") == name
            and storage.get("status") in (None, "available")
        )
        facts.append(NodeFacts(name=name, online=online, memory_free_mib=free, storages=storages, bridges=bridges))
    return facts


async def _bridges(client: ProxmoxClient, node: str) -> frozenset[str]:
    try:
        rows = await client.get(f"nodes/{node}/network", type="any_bridge")
    except ProxmoxError:
        return frozenset()
    return frozenset(str(row["iface"]) for row in rows if row.get("iface"))
