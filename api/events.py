"""The change feed as a stream: what the person sees has changed, read it again."""

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Response

from api.access import NeedsSession, Right, SignedIn
from api.problems import not_built

router = APIRouter(tags=["events"])
STREAM = {200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "Events"}}


@router.get("/events", responses=STREAM, response_class=Response)
async def follow_changes(
    last_event_id: Annotated[str | None, Header(alias="Last-Event-ID")] = None,
    after: Annotated[int | None, Query(ge=0, description="Like Last-Event-ID, for the first connection.")] = None,
    caller: SignedIn = Depends(NeedsSession(Right.SIGNED_IN)),
) -> Response:
    """Events `change` (a Change; its id resumes) and `reset` (read everything again)."""
    raise not_built("This")
