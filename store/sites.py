"""Sites. A removed site's row stays, because deleted clusters' history refers to it; its name is free again."""

from typing import Any

from sqlalchemy import Row, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from domain.sites import Site
from store import tables
from store.database import Database, Writing
from store.errors import AlreadyExists, Conflict, InUse, NotFound
from store.rows import lock_site

_t = tables.sites
_kept = _t.c.removed_at.is_(None)

SiteList = list[Site]


class Sites:
    """Repository of sites."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, site: Site) -> Site:
        """Keeps a new site (version 1, created now). Raises AlreadyExists for a name that is in use."""
        try:
            async with self._database.write() as writing:
                site = site.model_copy(update={"version": 1, "created_at": writing.now})
                await writing.connection.execute(
                    insert(_t).values(
                        id=site.id,
                        name=site.name,
                        body=_body(site),
                        version=1,
                        vmid_next=site.vmid_first,
                        created_at=writing.now,
                    )
                )
                writing.changed("site", site.id, site_id=site.id)
        except IntegrityError:
            raise await self._double(site) from None
        return site

    async def get(self, site_id: str) -> Site:
        """Raises NotFound."""
        row = await self._one(_t.c.id == site_id)
        if row is None:
            raise NotFound("site", site_id)
        return _site(row)

    async def find(self, name: str) -> Site | None:
        """The site of this name, or None."""
        row = await self._one(_t.c.name == name)
        return None if row is None else _site(row)

    async def update(self, site: Site, expected_version: int) -> Site:
        """Writes a site anew. Raises Conflict (changed meanwhile), AlreadyExists (name in use) and NotFound.

        The sequence of VM ids goes on where it stands if that lies within the new range.
        """
        try:
            async with self._database.write() as writing:
                row = await lock_site(writing, site.id)
                if row.version != expected_version:
                    raise Conflict(
                        f"site {row.name} was changed meanwhile (version {row.version}, not {expected_version}); "
                        "read it again"
                    )
                version = row.version + 1
                site = site.model_copy(update={"version": version, "created_at": row.created_at})
                inside = site.vmid_first <= row.vmid_next <= site.vmid_last
                await writing.connection.execute(
                    update(_t)
                    .where(_t.c.id == site.id)
                    .values(
                        name=site.name,
                        body=_body(site),
                        version=version,
                        vmid_next=row.vmid_next if inside else site.vmid_first,
                    )
                )
                writing.changed("site", site.id, site_id=site.id)
        except IntegrityError:
            raise await self._double(site) from None
        return site

    async def remove(self, site_id: str) -> None:
        """Removes a site and its secrets. Raises InUse while clusters or templates belong to it, and NotFound."""
        async with self._database.write() as writing:
            row = await lock_site(writing, site_id)
            if users := await self._users(writing, site_id):
                raise InUse(f"site {row.name} is used by {users}")
            await writing.connection.execute(delete(tables.secrets).where(tables.secrets.c.scope == f"site/{site_id}"))
            await writing.connection.execute(update(_t).where(_t.c.id == site_id).values(removed_at=writing.now))
            writing.changed("site", site_id, site_id=site_id)

    async def list(self) -> SiteList:
        """Every site, by name."""
        async with self._database.read() as connection:
            rows = await connection.execute(select(_t).where(_kept).order_by(_t.c.name))
            return [_site(row) for row in rows]

    async def _one(self, condition: Any) -> Row[Any] | None:
        async with self._database.read() as connection:
            return (await connection.execute(select(_t).where(_kept, condition))).one_or_none()

    async def _users(self, writing: Writing, site_id: str) -> str:
        clusters, templates = tables.clusters, tables.templates
        names = (
            await writing.connection.execute(
                select(clusters.c.namespace, clusters.c.name)
                .where(clusters.c.site_id == site_id, clusters.c.deleted_at.is_(None))
                .order_by(clusters.c.pool_name)
            )
        ).all()
        registered = (
            await writing.connection.execute(
                select(templates.c.distribution, templates.c.version).where(templates.c.site_id == site_id)
            )
        ).all()
        return ", ".join(
            [f"cluster {row.namespace}/{row.name}" for row in names]
            + [f"template {row.distribution} {row.version}" for row in registered]
        )

    async def _double(self, site: Site) -> AlreadyExists:
        existing = await self.find(site.name)
        return AlreadyExists(f"site {site.name} exists already", existing.id if existing else site.id)


def _body(site: Site) -> dict[str, Any]:
    return site.model_dump(mode="json", exclude={"version", "created_at"})


def _site(row: Row[Any]) -> Site:
    return Site.model_validate({**row.body, "version": row.version, "created_at": row.created_at})
