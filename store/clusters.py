"""Clusters: what their owners want, and the outbox that jobs are started from.

Optimistic versions guard what a person edits (`change_spec`). What jobs and monitors write (conditions, status, marks,
attempts) does not raise the version, so that a person who edits a spec meanwhile is not sent away for nothing.
"""

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from domain.addresses import network_id
from domain.clusters import Cluster, ClusterSpec, ClusterStatus, Mark, Outcome
from domain.conditions import Condition
from domain.etcd import EtcdView
from domain.frozen import Payload
from domain.jobs import wanted_job
from store import networks, tables
from store.database import Database, Writing
from store.diff import spec_diff
from store.errors import AlreadyExists, Conflict, InUse, NotFound
from store.rows import CLUSTER_COLUMNS, cluster_from, lock_cluster, lock_site, spec_document

_t = tables.clusters
_living = _t.c.deleted_at.is_(None)

SORTS = {
    "name": _t.c.pool_name,
    "namespace": _t.c.namespace,
    "site": _t.c.site_id,
    "status": _t.c.status,
    "created": _t.c.created_at,
}

_FINALITY = {Outcome.SUPERSEDED: 0, Outcome.ABORTED: 1, Outcome.DONE: 2}
"""For one generation a late word of a lesser kind never replaces a final one."""


class Revision(Payload):
    """One accepted change of a cluster's spec. `diff` is a list of {path, old, new}; see store.diff."""

    number: int
    author: str
    at: datetime
    spec: ClusterSpec
    diff: list[dict[str, Any]]


@dataclass(frozen=True)
class ClusterOutline:
    """What is asked of every living cluster at once: who it is, and how far its jobs have come."""

    id: str
    site_id: str
    namespace: str
    name: str
    marks: tuple[Mark, ...]
    deleting: bool


