"""The audit, for those who look after the platform."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from api.access import NeedsSession, Right, SignedIn
from api.models.audit import AuditEntry
from api.models.shapes import Page
from api.problems import not_built

router = APIRouter(tags=["audit"])


@router.get("/audit")
async def read_audit(
    offset: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    caller: SignedIn = Depends(NeedsSession(Right.READ_AUDIT)),
) -> Page[AuditEntry]:
    """Who did what to what, newest first; both the person and the account that acted."""
    raise not_built("This")
