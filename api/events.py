"""The change feed as a stream: what the person sees has changed, read it again."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Response

from api.access import NeedsSession, Right, SignedIn, own_site
from api.job_views import cluster_name
from api.models.events import Change, Reset
from api.models.jobs import ClusterName
from api.problems import ApiError
from api.rights import SETUP
from api.sight import Seen
from api.streams import BURST, HEARTBEAT, STREAM, changed, event, heartbeat, hello, last_seen, stream
from domain.sites import Site
from store import Change as StoredChange
from store import NotFound

router = APIRouter(tags=["events"])
OF_CLUSTERS = frozenset({"cluster", "machine"})
OF_SITES = frozenset({"site", "template"})
AT_ONCE = 500


@router.get("/events", responses={200: STREAM}, response_class=Response)
async def follow_changes(
    last_event_id: Annotated[str | None, Header(alias="Last-Event-ID")] = None,
    after: Annotated[int | None, Query(ge=0, description="Like Last-Event-ID, for the first connection.")] = None,
    caller: SignedIn = Depends(NeedsSession(Right.SIGNED_IN)),
) -> Response:
    """Events `change` (a Change; its id resumes) and `reset` (read everything again)."""
    return stream(_follow(caller, last_seen(last_event_id, after)))


async def _follow(caller: SignedIn, seq: int | None) -> AsyncIterator[bytes]:
    services, feed = caller.services, caller.services.store.feed
    needs = NeedsSession(Right.SIGNED_IN)
    yield hello()
    if seq is None:
        seq = await feed.last()
    elif seq > await feed.last() or seq + 1 < await feed.first_kept():
        # From another database, or too old to be whole.
        seq = await feed.last()
        yield event("reset", Reset(reason="The stream cannot be resumed from there.", at=services.clock()), seq)
    seen = Seen()
    while not services.stopping.is_set():
        try:
            now = await needs(caller.request)
            before = seen
            site = None if now.person.local else await own_site(now.person, services)
            seen = await services.sight.clusters(now.person, site) if site else Seen()
            setup = now.person.local or (
                site is not None and set(SETUP) <= (await services.rights.listed(now.person, site)).at("/")
            )
        except ApiError:
            return
        changes = await services.store.changes_after(seq, limit=AT_ONCE)
        told: set[tuple[str, str]] = set()
        for change in changes:
            # Of many changes of one thing in a row the page needs to hear once; the last id is what it resumes from.
            if (change.kind, change.id) in told or not _may_hear(change, now, site, seen, before, setup):
                continue
            told.add((change.kind, change.id))
            yield event("change", await _shown(now, change, site, seen, before), change.seq)
        if changes:
            seq = changes[-1].seq
        elif await changed(services, seq, HEARTBEAT):
            # Changes come in bursts; of many of one thing the page needs to hear once.
            await asyncio.sleep(BURST)
        else:
            yield heartbeat()


def _may_hear(change: StoredChange, caller: SignedIn, site: Site | None, seen: Seen, before: Seen, setup: bool) -> bool:
    if change.kind == "chart":
        return True
    if caller.person.local:
        return change.kind == "job" or change.kind in OF_SITES
    if site is None or change.site_id != site.id:
        return False
    if change.kind in OF_SITES:
        return True
    if change.kind not in OF_CLUSTERS and change.kind != "job":
        return False
    if change.cluster_id is None:
        return setup
    return change.cluster_id in seen.by_id or change.cluster_id in seen.departed or change.cluster_id in before.by_id


async def _shown(caller: SignedIn, change: StoredChange, site: Site | None, seen: Seen, before: Seen) -> Change:
    entry = seen.by_id.get(change.cluster_id or "") or before.by_id.get(change.cluster_id or "")
    cluster = None
    if entry is not None:
        namespace, _, name = entry.pool_name.partition(".")
        cluster = ClusterName(namespace=namespace, name=name)
    elif change.kind == "job":
        try:
            cluster = cluster_name(await caller.services.store.jobs.get(change.id))
        except NotFound:
            cluster = None
    return Change(seq=change.seq, kind=change.kind, id=change.id, cluster=cluster, site=site.name if site else None)
