"""VM templates registered with a site. Several may serve one version (on shared storage, on local storage)."""

from typing import Any

from sqlalchemy import Row, delete, insert, select

from domain.clusters import Distribution
from domain.machines import Phase
from domain.sites import Template
from store import tables
from store.database import Database
from store.errors import AlreadyExists, InUse, NotFound
from store.rows import lock_site

_t = tables.templates

TemplateList = list[Template]


class Templates:
    """Repository of templates."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, template: Template) -> Template:
        """Registers a template (created now).

        Raises AlreadyExists when one of its VM ids is registered at this site, and NotFound (no such site).
        """
        async with self._database.write() as writing:
            await lock_site(writing, template.site_id)
            rows = await writing.connection.execute(select(_t).where(_t.c.site_id == template.site_id))
            for other in map(_template, rows):
                if other.id == template.id or set(other.nodes.values()) & set(template.nodes.values()):
                    raise AlreadyExists(
                        f"VM {', '.join(map(str, sorted(set(other.nodes.values()))))} is registered already as the "
                        f"template of {other.distribution} {other.version}",
                        other.id,
                    )
            template = template.model_copy(update={"created_at": writing.now})
            await writing.connection.execute(
                insert(_t).values(
                    id=template.id,
                    site_id=template.site_id,
                    distribution=template.distribution.value,
                    version=template.version,
                    body=template.model_dump(mode="json", exclude={"created_at"}),
                    created_at=writing.now,
                )
            )
            writing.changed("template", template.id, site_id=template.site_id)
            return template

    async def get(self, template_id: str) -> Template:
        """Raises NotFound."""
        async with self._database.read() as connection:
            row = (await connection.execute(select(_t).where(_t.c.id == template_id))).one_or_none()
        if row is None:
            raise NotFound("template", template_id)
        return _template(row)

    async def find(self, site_id: str, distribution: Distribution, version: str) -> Template | None:
        """A template of this version: one on shared storage before one on local storage, then the oldest."""
        found = await self.find_all(site_id, distribution, version)
        return found[0] if found else None

    async def find_all(self, site_id: str, distribution: Distribution, version: str) -> TemplateList:
        """Every template of this version, in the order in which `find` prefers them."""
        found = [
            template
            for template in await self.list(site_id)
            if template.distribution is distribution and template.version == version
        ]
        return sorted(found, key=lambda template: not template.shared)

    async def remove(self, template_id: str) -> None:
        """Forgets a template. Raises InUse while a machine is about to be cloned from it, and NotFound."""
        template = await self.get(template_id)
        machines = tables.machines
        async with self._database.write() as writing:
            await lock_site(writing, template.site_id)
            waiting = await writing.connection.execute(
                select(machines.c.name)
                .where(machines.c.site_id == template.site_id, machines.c.gone_at.is_(None))
                # A later phase was seen cloned, and our clones are full: they no longer need their template.
                .where(machines.c.phase.in_([Phase.RESERVED.value, Phase.PLACED.value]))
                .where(machines.c.template_vmid.in_(sorted(set(template.nodes.values()))))
                .order_by(machines.c.name)
            )
            if names := list(waiting.scalars()):
                raise InUse(
                    f"template {template.distribution} {template.version} is being cloned for {', '.join(names)}"
                )
            await writing.connection.execute(delete(_t).where(_t.c.id == template_id))
            writing.changed("template", template_id, site_id=template.site_id)

    async def list(self, site_id: str | None = None) -> TemplateList:
        """The templates of a site (or of all), oldest first."""
        query = select(_t).order_by(_t.c.created_at, _t.c.id)
        async with self._database.read() as connection:
            rows = await connection.execute(query if site_id is None else query.where(_t.c.site_id == site_id))
            return [_template(row) for row in rows]


def _template(row: Row[Any]) -> Template:
    return Template.model_validate({**row.body, "created_at": row.created_at})
