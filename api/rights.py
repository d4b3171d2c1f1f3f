"""What a person may do: their own Proxmox VE privileges, read with their own ticket.

Three ways of asking, for three needs (design.md section 4):

* `listed`: one unfiltered read per person and site, at most 30 s old, answers lists.
* `reading`: one path, at most 30 s old: what was listed, else asked for. Answers pages.
* `exact`: the very path, asked now. For every change and every secret.

What Proxmox VE leaves out of the unfiltered read: paths without an ACL of their own, and paths where the person holds
nothing at all (a NoAccess on one pool). So a pool that is not listed may be open by its ancestor or closed by itself.
Our jobs give every cluster's pool an ACL (mark `rights`), hence for those 'not listed' means closed; for the few
others, in the first moments of a create or the last of a delete, the exact path is asked.

While Proxmox VE does not answer, reads go on for five minutes on what was read last; changes do not.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from api.gate import Gate, Privileges
from api.models.shapes import Allowed, Missing
from api.people import Person
from api.problems import Away, ProxmoxRefused, RightMissing
from api.tickets import Tickets, session_ended
from clients.proxmox import NoQuorum, ProxmoxError, Refused, Ticket, Unreachable
from domain.clusters import Cluster, ClusterSpec
from domain.errors import ErrorCode
from domain.rights import ALLOCATE as CHANGE
from domain.rights import AUDIT as SEE
from domain.rights import MODIFY as SECRET
from domain.rights import SETUP_PRIVILEGES as SETUP
from domain.rights import Action, Places, held, needs
from domain.sites import Site

FRESH = timedelta(seconds=30)
STALE = timedelta(minutes=5)
REMEMBERED = 10_000
NOW_AND_EVER = datetime.max.replace(tzinfo=UTC)
EVERYWHERE = ""
"""Stands for the unfiltered read among the paths."""


@dataclass(frozen=True)
class Held:
    """The privileges that a person holds at a site, as Proxmox VE listed them; `at_time` is when we began to ask."""

    paths: Mapping[str, Mapping[str, int]]
    at_time: datetime = NOW_AND_EVER

    def at(self, path: str) -> frozenset[str]:
        """The privileges on a path: as listed, else what the nearest listed ancestor passes on."""
        return held(self.paths, path)


@dataclass(frozen=True)
class _Read:
    held: Held
    at: datetime


class Rights:
    """Answers what people may do. One per application."""

    def __init__(self, gate: Gate, tickets: Tickets, clock: Callable[[], datetime]) -> None:
        self._gate = gate
        self._tickets = tickets
        self._clock = clock
        self._reads: OrderedDict[tuple[str, str], _Read] = OrderedDict()
        self._under_way: dict[tuple[str, str], asyncio.Task[Held]] = {}

    def now(self) -> datetime:
        """The clock that `Held.at_time` is read from."""
        return self._clock()

    async def listed(self, person: Person, site: Site) -> Held:
        """What the person holds, at most 30 s old. The local administrator holds nothing on Proxmox VE."""
        return await self._recent(person, site, EVERYWHERE)

    async def reading(self, person: Person, site: Site, path: str) -> frozenset[str]:
        """The privileges on a path for a read, at most 30 s old.

        The work depends on what Proxmox VE lists to the person, never on whether a cluster of that name exists.
        """
        listed = (await self.listed(person, site)).paths.get(path)
        if listed is not None:
            return frozenset(listed)
        return frozenset((await self._recent(person, site, path)).paths.get(path, {}))

    async def exact(self, person: Person, site: Site, path: str) -> frozenset[str]:
        """The privileges on this very path, asked of Proxmox VE now."""
        if person.local or person.site_id != site.id:
            return frozenset()
        answer = await self._ask(person, site, path)
        return frozenset(answer.get(path, {}))

    async def demand(self, person: Person, site: Site, wanted: Iterable[tuple[str, str]]) -> None:
        """Raises RightMissing for the first (privilege, path) that the person lacks. Each path is asked once."""
        asked: dict[str, frozenset[str]] = {}
        for privilege, path in wanted:
            if path not in asked:
                asked[path] = await self.exact(person, site, path)
            if privilege not in asked[path]:
                raise lacks(privilege, path, person)

    def forget(self, session_id: str) -> None:
        for key in [key for key in self._reads if key[0] == session_id]:
            del self._reads[key]

    async def _recent(self, person: Person, site: Site, path: str) -> Held:
        if person.local or person.site_id != site.id:
            return Held({})
        key = (person.session_id, path)
        read = self._reads.get(key)
        if read is not None and self._clock() - read.at < FRESH:
            return read.held
        # Many requests of one page at once share one read.
        task = self._under_way.get(key)
        if task is None:
            task = asyncio.ensure_future(self._read(person, site, path))
            self._under_way[key] = task
            task.add_done_callback(lambda done: self._end(key, done))
        try:
            return await asyncio.shield(task)
        except Away:
            if read is not None and self._clock() - read.at < STALE:
                return read.held
            raise

    async def _read(self, person: Person, site: Site, path: str) -> Held:
        begun = self._clock()
        found = Held(await self._ask(person, site, path or None), begun)
        key = (person.session_id, path)
        self._reads[key] = _Read(found, self._clock())
        self._reads.move_to_end(key)
        while len(self._reads) > REMEMBERED:
            self._reads.popitem(last=False)
        return found

    async def _ask(self, person: Person, site: Site, path: str | None) -> Privileges:
        try:
            ticket: Ticket = await self._tickets.take(person.session_id, site)
            return await self._gate.permissions(site, ticket, path)
        except Refused as error:
            # The account was disabled, or the ticket ran out: the session behind it is over.
            await self._tickets.forget(person.session_id)
            self.forget(person.session_id)
            raise session_ended() from error
        except ProxmoxError as error:
            raise proxmox_problem(error, site) from error

    def _end(self, key: tuple[str, str], done: "asyncio.Task[Held]") -> None:
        if self._under_way.get(key) is done:
            del self._under_way[key]
        if not done.cancelled():
            done.exception()


def cluster_pool(site: Site, namespace: str, name: str) -> str:
    """The ACL path of a cluster's own pool, whether the cluster exists or not."""
    return f"/pool/{site.workload_pool}/{namespace}.{name}"


