"""The cache of Helm charts: archives by name and version, with where they came from."""

import hashlib
from typing import Any

from sqlalchemy import delete, insert, select

from domain.charts import KeptChart
from domain.clusters import Cluster, ClusterSpec
from domain.releases import charts_of
from store import tables
from store.database import Database
from store.errors import AlreadyExists, InUse, NotFound

_t = tables.charts
_listed = (_t.c.name, _t.c.version, _t.c.digest, _t.c.source, _t.c.size, _t.c.created_at)

ChartList = list[KeptChart]


class Charts:
    """Repository of charts."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, name: str, version: str, data: bytes, source: str) -> KeptChart:
        """Keeps an archive. The same bytes again are fine and change nothing.

        Raises AlreadyExists when other bytes are kept under this name and version: a version means one thing.
        """
        digest = hashlib.sha256(data).hexdigest()
        async with self._database.write() as writing:
            found = await writing.connection.execute(select(*_listed).where(_t.c.name == name, _t.c.version == version))
            if (row := found.one_or_none()) is not None:
                if row.digest == digest:
                    return _chart(row)
                raise AlreadyExists(f"chart {name} {version} is kept with other content", f"{name}/{version}")
            kept = KeptChart(
                name=name, version=version, digest=digest, source=source, size=len(data), created_at=writing.now
            )
            await writing.connection.execute(insert(_t).values(**kept.model_dump(), content=data))
            writing.changed("chart", f"{name}/{version}"[:64])
            return kept

    async def get(self, name: str, version: str) -> KeptChart:
        """Raises NotFound."""
        async with self._database.read() as connection:
            found = await connection.execute(select(*_listed).where(_t.c.name == name, _t.c.version == version))
            if (row := found.one_or_none()) is None:
                raise NotFound("chart", f"{name} {version}")
            return _chart(row)

    async def content(self, name: str, version: str) -> bytes:
        """The archive itself. Raises NotFound."""
        async with self._database.read() as connection:
            found = await connection.execute(select(_t.c.content).where(_t.c.name == name, _t.c.version == version))
            if (row := found.one_or_none()) is None:
                raise NotFound("chart", f"{name} {version}")
            return bytes(row.content)

    async def list(self) -> ChartList:
        """Every kept chart by name and version, without its content."""
        async with self._database.read() as connection:
            return [_chart(row) for row in await connection.execute(select(*_listed).order_by(_t.c.name, _t.c.version))]

    async def remove(self, name: str, version: str) -> None:
        """Forgets an archive. Raises NotFound, and InUse while a living cluster's releases come from it."""
        clusters = tables.clusters
        async with self._database.write() as writing:
            living = await writing.connection.execute(
                select(clusters.c.pool_name, clusters.c.spec)
                .where(clusters.c.deleted_at.is_(None))
                .order_by(clusters.c.pool_name)
            )
            users = [row.pool_name for row in living if _needs(ClusterSpec.model_validate(row.spec), name, version)]
            if users:
                raise InUse(f"chart {name} {version} is used by {', '.join(users[:5])}")
            gone = await writing.connection.execute(
                delete(_t).where(_t.c.name == name, _t.c.version == version).returning(_t.c.name)
            )
            if gone.one_or_none() is None:
                raise NotFound("chart", f"{name} {version}")
            writing.changed("chart", f"{name}/{version}"[:64])


def used_by(chart: KeptChart, clusters: list[Cluster]) -> list[Cluster]:
    """The clusters whose releases come from this chart."""
    return [cluster for cluster in clusters if _needs(cluster.spec, chart.name, chart.version)]


def _needs(spec: ClusterSpec, name: str, version: str) -> bool:
    return any((chart.name, chart.version) == (name, version) for chart in charts_of(spec))


def _chart(row: Any) -> KeptChart:
    return KeptChart.model_validate(dict(row._mapping))
