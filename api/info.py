"""What this installation is, whether it can serve, and how one signs in: open to everybody."""

import asyncio

from fastapi import APIRouter, Depends, Response

from api.access import Caller, NeedsNothing
from api.models.info import Health, Info, Links, Realm, Realms
from api.problems import Away, NotFound
from api.rights import proxmox_problem
from api.services import Services
from clients.proxmox import ProxmoxError
from domain.errors import ErrorCode
from domain.sites import Site

router = APIRouter(tags=["installation"])
PROBE_LIMIT = 1.5
"""Seconds: a probe must answer before its prober gives up."""
LOCAL_REALM = "local"
LOCAL = Realm(realm=LOCAL_REALM, type="local", comment="Local administrator of this installation: sets up sites")


@router.get("/info")
async def read_info(caller: Caller = Depends(NeedsNothing())) -> Info:
    """Version, features and links of this installation."""
    settings = caller.services.settings
    return Info(
        version=settings.version,
        lab=any(site.lab for site in await caller.services.store.sites.list()),
        links=Links(engine=settings.engine_url, documentation=settings.documentation_url),
        features=list(settings.features),
        now=caller.services.clock(),
    )


@router.get("/healthz")
async def read_health(caller: Caller = Depends(NeedsNothing())) -> Health:
    """Whether requests can be served; 503 while the store does not answer."""
    await caller.services.store.epoch()
    try:
        async with asyncio.timeout(PROBE_LIMIT):
            engine = await caller.services.engine.answers()
    except TimeoutError:
        engine = False
    return Health(store=True, engine=engine)


@router.get("/realms")
async def list_realms(response: Response, site: str | None = None, caller: Caller = Depends(NeedsNothing())) -> Realms:
    """The realms to sign in with at a site; without `site` those of the first site, and the names of all."""
    sites = await caller.services.store.sites.list()
    names = [one.name for one in sites]
    if site is None and not sites:
        return Realms(site=None, sites=[], realms=[LOCAL])
    chosen = next((one for one in sites if site is None or one.name == site), None)
    if chosen is None:
        raise NotFound(ErrorCode.NOT_FOUND, "There is no site of that name.", "Choose one of the sites in `sites`.")
    try:
        found = await realms_of(caller.services, chosen)
    except Away as away:
        # The local administrator can still sign in, to see what is wrong with the site.
        response.headers["Retry-After"] = away.headers["Retry-After"]
        return Realms(site=chosen.name, sites=names, realms=[LOCAL], unreachable=away.detail)
    return Realms(site=chosen.name, sites=names, realms=[*found, LOCAL])


async def realms_of(services: Services, site: Site) -> list[Realm]:
    """The site's own realms. Those that are not supported yet say what to use instead."""
    try:
        rows = await services.gate.realms(site)
    except ProxmoxError as error:
        raise proxmox_problem(error, site) from error
    return [
        Realm(
            realm=row.name,
            type=row.type,
            comment=row.comment,
            default=row.default,
            supported=row.supported,
            remedy="" if row.supported else "Use an account of another realm; OpenID Connect realms come later.",
        )
        for row in rows
        # A realm of that name at Proxmox VE would be unreachable behind our own; `local` is not one that it makes.
        if row.name != LOCAL_REALM
    ]
