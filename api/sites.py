"""Sites: set up, looked at, tried out."""

from fastapi import APIRouter, Depends

from api.access import AtSite, NeedsSession, NeedsSite, Right, SignedIn
from api.idempotency import IdempotencyKey
from api.models.jobs import JobSummary
from api.models.sites import NewSite, Site, SiteAdded, SiteChange, SiteList, SiteReport, TokenRotation
from api.problems import not_built

router = APIRouter(prefix="/sites", tags=["sites"])


@router.get("")
async def list_sites(caller: SignedIn = Depends(NeedsSession(Right.SIGNED_IN))) -> SiteList:
    """The person's own site; all sites for the local administrator."""
    raise not_built("This")


@router.post("", status_code=201)
async def add_site(
    body: NewSite, key: IdempotencyKey = None, caller: SignedIn = Depends(NeedsSession(Right.ADMINISTER_SITES))
) -> SiteAdded:
    """Adds a site once it answers and its certificate is the pinned one; the report names each missing privilege."""
    raise not_built("This")


@router.get("/{site}")
async def read_site(caller: AtSite = Depends(NeedsSite(Right.SEE_SITE))) -> Site:
    """One site."""
    raise not_built("This")


@router.patch("/{site}")
async def change_site(body: SiteChange, caller: AtSite = Depends(NeedsSite(Right.ADMINISTER_SITE))) -> Site:
    """Changes a site's settings; 409 when somebody else did so since it was read."""
    raise not_built("This")


@router.delete("/{site}", status_code=204)
async def remove_site(caller: AtSite = Depends(NeedsSite(Right.ADMINISTER_SITE))) -> None:
    """Forgets a site and its token; refused while clusters or templates use it. Proxmox VE is not touched."""
    raise not_built("This")


@router.post("/{site}/rotate-token")
async def rotate_token(body: TokenRotation, caller: AtSite = Depends(NeedsSite(Right.ADMINISTER_SITE))) -> SiteReport:
    """Takes a new token secret, after it was tried; running jobs use it from their next call on."""
    raise not_built("This")


@router.post("/{site}/check")
async def check_site(caller: AtSite = Depends(NeedsSite(Right.ADMINISTER_SITE))) -> SiteReport:
    """Looks at everything that clusters need there, without writing anything."""
    raise not_built("This")


@router.post("/{site}/selftest", status_code=202)
async def start_self_test(
    key: IdempotencyKey = None, caller: AtSite = Depends(NeedsSite(Right.ADMINISTER_SITE))
) -> JobSummary:
    """Clones, starts and deletes one small VM there, as a job whose log is a report to send on."""
    raise not_built("This")
