"""VM templates registered with a site."""

from fastapi import APIRouter, Depends

from api.access import AtSite, NeedsSite, Right
from api.idempotency import IdempotencyKey
from api.models.sites import NewTemplate, Template, TemplateList
from api.problems import not_built
from domain.clusters import Distribution

router = APIRouter(prefix="/sites/{site}/templates", tags=["templates"])


@router.get("")
async def list_templates(caller: AtSite = Depends(NeedsSite(Right.SEE_SITE))) -> TemplateList:
    """The templates of a site."""
    raise not_built("This")


@router.post("", status_code=201)
async def register_template(
    body: NewTemplate, key: IdempotencyKey = None, caller: AtSite = Depends(NeedsSite(Right.ADMINISTER_SITE))
) -> Template:
    """Registers a template after looking at its VMs: they must exist on those nodes and be templates."""
    raise not_built("This")


@router.delete("/{distribution}/{version}", status_code=204)
async def remove_template(
    distribution: Distribution, version: str, caller: AtSite = Depends(NeedsSite(Right.ADMINISTER_SITE))
) -> None:
    """Forgets a template; refused while machines were cloned from it. The VM itself stays."""
    raise not_built("This")
