"""Which clusters a person sees, for lists and streams: without asking Proxmox VE once for each, and without reading
every specification for each list.

The index holds of every living cluster what that takes: its site, its pool's name, and whether our jobs have given the
pool an ACL (see api.rights: then 'not listed' means closed). It follows the change feed.
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field

from api.people import Person
from api.rights import SEE, Rights, cluster_pool_path
from domain.clusters import Cluster, Mark
from domain.sites import Site
from store import NotFound, Store

DEPARTED = 1000
"""How many deleted clusters are remembered, so that those who saw one hear that it went."""
REBUILD = 200
AT_ONCE = 8


@dataclass(frozen=True)
class Entry:
    id: str
    site_id: str
    pool_name: str
    has_acl: bool


@dataclass(frozen=True)
class Seen:
    """The clusters of a site that a person sees. `everything`: none of the living ones is hidden."""

    everything: bool = False
    by_id: dict[str, Entry] = field(default_factory=dict)
    departed: frozenset[str] = frozenset()

    @property
    def pool_names(self) -> list[str]:
        return [entry.pool_name for entry in self.by_id.values()]


class Sight:
    """One per application."""

    def __init__(self, store: Store, rights: Rights) -> None:
        self._store = store
        self._rights = rights
        self._lock = asyncio.Lock()
        self._living: dict[str, Entry] = {}
        self._departed: OrderedDict[str, Entry] = OrderedDict()
        self._seq: int | None = None

    async def clusters(self, person: Person, site: Site) -> Seen:
        """What the person sees at the site. The local administrator sees no cluster."""
        if person.local or person.site_id != site.id:
            return Seen()
        held = await self._rights.listed(person, site)
        await self._follow()
        here = [entry for entry in self._living.values() if entry.site_id == site.id]
        seen: dict[str, Entry] = {}
        asked: list[Entry] = []
        for entry in here:
            path = cluster_pool_path(site, entry.pool_name)
            listed = held.paths.get(path)
            if listed is not None:
                if SEE in listed:
                    seen[entry.id] = entry
            elif not entry.has_acl:
                asked.append(entry)
        for entry, may in zip(asked, await self._ask(person, site, asked), strict=True):
            if may:
                seen[entry.id] = entry
        departed = frozenset(
            entry.id
            for entry in self._departed.values()
            if entry.site_id == site.id and SEE in held.at(cluster_pool_path(site, entry.pool_name))
        )
        return Seen(everything=len(seen) == len(here), by_id=seen, departed=departed)

    async def _ask(self, person: Person, site: Site, entries: list[Entry]) -> list[bool]:
        slots = asyncio.Semaphore(AT_ONCE)

        async def one(entry: Entry) -> bool:
            async with slots:
                return SEE in await self._rights.reading(person, site, cluster_pool_path(site, entry.pool_name))

        return await asyncio.gather(*map(one, entries))

    async def _follow(self) -> None:
        """Brings the index up to the feed's end."""
        last = await self._store.feed.last()
        if last == self._seq:
            return
        async with self._lock:
            if last == self._seq:
                return
            changed = await self._changed_since(self._seq)
            if changed is None:
                living = {cluster.id: _entry(cluster) for cluster in await self._store.clusters.all_living()}
                for cluster_id in set(self._living) - set(living):
                    self._depart(cluster_id)
                self._living = living
            else:
                for cluster_id in changed:
                    await self._refresh(cluster_id)
            self._seq = last

    async def _changed_since(self, seq: int | None) -> set[str] | None:
        """The clusters that changed; None when there are too many to ask for one by one, or nobody knows."""
        if seq is None or seq + 1 < await self._store.feed.first_kept():
            return None
        changes = await self._store.changes_after(seq, limit=2000)
        ids = {change.id for change in changes if change.kind == "cluster"}
        return None if len(changes) == 2000 or len(ids) > REBUILD else ids

    async def _refresh(self, cluster_id: str) -> None:
        try:
            self._living[cluster_id] = _entry(await self._store.clusters.get(cluster_id))
        except NotFound:
            self._depart(cluster_id)

    def _depart(self, cluster_id: str) -> None:
        entry = self._living.pop(cluster_id, None)
        if entry is not None:
            self._departed[cluster_id] = entry
            while len(self._departed) > DEPARTED:
                self._departed.popitem(last=False)


def _entry(cluster: Cluster) -> Entry:
    return Entry(cluster.id, cluster.site_id, f"{cluster.namespace}.{cluster.name}", has_acl(cluster))


def has_acl(cluster: Cluster) -> bool:
    """True while the ACL that our own job wrote on the cluster's pool is certain to be there."""
    return Mark.RIGHTS in cluster.marks and not cluster.deleting
