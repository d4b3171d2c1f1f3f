"""VM ids of a site: one sequence through its range, so that a freed id rests until the range has wrapped.

Proxmox VE itself hands a freed id to the next one who asks; whoever then trusts the id alone deletes a stranger's VM
(CAPMOX #842). Ours go round.
"""

from typing import Any

from sqlalchemy import Row, select, update

from domain.sites import Site
from store import tables
from store.database import Writing
from store.errors import NoFreeVmid


class VmidSequence:
    """The sequence of one site, read and written under the lock of the site's row."""

    def __init__(self, site: Site, position: int, held: set[int]) -> None:
        self._site = site
        self._position = position
        self._held = held

    @classmethod
    async def read(cls, writing: Writing, site_row: Row[Any]) -> "VmidSequence":
        """`site_row` is the locked row (store.rows.lock_site)."""
        machines, templates = tables.machines, tables.templates
        held = set(
            (
                await writing.connection.execute(
                    select(machines.c.vmid).where(machines.c.site_id == site_row.id, machines.c.gone_at.is_(None))
                )
            ).scalars()
        )
        bodies = await writing.connection.execute(select(templates.c.body).where(templates.c.site_id == site_row.id))
        for body in bodies.scalars():
            held.update(body["nodes"].values())
        return cls(Site.model_validate(site_row.body), site_row.vmid_next, held)

    def next(self) -> int:
        """Takes the next id. Raises NoFreeVmid when every id of the range is held."""
        first, last = self._site.vmid_first, self._site.vmid_last
        candidate = self._position if first <= self._position <= last else first
        for _ in range(last - first + 1):
            following = candidate + 1 if candidate < last else first
            if candidate not in self._held:
                self._held.add(candidate)
                self._position = following
                return candidate
            candidate = following
        raise NoFreeVmid(
            f"site {self._site.name} has no free VM id between {first} and {last}; widen the range of the site"
        )

    async def store(self, writing: Writing) -> None:
        """Keeps the position for the next reservation."""
        await writing.connection.execute(
            update(tables.sites).where(tables.sites.c.id == self._site.id).values(vmid_next=self._position)
        )
