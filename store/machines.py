"""Machines: identities reserved before the first effect, and the row that two attempts at an effect compete for.

VM ids, addresses and places are given out under the lock of the site's row, so that creates that run at the same time
see each other's reservations; the unique indexes of the tables would stop a mistake in that.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from sqlalchemy import Row, insert, select, update
from sqlalchemy.exc import IntegrityError

from domain.addresses import network_id
from domain.clusters import ClusterSpec
from domain.machines import Machine, MachineDraft, Phase
from domain.placement import Placement
from store import networks, tables
from store.database import Database, Writing
from store.errors import Conflict, NotFound
from store.rows import MACHINE_COLUMNS, lock_cluster, lock_site, machine_from
from store.vmids import next_vmids

_t = tables.machines
_living = _t.c.gone_at.is_(None)

ADVANCE_FIELDS = frozenset(
    {"node", "template_vmid", "message", "initialiser", "version", "cores", "memory_mib", "disk_gib"}
)
"""What `advance` may write besides the phase; identities never change after their reservation."""


class Machines:
    """Repository of machines."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def reserve(self, cluster_id: str, drafts: Sequence[MachineDraft]) -> list[Machine]:
        """Gives every draft a VM id of the site's range and an address of the cluster's network, all or none.

        Idempotent: a draft whose name the cluster has already gives that machine as it is. Raises NoFreeVmid,
        NoFreeAddress, NotFound (no such cluster) and Conflict (the cluster is being deleted, a draft's machine has
        come and gone, or a draft clashes with a living machine: MAC, second initialiser).
        """
        site_id = await self._site_of_cluster(cluster_id)
        try:
            async with self._database.write() as writing:
                site = await lock_site(writing, site_id)
                cluster = await lock_cluster(writing, cluster_id)
                existing = await self._existing(writing, cluster_id, drafts)
                missing = [draft for draft in drafts if draft.name not in existing]
                if missing:
                    if cluster.deletion_requested_at is not None:
                        raise Conflict(f"cluster {cluster.pool_name} is being deleted; no machine is added to it")
                    await self._insert(writing, site, cluster, missing)
                    existing = await self._existing(writing, cluster_id, drafts)
                return [existing[draft.name] for draft in drafts]
        except IntegrityError as error:
            raise Conflict(f"machines of cluster {cluster_id} clash with living ones: {error.orig}") from error

    async def _insert(
        self, writing: Writing, site: Row[Any], cluster: Row[Any], drafts: Sequence[MachineDraft]
    ) -> None:
        spec = ClusterSpec.model_validate(cluster.spec)
        free = await networks.Free.read(writing, cluster.id, site.id, spec)
        addresses = {draft.id: free.next() for draft in drafts}
        vmids = await next_vmids(writing, site, len(drafts))
        rows = [
            draft.model_dump(mode="json", include=_DRAFT_FIELDS)
            | {
                "cluster_id": cluster.id,
                "site_id": site.id,
                "phase": Phase.RESERVED.value,
                "vmid": vmid,
                "address": addresses[draft.id],
                "created_at": writing.now,
                "phase_at": writing.now,
            }
            for draft, vmid in zip(drafts, vmids, strict=True)
        ]
        await writing.connection.execute(insert(_t), rows)
        await networks.hold_for_machines(writing, network_id(site.id, spec.network), cluster.id, addresses)
        for draft in drafts:
            writing.changed("machine", draft.id, cluster_id=cluster.id, site_id=site.id)

    async def get(self, machine_id: str) -> Machine:
        """A machine, gone ones included. Raises NotFound."""
        async with self._database.read() as connection:
            row = (await connection.execute(select(*MACHINE_COLUMNS).where(_t.c.id == machine_id))).one_or_none()
        if row is None:
            raise NotFound("machine", machine_id)
        return machine_from(row)

    async def of_cluster(self, cluster_id: str, *, history: bool = False) -> list[Machine]:
        """The living machines of a cluster in the order of their reservation; with `history` gone ones too."""
        return (await self.of_clusters([cluster_id], history=history)).get(cluster_id, [])

    async def of_clusters(self, cluster_ids: Collection[str], *, history: bool = False) -> dict[str, list[Machine]]:
        """The machines of several clusters in one query, for lists."""
        query = select(*MACHINE_COLUMNS).where(_t.c.cluster_id.in_(list(cluster_ids)))
        found: dict[str, list[Machine]] = {cluster_id: [] for cluster_id in cluster_ids}
        for machine in await self._many(query if history else query.where(_living)):
            found[machine.cluster_id].append(machine)
        return found

    async def of_site(self, site_id: str) -> list[Machine]:
        """Every living machine of a site."""
        return await self._many(select(*MACHINE_COLUMNS).where(_t.c.site_id == site_id, _living))

    async def take(self, machine_id: str) -> int:
        """Takes the machine for one attempt at an effect and returns the attempt's number.

        The number is a fence: whoever took the machine before no longer `holds` it. Raises Conflict when it is gone.
        """
        async with self._database.write() as writing:
            taken = await writing.connection.execute(
                update(_t)
                .where(_t.c.id == machine_id, _living)
                .values(attempt=_t.c.attempt + 1)
                .returning(_t.c.attempt)
            )
            attempt = taken.scalar_one_or_none()
            if attempt is None:
                await self._lock(writing, machine_id)
                raise Conflict(f"machine {machine_id} is gone; there is nothing to take")
            return int(attempt)

    async def holds(self, machine_id: str, attempt: int) -> bool:
        """True while no later attempt has taken the machine."""
        query = select(_t.c.id).where(_t.c.id == machine_id, _t.c.attempt == attempt, _living)
        async with self._database.read() as connection:
            return (await connection.execute(query)).one_or_none() is not None

    async def advance(self, machine_id: str, phase: Phase, *, attempt: int | None = None, **fields: Any) -> Machine:
        """Writes that a phase was seen true, with what belongs to it (see ADVANCE_FIELDS).

        A phase never goes back: where the machine is further already, it is returned unchanged, fields and all. With
        `attempt` the write happens only while that attempt holds the machine, else Conflict. GONE releases it.
        """
        if unknown := fields.keys() - ADVANCE_FIELDS:
            raise ValueError(f"advance does not write {', '.join(sorted(unknown))}")
        async with self._database.write() as writing:
            row = await self._lock(writing, machine_id)
            if attempt is not None and row.attempt != attempt:
                raise Conflict(f"machine {row.name} was taken by a later attempt ({row.attempt}, not {attempt})")
            if Phase(row.phase).rank > phase.rank:
                return machine_from(row)
            if phase is Phase.GONE:
                await self._release(writing, row)
            else:
                await self._set(writing, row, phase=phase.value, **fields)
            return await self._read_back(writing, machine_id)

    async def place(self, machine_id: str, choose: Callable[[Sequence[Machine]], Placement]) -> Machine:
        """Lets `choose` pick a node from all living machines of the site, and stores its choice with phase PLACED.

        Serialised per site: of two machines placed at once the second sees the first one's node. What `choose` raises
        passes through and nothing is written. Raises Conflict when the machine is cloned already.
        """
        site_id = await self._site_of_machine(machine_id)
        async with self._database.write() as writing:
            await lock_site(writing, site_id)
            row = await self._lock(writing, machine_id)
            if Phase(row.phase).rank > Phase.PLACED.rank:
                raise Conflict(f"machine {row.name} stands already (phase {row.phase}); it is not placed again")
            rows = await writing.connection.execute(
                select(*MACHINE_COLUMNS).where(_t.c.site_id == site_id, _living).order_by(_t.c.created_at, _t.c.id)
            )
            chosen = choose([machine_from(other) for other in rows])
            await self._set(
                writing, row, phase=Phase.PLACED.value, node=chosen.node, template_vmid=chosen.template_vmid
            )
            return await self._read_back(writing, machine_id)

    async def burn_vmid(self, machine_id: str) -> Machine:
        """Gives the machine the next VM id, because a foreign VM turned out to have its own.

        It goes back to PLACED (RESERVED when it has no node): nothing of ours exists under the new id. Raises
        NoFreeVmid, and Conflict when the machine is being removed.
        """
        site_id = await self._site_of_machine(machine_id)
        async with self._database.write() as writing:
            site = await lock_site(writing, site_id)
            row = await self._lock(writing, machine_id)
            if Phase(row.phase).reached(Phase.DELETING):
                raise Conflict(f"machine {row.name} is being removed; it gets no other VM id")
            (vmid,) = await next_vmids(writing, site, 1)
            back = Phase.PLACED if row.node else Phase.RESERVED
            await self._set(writing, row, vmid=vmid, phase=back.value)
            return await self._read_back(writing, machine_id)

    async def note(self, machine_id: str, message: str) -> None:
        """Writes what the machine waits for or last failed with."""
        async with self._database.write() as writing:
            await self._set(writing, await self._lock(writing, machine_id), message=message)

    async def release(self, machine_id: str) -> None:
        """The VM was proved absent: phase GONE, address and VM id are free. Repeating it does nothing."""
        async with self._database.write() as writing:
            await self._release(writing, await self._lock(writing, machine_id))

    async def _release(self, writing: Writing, row: Row[Any]) -> None:
        if row.gone_at is not None:
            return
        await networks.release_machine(writing, row.id)
        await self._set(writing, row, phase=Phase.GONE.value, gone_at=writing.now, message="")

    async def _existing(self, writing: Writing, cluster_id: str, drafts: Sequence[MachineDraft]) -> dict[str, Machine]:
        """The machines that earlier attempts made of these drafts, by name."""
        query = select(*MACHINE_COLUMNS).where(_t.c.cluster_id == cluster_id)
        machines = [machine_from(row) for row in await writing.connection.execute(query)]
        living = {machine.name: machine for machine in machines if machine.phase is not Phase.GONE}
        gone = {machine.id for machine in machines if machine.phase is Phase.GONE}
        for draft in drafts:
            if draft.id in gone:
                # A late twin of an attempt whose machine has come and gone: it must not stand up again.
                raise Conflict(f"machine {draft.name} ({draft.id}) was removed already; draft it anew")
        return living

    async def _site_of_cluster(self, cluster_id: str) -> str:
        clusters = tables.clusters
        query = select(clusters.c.site_id).where(clusters.c.id == cluster_id, clusters.c.deleted_at.is_(None))
        return await self._site(query, "cluster", cluster_id)

    async def _site_of_machine(self, machine_id: str) -> str:
        return await self._site(select(_t.c.site_id).where(_t.c.id == machine_id), "machine", machine_id)

    async def _site(self, query: Any, kind: str, key: str) -> str:
        """The site whose lock comes first. A row never changes its site, so reading it without a lock is enough."""
        async with self._database.read() as connection:
            site_id = (await connection.execute(query)).scalar_one_or_none()
        if site_id is None:
            raise NotFound(kind, key)
        return str(site_id)

    async def _many(self, query: Any) -> list[Machine]:
        async with self._database.read() as connection:
            rows = (await connection.execute(query.order_by(_t.c.created_at, _t.c.vmid))).all()
        return [machine_from(row) for row in rows]

    async def _lock(self, writing: Writing, machine_id: str) -> Row[Any]:
        query = select(_t).where(_t.c.id == machine_id).with_for_update(key_share=True)
        row = (await writing.connection.execute(query)).one_or_none()
        if row is None:
            raise NotFound("machine", machine_id)
        return row

    async def _set(self, writing: Writing, row: Row[Any], **values: Any) -> None:
        differing = {name: value for name, value in values.items() if getattr(row, name) != value}
        if not differing:
            return
        if "phase" in differing:
            differing["phase_at"] = writing.now
        await writing.connection.execute(update(_t).where(_t.c.id == row.id).values(**differing))
        writing.changed("machine", row.id, cluster_id=row.cluster_id, site_id=row.site_id)

    async def _read_back(self, writing: Writing, machine_id: str) -> Machine:
        return machine_from(
            (await writing.connection.execute(select(*MACHINE_COLUMNS).where(_t.c.id == machine_id))).one()
        )


_DRAFT_FIELDS = {
    "id",
    "name",
    "role",
    "pool",
    "version",
    "cores",
    "memory_mib",
    "disk_gib",
    "mac",
    "bios_uuid",
    "initialiser",
}
