"""Sites: set up, looked at, tried out."""

import hashlib
import uuid
from typing import Any

from fastapi import APIRouter, Depends, Response

from api.access import AtSite, NeedsSession, NeedsSite, Right, SignedIn
from api.idempotency import Answer, IdempotencyKey, once
from api.job_views import summary
from api.models.jobs import JobSummary
from api.models.sites import NewSite, SiteAdded, SiteChange, SiteList, SiteReport, TokenRotation
from api.models.sites import Site as ShownSite
from api.problems import Away, Conflicting
from api.services import Services
from api.site_check import looked_at, refused_site
from api.site_rules import broken
from domain.contracts import ids
from domain.errors import ErrorCode
from domain.jobs import Job, JobKind
from domain.sites import Site
from jobs import EngineAway
from store import AlreadyExists, Conflict, InUse, NotFound

router = APIRouter(prefix="/sites", tags=["sites"])
TOKEN = "token"  # noqa: S105 - the name of the secret in the scope `site/<id>`
FIXED_WHILE_USED = ("workload_pool", "iso_storage")
"""Clusters that exist have their pool and their boot ISOs there."""
MAY_BE_UNSET = frozenset({"fingerprint", "ca", "artifact_url"})


@router.get("")
async def list_sites(caller: SignedIn = Depends(NeedsSession(Right.SIGNED_IN))) -> SiteList:
    """The person's own site; all sites for the local administrator."""
    person = caller.person
    found = [one for one in await caller.services.store.sites.list() if person.local or one.id == person.site_id]
    return SiteList(items=[await _shown(caller.services, one, count=person.local) for one in found], total=len(found))


@router.post("", status_code=201, response_model=SiteAdded)
async def add_site(
    body: NewSite, key: IdempotencyKey = None, caller: SignedIn = Depends(NeedsSession(Right.ADMINISTER_SITES))
) -> Response:
    """Adds a site once it answers and its certificate is the pinned one; the report names each missing privilege."""
    services = caller.services
    secret = body.token_secret.get_secret_value()

    async def work() -> Answer:
        fields = body.model_dump(exclude={"token_secret"})
        site = Site(id=str(uuid.uuid4()), **fields)
        if wrong := broken(site):
            raise refused_site(wrong)
        if await services.store.sites.find(site.name) is not None:
            raise _taken(site)
        report = await looked_at(services, site, secret)
        await services.store.secrets.put(_scope(site), TOKEN, secret.encode())
        try:
            site = await services.store.sites.add(site)
        except AlreadyExists as error:
            await services.store.secrets.delete_scope(_scope(site))
            raise _taken(site) from error
        await _record(caller, site, "site.add")
        return 201, SiteAdded(site=await _shown(services, site, count=True), report=report)

    # The secret counts by its hash: the same key with another secret is another request.
    digest = hashlib.sha256(secret.encode()).hexdigest()
    return await once(caller, key, f"{body.model_dump_json(exclude={'token_secret'})}{digest}", work)


@router.get("/{site}")
async def read_site(caller: AtSite = Depends(NeedsSite(Right.SEE_SITE))) -> ShownSite:
    """One site."""
    return await _shown(caller.services, caller.site, count=caller.person.local)


@router.patch("/{site}")
async def change_site(body: SiteChange, caller: AtSite = Depends(NeedsSite(Right.ADMINISTER_SITE))) -> ShownSite:
    """Changes a site's settings; 409 when somebody else did so since it was read."""
    services, before = caller.services, caller.site
    given: dict[str, Any] = body.model_dump(exclude_unset=True, exclude={"version"})
    given = {name: value for name, value in given.items() if value is not None or name in MAY_BE_UNSET}
    after = Site.model_validate(before.model_dump() | given)
    if wrong := broken(after):
        raise refused_site(wrong)
    moved = [name for name in FIXED_WHILE_USED if getattr(before, name) != getattr(after, name)]
    if moved and await _clusters(services, before):
        raise Conflicting(
            ErrorCode.IN_USE,
            f"{', '.join(moved)} of site {before.name} cannot change while clusters stand there.",
            "Delete them first, or add the other place as a site of its own.",
        )
    if any(getattr(before, name) != getattr(after, name) for name in ("endpoints", "fingerprint", "ca")):
        # Tried before it is kept: a mistake here would cut every running job off.
        await looked_at(services, after, await _secret(services, before))
    try:
        kept = await services.store.sites.update(after, body.version)
    except Conflict as error:
        raise Conflicting(
            ErrorCode.CONFLICT, f"Site {before.name} was changed by somebody else.", "Read it again, then change it."
        ) from error
    await _record(caller, kept, "site.change", {"fields": sorted(given)})
    return await _shown(services, kept, count=caller.person.local)


