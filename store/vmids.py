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

_LOOKED_AT_ONCE = 512


async def next_vmids(writing: Writing, site_row: Row[Any], count: int) -> list[int]:
    """Takes the next `count` ids of the site whose locked row is given (store.rows.lock_site).

    Ids of living machines and of registered templates are passed over. Raises NoFreeVmid when the range holds too few.
    """
    site = Site.model_validate(site_row.body)
    templates = await _template_vmids(writing, site.id)
    size = site.vmid_last - site.vmid_first + 1
    offset = site_row.vmid_next - site.vmid_first
    start = offset if 0 <= offset < size else 0
    taken: list[int] = []
    looked = 0
    while len(taken) < count and looked < size:
        window = [
            site.vmid_first + (start + step) % size for step in range(looked, min(size, looked + _LOOKED_AT_ONCE))
        ]
        held = templates | await _held(writing, site.id, window)
        for vmid in window:
            looked += 1
            if vmid not in held:
                taken.append(vmid)
                if len(taken) == count:
                    break
    if len(taken) < count:
        raise NoFreeVmid(
            f"site {site.name} has no free VM id between {site.vmid_first} and {site.vmid_last}; "
            "widen the range of the site"
        )
    following = site.vmid_first + (start + looked) % size
    await writing.connection.execute(
        update(tables.sites).where(tables.sites.c.id == site.id).values(vmid_next=following)
    )
    return taken


async def _held(writing: Writing, site_id: str, window: list[int]) -> set[int]:
    machines = tables.machines
    query = select(machines.c.vmid).where(
        machines.c.site_id == site_id,
        machines.c.gone_at.is_(None),
        machines.c.vmid.between(min(window), max(window)),
    )
    return set((await writing.connection.execute(query)).scalars())


async def _template_vmids(writing: Writing, site_id: str) -> set[int]:
    templates = tables.templates
    bodies = await writing.connection.execute(select(templates.c.body).where(templates.c.site_id == site_id))
    return {vmid for body in bodies.scalars() for vmid in body["nodes"].values()}
