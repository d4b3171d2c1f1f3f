"""Which clusters a person sees, for lists and streams: without asking Proxmox VE once for each, and without reading
every specification for each list.

The index holds of every living cluster what that takes: its site, its pool's name, and whether our jobs have given the
pool an ACL, and since when we know it. It follows the change feed.

'Not listed' means closed (see api.rights) only in a list that was read after the ACL was known. A list is up to 30 s
old, so one from before a create would hide the new cluster, and its stream would lose what happened meanwhile.
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import UTC, datetime

from api.people import Person
from api.rights import SEE, Rights, cluster_pool_path
from domain.clusters import Mark
from domain.sites import Site
from store import ClusterOutline, Store

DEPARTED = 1000
"""How many deleted clusters are remembered, so that those who saw one hear that it went."""
REBUILD = 200
AT_ONCE = 8
EVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Entry:
    id: str
    site_id: str
    pool_name: str
    acl_since: datetime | None
    """When we first knew of the ACL on its pool; None while there is none for certain."""


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
            elif entry.acl_since is None or held.at_time <= entry.acl_since:
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
        if await self._store.feed.last() == self._seq:
            return
        async with self._lock:
            # Asked again: whoever waited for the lock finds the index further on than what they saw before.
            last = await self._store.feed.last()
            if last == self._seq:
                return
            changed = await self._changed_since(self._seq)
            first = self._seq is None
            found = {one.id: self._entry(one, first) for one in await self._store.clusters.outlines(changed)}
            for cluster_id in (self._living.keys() if changed is None else changed) - found.keys():
                self._depart(cluster_id)
            self._living |= found
            self._seq = last

    async def _changed_since(self, seq: int | None) -> set[str] | None:
        """The clusters that changed; None when all are read anew: there are too many, or nobody knows."""
        if seq is None or seq + 1 < await self._store.feed.first_kept():
            return None
        changes = await self._store.changes_after(seq, limit=2000)
        ids = {change.id for change in changes if change.kind == "cluster"}
        return None if len(changes) == 2000 or len(ids) > REBUILD else ids

    def _entry(self, cluster: ClusterOutline, first: bool) -> Entry:
        """`first`: the process has just begun, and every list that it will read is newer than what it finds."""
        since = None
        if _has_acl(cluster):
            before = self._living.get(cluster.id)
            since = EVER if first else (before.acl_since if before else None) or self._rights.now()
        return Entry(cluster.id, cluster.site_id, f"{cluster.namespace}.{cluster.name}", since)

    def _depart(self, cluster_id: str) -> None:
        entry = self._living.pop(cluster_id, None)
        if entry is not None:
            self._departed[cluster_id] = entry
            while len(self._departed) > DEPARTED:
                self._departed.popitem(last=False)


def _has_acl(cluster: ClusterOutline) -> bool:
    """True while the ACL that our own job wrote on the cluster's pool is certain to be there."""
    return Mark.RIGHTS in cluster.marks and not cluster.deleting
