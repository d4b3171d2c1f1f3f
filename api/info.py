"""What this installation is, whether it can serve, and how one signs in: open to everybody."""

from fastapi import APIRouter, Depends

from api.access import Caller, NeedsNothing
from api.models.info import Health, Info, Realms
from api.problems import not_built

router = APIRouter(tags=["installation"])


@router.get("/info")
async def read_info(caller: Caller = Depends(NeedsNothing())) -> Info:
    """Version, features and links of this installation."""
    raise not_built("This")


@router.get("/healthz")
async def read_health(caller: Caller = Depends(NeedsNothing())) -> Health:
    """Whether requests can be served; 503 while the store does not answer."""
    raise not_built("This")


@router.get("/realms")
async def list_realms(site: str | None = None, caller: Caller = Depends(NeedsNothing())) -> Realms:
    """The realms to sign in with at a site; without `site` those of the first site, and the names of all."""
    raise not_built("This")