def cluster_pool_path(site: Site, pool_name: str) -> str:
    """The same for `<namespace>.<name>`."""
    return f"/pool/{site.workload_pool}/{pool_name}"


def pool_of(site: Site, cluster: Cluster) -> str:
    return cluster_pool(site, cluster.namespace, cluster.name)


def workload_pool(site: Site) -> str:
    return f"/pool/{site.workload_pool}"


def create_needs(site: Site, spec: ClusterSpec) -> list[tuple[str, str]]:
    """What a create takes: the document's table 'Who may do what'."""
    places = Places.of(spec, site.workload_pool, exists=False)
    found = needs(Action.CREATE, places)
    if spec.rancher.install:
        found += needs(Action.INSTALL_RANCHER, places)
    if spec.oidc:
        found += needs(Action.TRUST_PROVIDER, places)
    return found


def lacks(privilege: str, path: str, person: Person) -> RightMissing:
    """The refusal for a missing privilege, with what to ask for."""
    if person.local:
        return RightMissing(
            ErrorCode.RIGHT_MISSING,
            f"The local administrator has no rights on Proxmox VE; this needs {privilege} on {path}.",
            "Sign in with a Proxmox VE account that holds it.",
            missing=Missing(privilege=privilege, path=path),
        )
    return RightMissing(
        ErrorCode.RIGHT_MISSING,
        f"{person.user} lacks {privilege} on {path}.",
        f"Ask the Proxmox VE administrator for a role with {privilege} on {path}.",
        missing=Missing(privilege=privilege, path=path),
    )


def allowed(privileges: frozenset[str], privilege: str, path: str, reason: str = "") -> Allowed:
    """For pages: whether an act is open, else the missing right, else the reason from the thing's state."""
    if privilege not in privileges:
        return Allowed(
            allowed=False, missing=Missing(privilege=privilege, path=path), reason=f"You lack {privilege} on {path}."
        )
    return Allowed(allowed=not reason, reason=reason)


def proxmox_problem(error: ProxmoxError, site: Site) -> Away | ProxmoxRefused:
    """A failed call to a site's Proxmox VE, as an answer."""
    if isinstance(error, Unreachable):
        return Away(
            ErrorCode.PROXMOX_UNREACHABLE,
            f"None of the endpoints of site {site.name} answers.",
            "Nothing was changed. Try again once Proxmox VE can be reached.",
            raw=error.text,
        )
    if isinstance(error, NoQuorum):
        return Away(
            ErrorCode.PROXMOX_NO_QUORUM,
            f"The Proxmox VE cluster of site {site.name} has lost its quorum and is read-only.",
            "Nothing was changed. Try again once it has its quorum back.",
            raw=error.text,
        )
    return ProxmoxRefused(
        ErrorCode.PROXMOX_REFUSED,
        f"Proxmox VE of site {site.name} refused a request of ours.",
        "Read its own words in `raw`.",
        raw=str(error),
    )


__all__ = [
    "CHANGE",
    "SECRET",
    "SEE",
    "SETUP",
    "Held",
    "Rights",
    "allowed",
    "cluster_pool",
    "cluster_pool_path",
    "create_needs",
    "lacks",
    "pool_of",
    "proxmox_problem",
    "workload_pool",
]
