"""Rows to domain types and back, and the locks that several nouns share."""

from typing import Any

from sqlalchemy import Row, select

from domain.clusters import Cluster, ClusterSpec, ClusterStatus, Mark, Outcome
from domain.conditions import Condition
from domain.machines import Machine
from store import tables
from store.database import Writing
from store.errors import NotFound

CLUSTER_COLUMNS = [column for column in tables.clusters.c if column.name not in {"pool_name", "deleted_at"}]
MACHINE_COLUMNS = [
    column for column in tables.machines.c if column.name not in {"site_id", "created_at", "phase_at", "gone_at"}
]


def spec_document(spec: ClusterSpec) -> dict[str, Any]:
    """A spec as it is kept: only what the owner (or we for them) set, so that it comes back as it was given."""
    return spec.model_dump(mode="json", exclude_unset=True)


def cluster_from(row: Row[Any]) -> Cluster:
    fields = dict(row._mapping)
    return Cluster(
        **{
            **fields,
            "spec": ClusterSpec.model_validate(fields["spec"]),
            "outcome": Outcome(fields["outcome"]) if fields["outcome"] else None,
            "status": ClusterStatus(fields["status"]),
            "conditions": tuple(Condition.model_validate(item) for item in fields["conditions"]),
            "marks": tuple(Mark(item) for item in fields["marks"]),
        }
    )


def machine_from(row: Row[Any]) -> Machine:
    return Machine.model_validate(dict(row._mapping))


async def lock_site(writing: Writing, site_id: str) -> Row[Any]:
    """Takes the site's row, under which VM ids, addresses and places are given out. Raises NotFound.

    `FOR NO KEY UPDATE` on PostgreSQL: a plain row lock would stop every insert that refers to the site.
    """
    row = (
        await writing.connection.execute(
            select(tables.sites)
            .where(tables.sites.c.id == site_id, tables.sites.c.removed_at.is_(None))
            .with_for_update(key_share=True)
        )
    ).one_or_none()
    if row is None:
        raise NotFound("site", site_id)
    return row


async def lock_cluster(writing: Writing, cluster_id: str, *, history: bool = False) -> Row[Any]:
    """Takes a cluster's row for writing. Raises NotFound when it does not exist (or is deleted, without `history`)."""
    query = select(tables.clusters).where(tables.clusters.c.id == cluster_id)
    if not history:
        query = query.where(tables.clusters.c.deleted_at.is_(None))
    row = (await writing.connection.execute(query.with_for_update(key_share=True))).one_or_none()
    if row is None:
        raise NotFound("cluster", cluster_id)
    return row
