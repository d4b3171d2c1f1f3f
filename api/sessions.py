"""Sign-in, second factor, renewal and sign-out."""

from fastapi import APIRouter, Depends, Response

from api.access import Caller, NeedsNothing, NeedsSession, Right, SignedIn
from api.models.sessions import SecondFactorAnswer, SecondFactorNeeded, Session, SignIn
from api.problems import not_built

router = APIRouter(prefix="/session", tags=["session"])


@router.post("", responses={202: {"model": SecondFactorNeeded, "description": "A second factor is asked for."}})
async def sign_in(body: SignIn, response: Response, caller: Caller = Depends(NeedsNothing())) -> Session:
    """Signs in and sets the session cookie; 202 when a second factor is asked for."""
    raise not_built("This")


@router.post("/second-factor")
async def answer_second_factor(
    body: SecondFactorAnswer, response: Response, caller: Caller = Depends(NeedsNothing())
) -> Session:
    """Completes a sign-in that was answered with 202."""
    raise not_built("This")


@router.get("")
async def read_session(caller: SignedIn = Depends(NeedsSession(Right.SIGNED_IN))) -> Session:
    """Who is signed in, and what they may do that is not about one cluster."""
    raise not_built("This")


@router.post("/renew")
async def renew_session(caller: SignedIn = Depends(NeedsSession(Right.SIGNED_IN))) -> Session:
    """Prolongs the session, and the Proxmox VE ticket behind it."""
    raise not_built("This")


@router.delete("", status_code=204)
async def sign_out(response: Response, caller: SignedIn = Depends(NeedsSession(Right.SIGNED_IN))) -> None:
    """Ends the session and forgets the Proxmox VE ticket."""
    raise not_built("This")
