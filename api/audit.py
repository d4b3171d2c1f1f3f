"""The audit, for those who look after the platform."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from api.access import NeedsSession, Right, SignedIn
from api.models.audit import AuditEntry
from api.models.shapes import Page

router = APIRouter(tags=["audit"])


@router.get("/audit")
async def read_audit(
    actor: Annotated[str | None, Query(max_length=128)] = None,
    action: Annotated[str | None, Query(max_length=64)] = None,
    object: Annotated[
        str | None, Query(max_length=256, description="As in the entries, for example `site/lab`.")
    ] = None,
    offset: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    caller: SignedIn = Depends(NeedsSession(Right.READ_AUDIT)),
) -> Page[AuditEntry]:
    """Who did what to what, newest first; both the person and the account that acted."""
    entries, total = await caller.services.store.audit.page(
        actor=actor, action=action, object=object, offset=offset, limit=limit
    )
    return Page(
        items=[AuditEntry(**entry.model_dump(exclude={"seq"})) for entry in entries],
        total=total,
        offset=offset,
        limit=limit,
        as_of=caller.services.clock(),
    )