@router.delete("/{site}", status_code=204)
async def remove_site(caller: AtSite = Depends(NeedsSite(Right.ADMINISTER_SITE))) -> None:
    """Forgets a site and its token; refused while clusters or templates use it. Proxmox VE is not touched."""
    try:
        await caller.services.store.sites.remove(caller.site.id)
    except InUse as error:
        raise Conflicting(
            ErrorCode.IN_USE, f"Site {caller.site.name} is still used: {error.what}.", "Remove these first."
        ) from error
    await _record(caller, caller.site, "site.remove")


@router.post("/{site}/rotate-token")
async def rotate_token(body: TokenRotation, caller: AtSite = Depends(NeedsSite(Right.ADMINISTER_SITE))) -> SiteReport:
    """Takes a new token secret, after it was tried; running jobs use it from their next call on."""
    services, site = caller.services, caller.site
    after = site.model_copy(update={"token_id": body.token_id or site.token_id})
    if wrong := broken(after):
        raise refused_site(wrong)
    secret = body.token_secret.get_secret_value()
    report = await looked_at(services, after, secret)
    await services.store.secrets.put(_scope(site), TOKEN, secret.encode())
    if after.token_id != site.token_id:
        try:
            await services.store.sites.update(after, site.version)
        except Conflict as error:
            raise Conflicting(
                ErrorCode.CONFLICT, f"Site {site.name} was changed by somebody else.", "Rotate the token again."
            ) from error
    await _record(caller, after, "site.rotate-token")
    return report


@router.post("/{site}/check")
async def check_site(caller: AtSite = Depends(NeedsSite(Right.ADMINISTER_SITE))) -> SiteReport:
    """Looks at everything that clusters need there, without writing anything."""
    return await looked_at(caller.services, caller.site, await _secret(caller.services, caller.site))


@router.post("/{site}/selftest", status_code=202, response_model=JobSummary)
async def start_self_test(
    key: IdempotencyKey = None, caller: AtSite = Depends(NeedsSite(Right.ADMINISTER_SITE))
) -> Response:
    """Clones, starts and deletes one small VM there, as a job whose log is a report to send on."""
    services, site = caller.services, caller.site

    async def work() -> Answer:
        try:
            job_id = await services.engine.start_self_test(site)
        except EngineAway as error:
            raise Away(
                ErrorCode.ENGINE_AWAY,
                "The self-test was not started: the Temporal server does not answer.",
                "Try again when it is back.",
                raw=str(error),
            ) from error
        await _record(caller, site, "site.self-test", {"job": job_id})
        job = Job(
            id=job_id,
            workflow_id=ids.self_test(site.id),
            kind=JobKind.SELF_TEST,
            site_id=site.id,
            requested_by=caller.person.known_as,
        )
        return 202, summary(services, job, {site.id: site})

    return await once(caller, key, "", work)


async def _shown(services: Services, site: Site, *, count: bool) -> ShownSite:
    clusters = await _clusters(services, site) if count else None
    return ShownSite(**site.model_dump(exclude={"id"}), clusters=clusters)


async def _clusters(services: Services, site: Site) -> int:
    _, total = await services.store.clusters.page(site_id=site.id, limit=1)
    return total


async def _secret(services: Services, site: Site) -> str:
    try:
        return (await services.store.secrets.get(_scope(site), TOKEN)).decode()
    except NotFound:
        raise Conflicting(
            ErrorCode.CONFLICT, f"Site {site.name} has no token secret.", "Give it one: rotate its token."
        ) from None


async def _record(caller: SignedIn, site: Site, action: str, detail: dict[str, Any] | None = None) -> None:
    await caller.services.store.audit.record(
        caller.person.known_as, site.token_id, action, f"site/{site.name}", "done", detail or {}, caller.source
    )


def _scope(site: Site) -> str:
    return f"site/{site.id}"


def _taken(site: Site) -> Conflicting:
    return Conflicting(ErrorCode.ALREADY_EXISTS, f"There is a site {site.name} already.", "Choose another name.")