class Clusters:
    """Repository of clusters."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(
        self, spec: ClusterSpec, site_id: str, author: str, conditions: Sequence[Condition] = ()
    ) -> Cluster:
        """Accepts a new cluster: generation 1, revision 1, its virtual IP reserved, with its first conditions.

        Raises AlreadyExists (a living cluster has this namespace and name), InUse (the virtual IP is taken) and
        NotFound (no such site).
        """
        cluster_id = str(uuid.uuid4())
        try:
            async with self._database.write() as writing:
                await lock_site(writing, site_id)
                await self._refuse_double(writing, spec)
                await writing.connection.execute(
                    insert(_t).values(
                        id=cluster_id,
                        namespace=spec.namespace,
                        name=spec.name,
                        pool_name=spec.pool_name,
                        site_id=site_id,
                        spec=spec_document(spec),
                        generation=1,
                        status=ClusterStatus.PROVISIONING.value,
                        conditions=[
                            one.model_copy(update={"last_transition": writing.now}).model_dump(mode="json")
                            for one in conditions
                        ],
                        marks=[],
                        created_at=writing.now,
                        created_by=author,
                        version=1,
                    )
                )
                await self._add_revision(writing, cluster_id, 1, author, spec, [])
                await self._hold_virtual_ip(writing, cluster_id, site_id, spec)
                writing.changed("cluster", cluster_id, cluster_id=cluster_id, site_id=site_id)
                return await self._read_back(writing, cluster_id)
        except IntegrityError:
            # Two creates under different sites pass each other's check; the unique index stops the later one.
            existing = await self.find(spec.namespace, spec.name)
            if existing is None:
                raise
            raise _double(spec, existing.id) from None

    async def get(self, cluster_id: str, *, history: bool = False) -> Cluster:
        """A living cluster; with `history` also a deleted one. Raises NotFound."""
        query = select(*CLUSTER_COLUMNS).where(_t.c.id == cluster_id)
        async with self._database.read() as connection:
            row = (await connection.execute(query if history else query.where(_living))).one_or_none()
        if row is None:
            raise NotFound("cluster", cluster_id)
        return cluster_from(row)

    async def find(self, namespace: str, name: str) -> Cluster | None:
        """The living cluster of this name, or None."""
        query = select(*CLUSTER_COLUMNS).where(_living, _t.c.namespace == namespace, _t.c.name == name)
        async with self._database.read() as connection:
            row = (await connection.execute(query)).one_or_none()
        return None if row is None else cluster_from(row)

    async def page(
        self,
        *,
        site_id: str | None = None,
        names: Collection[str] | None = None,
        text: str = "",
        status: ClusterStatus | str | None = None,
        sort: str = "name",
        offset: int = 0,
        limit: int = 50,
    ) -> tuple[list[Cluster], int]:
        """One page of living clusters and how many match in all.

        `names` limits the answer to these clusters, each as `<namespace>.<name>` (its pool name) or
        `<namespace>/<name>`: what a person may see. `text` is looked for in that name. `sort` is a key of SORTS,
        descending with a leading `-`. Raises ValueError for an unknown sort.
        """
        where: list[ColumnElement[bool]] = [_living]
        if site_id is not None:
            where.append(_t.c.site_id == site_id)
        if names is not None:
            where.append(_t.c.pool_name.in_([name.replace("/", ".", 1) for name in names]))
        if text:
            where.append(_t.c.pool_name.icontains(text, autoescape=True))
        if status is not None:
            where.append(_t.c.status == str(status))
        column = SORTS.get(sort.removeprefix("-"))
        if column is None:
            raise ValueError(f"clusters cannot be sorted by {sort!r}; known: {', '.join(SORTS)}")
        order = column.desc() if sort.startswith("-") else column.asc()
        query = select(*CLUSTER_COLUMNS).where(*where).order_by(order, _t.c.pool_name, _t.c.id)
        async with self._database.read() as connection:
            total = (await connection.execute(select(func.count()).select_from(_t).where(*where))).scalar_one()
            rows = (await connection.execute(query.offset(offset).limit(limit))).all() if total else []
        return [cluster_from(row) for row in rows], total

    async def all_living(self) -> list[Cluster]:
        """Every cluster that is not deleted, for checks against all of them (overlapping addresses)."""
        async with self._database.read() as connection:
            rows = (await connection.execute(select(*CLUSTER_COLUMNS).where(_living).order_by(_t.c.pool_name))).all()
        return [cluster_from(row) for row in rows]

    async def outlines(self, ids: Collection[str] | None = None) -> list[ClusterOutline]:
        """Living clusters without their specifications: what an index of a thousand is made of in milliseconds.

        `ids` limits the answer to these clusters; None gives all.
        """
        where = _living if ids is None else _living & _t.c.id.in_(ids)
        query = select(_t.c.id, _t.c.site_id, _t.c.namespace, _t.c.name, _t.c.marks, _t.c.deletion_requested_at)
        async with self._database.read() as connection:
            rows = (await connection.execute(query.where(where))).all()
        return [
            ClusterOutline(
                row.id,
                row.site_id,
                row.namespace,
                row.name,
                tuple(Mark(item) for item in row.marks),
                row.deletion_requested_at is not None,
            )
            for row in rows
        ]

    async def change_spec(self, cluster_id: str, spec: ClusterSpec, author: str, expected_version: int) -> Cluster:
        """Accepts the next generation of a cluster; the same spec again changes nothing.

        Raises Conflict (changed meanwhile, or being deleted), InUse (the new virtual IP is taken) and NotFound.
        """
        site_id = (await self.get(cluster_id)).site_id
        async with self._database.write() as writing:
            await lock_site(writing, site_id)
            row = await lock_cluster(writing, cluster_id)
            if row.version != expected_version:
                raise Conflict(
                    f"cluster {row.namespace}/{row.name} was changed meanwhile (version {row.version}, "
                    f"not {expected_version}); read it again"
                )
            if row.deletion_requested_at is not None:
                raise Conflict(f"cluster {row.namespace}/{row.name} is being deleted; it cannot be changed")
            if (spec.namespace, spec.name) != (row.namespace, row.name):
                raise ValueError("a cluster keeps its namespace and name")
            if row.spec == spec_document(spec):
                return await self._read_back(writing, cluster_id)
            old = ClusterSpec.model_validate(row.spec)
            generation = row.generation + 1
            await self._next_generation(writing, row, spec=spec_document(spec))
            await self._add_revision(writing, cluster_id, generation, author, spec, spec_diff(old, spec))
            if _virtual_ip_place(site_id, old) != _virtual_ip_place(site_id, spec):
                await networks.release_virtual_ip(writing, cluster_id)
                await self._hold_virtual_ip(writing, cluster_id, site_id, spec)
            return await self._read_back(writing, cluster_id)

    async def request_deletion(self, cluster_id: str, author: str) -> Cluster:
        """Records that the cluster shall go: one generation more, once. Raises NotFound when it is gone already."""
        async with self._database.write() as writing:
            row = await lock_cluster(writing, cluster_id)
            if row.deletion_requested_at is None:
                await self._next_generation(
                    writing, row, deletion_requested_at=writing.now, status=ClusterStatus.DELETING.value
                )
                wish = [{"path": "deletion", "old": None, "new": "requested"}]
                spec = ClusterSpec.model_validate(row.spec)
                await self._add_revision(writing, cluster_id, row.generation + 1, author, spec, wish)
            return await self._read_back(writing, cluster_id)

    async def unsettled(self, now: datetime) -> list[Cluster]:
        """The outbox: clusters that need a job whose pause after a failed attempt has passed, oldest due first."""
        query = (
            select(*CLUSTER_COLUMNS)
            .where(_living, _t.c.generation > _t.c.settled_generation)
            .where(_t.c.next_attempt_at.is_(None) | (_t.c.next_attempt_at <= now))
            .order_by(_t.c.next_attempt_at, _t.c.created_at)
        )
        async with self._database.read() as connection:
            rows = (await connection.execute(query)).all()
        # The rule itself has one home, domain.jobs; the query only keeps settled clusters out of Python.
        return [cluster for cluster in map(cluster_from, rows) if wanted_job(cluster) is not None]

    async def record_attempt(self, cluster_id: str, next_attempt_at: datetime) -> None:
        """Counts one attempt to run a job and sets when the next may start."""
        async with self._database.write() as writing:
            row = await lock_cluster(writing, cluster_id)
            await self._set(writing, row, attempt=row.attempt + 1, next_attempt_at=next_attempt_at)

    async def settle(self, cluster_id: str, generation: int, outcome: Outcome) -> None:
        """Writes how the job for `generation` ended. Never goes back; works on a deleted cluster too.

        Only `done` settles the generation: after `superseded` a later job takes it up, after `aborted` none does.
        """
        async with self._database.write() as writing:
            row = await lock_cluster(writing, cluster_id, history=True)
            if generation < max(row.settled_generation, row.outcome_generation) or generation > row.generation:
                return
            if generation == row.outcome_generation and _FINALITY[outcome] < _FINALITY[Outcome(row.outcome)]:
                return
            values: dict[str, Any] = {
                "outcome": outcome.value,
                "outcome_generation": generation,
                "attempt": 0,
                "next_attempt_at": None,
            }
            if outcome is Outcome.DONE:
                values["settled_generation"] = generation
            await self._set(writing, row, **values)

    async def add_marks(self, cluster_id: str, *marks: Mark) -> None:
        """Remembers effects that were seen done."""
        async with self._database.write() as writing:
            row = await lock_cluster(writing, cluster_id)
            kept = list(row.marks)
            await self._set(writing, row, marks=kept + [m.value for m in dict.fromkeys(marks) if m.value not in kept])

    async def drop_marks(self, cluster_id: str, *marks: Mark) -> None:
        """Forgets effects that have to be looked at again."""
        async with self._database.write() as writing:
            row = await lock_cluster(writing, cluster_id)
            dropped = {mark.value for mark in marks}
            await self._set(writing, row, marks=[mark for mark in row.marks if mark not in dropped])

    async def set_condition(self, cluster_id: str, condition: Condition) -> None:
        """Writes one condition if its status, reason or message differ; the transition time moves with the status."""
        async with self._database.write() as writing:
            row = await lock_cluster(writing, cluster_id)
            kept = [Condition.model_validate(item) for item in row.conditions]
            before = next((item for item in kept if item.type == condition.type), None)
            flipped = before is None or before.status != condition.status
            since = writing.now if before is None or flipped else before.last_transition
            after = condition.model_copy(update={"last_transition": since})
            if before == after:
                return
            changed = [after if item.type == condition.type else item for item in kept]
            if before is None:
                changed.append(after)
            await self._set(writing, row, conditions=[item.model_dump(mode="json") for item in changed])

    async def set_etcd(self, cluster_id: str, view: EtcdView) -> None:
        """Writes what was seen of its etcd, if it differs."""
        async with self._database.write() as writing:
            row = await lock_cluster(writing, cluster_id)
            await self._set(writing, row, etcd=view.model_dump(mode="json"))

    async def set_status(self, cluster_id: str, status: ClusterStatus) -> None:
        """Writes the one word that lists show, if it differs."""
        async with self._database.write() as writing:
            row = await lock_cluster(writing, cluster_id)
            await self._set(writing, row, status=status.value)

    async def forget(self, cluster_id: str) -> None:
        """Ends a cluster's life after its delete: virtual IP and secrets go, the row stays as history.

        Repeating it does nothing. Raises InUse while a machine is not proved gone.
        """
        async with self._database.write() as writing:
            row = await lock_cluster(writing, cluster_id, history=True)
            if row.deleted_at is not None:
                return
            machines = tables.machines
            left = (
                await writing.connection.execute(
                    select(machines.c.name).where(machines.c.cluster_id == cluster_id, machines.c.gone_at.is_(None))
                )
            ).scalars()
            if names := sorted(left):
                raise InUse(f"cluster {row.namespace}/{row.name} still has machines: {', '.join(names)}")
            await writing.connection.execute(
                delete(tables.addresses).where(tables.addresses.c.cluster_id == cluster_id)
            )
            await writing.connection.execute(
                delete(tables.secrets).where(tables.secrets.c.scope == f"cluster/{cluster_id}")
            )
            await self._set(writing, row, deleted_at=writing.now)

    async def revisions(self, cluster_id: str) -> list[Revision]:
        """Every accepted change, oldest first; also of a deleted cluster."""
        r = tables.revisions
        async with self._database.read() as connection:
            rows = await connection.execute(select(r).where(r.c.cluster_id == cluster_id).order_by(r.c.number))
            return [Revision.model_validate(dict(row._mapping)) for row in rows]

    async def _refuse_double(self, writing: Writing, spec: ClusterSpec) -> None:
        query = select(_t.c.id).where(_living, _t.c.namespace == spec.namespace, _t.c.name == spec.name)
        existing = (await writing.connection.execute(query)).scalar_one_or_none()
        if existing is not None:
            raise _double(spec, existing)

    async def _hold_virtual_ip(self, writing: Writing, cluster_id: str, site_id: str, spec: ClusterSpec) -> None:
        address = networks.virtual_ip(spec)
        if address is not None:
            await networks.hold_virtual_ip(writing, network_id(site_id, spec.network), address, cluster_id)

    async def _add_revision(
        self, writing: Writing, cluster_id: str, number: int, author: str, spec: ClusterSpec, diff: list[dict[str, Any]]
    ) -> None:
        await writing.connection.execute(
            insert(tables.revisions).values(
                cluster_id=cluster_id, number=number, author=author, at=writing.now, spec=spec_document(spec), diff=diff
            )
        )

    async def _next_generation(self, writing: Writing, row: Row[Any], **values: Any) -> None:
        # A new wish starts at once, whatever pause the last one's failures had earned.
        await self._set(
            writing,
            row,
            generation=row.generation + 1,
            version=row.version + 1,
            attempt=0,
            next_attempt_at=None,
            **values,
        )

    async def _set(self, writing: Writing, row: Row[Any], **values: Any) -> None:
        """Writes the values that differ, and nothing at all when none does (promise 7)."""
        differing = {name: value for name, value in values.items() if getattr(row, name) != value}
        if not differing:
            return
        await writing.connection.execute(update(_t).where(_t.c.id == row.id).values(**differing))
        writing.changed("cluster", row.id, cluster_id=row.id, site_id=row.site_id)

    async def _read_back(self, writing: Writing, cluster_id: str) -> Cluster:
        return cluster_from(
            (await writing.connection.execute(select(*CLUSTER_COLUMNS).where(_t.c.id == cluster_id))).one()
        )


def _double(spec: ClusterSpec, existing_id: str) -> AlreadyExists:
    return AlreadyExists(f"cluster {spec.namespace}/{spec.name} exists already", existing_id)


def _virtual_ip_place(site_id: str, spec: ClusterSpec) -> tuple[str, str | None]:
    return network_id(site_id, spec.network), networks.virtual_ip(spec)
