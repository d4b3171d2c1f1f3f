"""Sign-in, second factor, renewal and sign-out."""

from fastapi import APIRouter, Depends, Request, Response

from api.access import CHARTS_OF_ALL, Caller, NeedsNothing, NeedsSession, Right, SignedIn
from api.challenges import LIFE as CHALLENGE_LIFE
from api.challenges import Challenge, open_sealed, seal
from api.cookies import drop_cookie, new_token, session_id_of, set_cookie
from api.info import LOCAL_REALM, realms_of
from api.models.sessions import (
    PersonRights,
    SecondFactorAnswer,
    SecondFactorChallenge,
    SecondFactorNeeded,
    Session,
    SignIn,
)
from api.models.shapes import Allowed
from api.people import Person
from api.problems import ApiError, NotFound, RightMissing, SignInRefused, Unsupported
from api.rights import CHANGE, SETUP, allowed, proxmox_problem, workload_pool
from api.services import Services
from api.tickets import RENEW_AFTER, SESSION_LIFE, session_ended
from clients.proxmox import NotSupported, ProxmoxError, Refused, SecondFactor
from clients.proxmox import SignedIn as ProxmoxSignedIn
from domain.errors import ErrorCode
from domain.sites import Site
from store import NotFound as NotInStore
from store import Session as StoredSession
from store import session_id

router = APIRouter(prefix="/session", tags=["session"])
FACTORS = ("totp", "recovery")


@router.post("", responses={202: {"model": SecondFactorNeeded, "description": "A second factor is asked for."}})
async def sign_in(
    body: SignIn, response: Response, caller: Caller = Depends(NeedsNothing())
) -> Session | SecondFactorNeeded:
    """Signs in and sets the session cookie; 202 when a second factor is asked for."""
    _same_origin(caller.request)
    services = caller.services
    services.attempts.check(caller.source, _attempt_key(body.site, body.realm, body.username))
    if body.realm == LOCAL_REALM:
        return await _sign_in_locally(caller, body, response)
    site = await site_named(services, body.site)
    await _refuse_unsupported_realm(services, site, body.realm)
    try:
        answer = await services.gate.sign_in(site, body.realm, body.username, body.password.get_secret_value())
    except Refused as error:
        raise await _refused(caller, body.site, body.realm, body.username) from error
    except ProxmoxError as error:
        raise proxmox_problem(error, site) from error
    if isinstance(answer, SecondFactor):
        response.status_code = 202
        return await _ask_second_factor(services, site, answer)
    return await _begin(caller, response, site, answer)


@router.post("/second-factor")
async def answer_second_factor(
    body: SecondFactorAnswer, response: Response, caller: Caller = Depends(NeedsNothing())
) -> Session:
    """Completes a sign-in that was answered with 202."""
    _same_origin(caller.request)
    services = caller.services
    challenge = await open_sealed(services.store, body.challenge_id, services.clock)
    services.attempts.check(caller.source, challenge.username)
    if body.kind not in FACTORS:
        raise _unsupported_factor((body.kind,))
    try:
        site = await services.store.sites.get(challenge.site_id)
    except NotInStore:
        raise session_ended() from None
    try:
        signed = await services.gate.second_factor(
            site, challenge.username, challenge.challenge, body.kind, body.code.get_secret_value()
        )
    except Refused as error:
        services.attempts.failed(caller.source, challenge.username)
        await services.store.audit.record(
            challenge.username, "", "session.sign-in", f"site/{site.name}", "refused: second factor", {}, caller.source
        )
        raise SignInRefused(
            ErrorCode.SIGN_IN_REFUSED, "The code was not accepted.", "Take the current code and try again."
        ) from error
    except NotSupported as error:
        raise _unsupported_factor((body.kind,)) from error
    except ProxmoxError as error:
        raise proxmox_problem(error, site) from error
    return await _begin(caller, response, site, signed)


@router.get("")
async def read_session(caller: SignedIn = Depends(NeedsSession(Right.SIGNED_IN))) -> Session:
    """Who is signed in, and what they may do that is not about one cluster."""
    return await _shown(caller.services, await caller.services.store.sessions.get(caller.person.session_id))


@router.post("/renew")
async def renew_session(caller: SignedIn = Depends(NeedsSession(Right.SIGNED_IN))) -> Session:
    """Prolongs the session, and the Proxmox VE ticket behind it."""
    services, person = caller.services, caller.person
    if not person.local and person.site_id is not None:
        site = await services.store.sites.get(person.site_id)
        try:
            await services.tickets.renew(person.session_id, site)
        except ProxmoxError as error:
            raise proxmox_problem(error, site) from error
    try:
        renewed = await services.store.sessions.renew(person.session_id, services.clock() + SESSION_LIFE)
    except NotInStore:
        raise session_ended() from None
    return await _shown(services, renewed)


@router.delete("", status_code=204)
async def sign_out(response: Response, caller: SignedIn = Depends(NeedsSession(Right.SIGNED_IN))) -> None:
    """Ends the session and forgets the Proxmox VE ticket."""
    services, person = caller.services, caller.person
    await services.store.sessions.delete(person.session_id)
    services.rights.forget(person.session_id)
    drop_cookie(response, services)
    await services.store.audit.record(person.known_as, "", "session.sign-out", "", "done", {}, caller.source)


async def site_named(services: Services, name: str | None) -> Site:
    """The site of a sign-in; without a name the only one. Raises NotFound."""
    if name is not None:
        site = await services.store.sites.find(name)
        if site is None:
            raise NotFound(ErrorCode.NOT_FOUND, f"There is no site {name}.", "GET /api/v1/realms lists the sites.")
        return site
    sites = await services.store.sites.list()
    if len(sites) != 1:
        raise NotFound(
            ErrorCode.NOT_FOUND,
            "There is no site yet." if not sites else "There are several sites, and none was named.",
            "Sign in as the local administrator and add a site." if not sites else "Name the site to sign in to.",
        )
    return sites[0]


async def _sign_in_locally(caller: Caller, body: SignIn, response: Response) -> Session:
    services = caller.services
    if not await services.store.local_users.check(body.username, body.password.get_secret_value()):
        raise await _refused(caller, None, LOCAL_REALM, body.username)
    return await _begin(caller, response, None, body.username)


async def _begin(caller: Caller, response: Response, site: Site | None, who: ProxmoxSignedIn | str) -> Session:
    """Opens the session: cookie, row, ticket. A session that the browser still holds ends, so that none is fixed."""
    services = caller.services
    before = session_id_of(caller.request, services)
    if before is not None:
        await services.store.sessions.delete(before)
    now, token = services.clock(), new_token()
    user = who if isinstance(who, str) else who.username
    session = StoredSession(
        id=session_id(token),
        site_id=site.id if site else None,
        user=user,
        csrf=new_token(),
        created_at=now,
        seen_at=now,
        expires_at=now + SESSION_LIFE,
        local=site is None,
    )
    await services.store.sessions.expire()
    await services.store.sessions.create(session)
    if not isinstance(who, str):
        await services.tickets.keep(session.id, who)
    set_cookie(response, services, token)
    person = Person(session.user, session.local, session.site_id, session.id)
    services.attempts.succeeded(caller.source, _attempt_key(site.name if site else None, *_parts(user, site)))
    where = f"site/{site.name}" if site else "platform"
    await services.store.audit.record(person.known_as, "", "session.sign-in", where, "done", {}, caller.source)
    return await _shown(services, session)


async def _shown(services: Services, session: StoredSession) -> Session:
    site = await services.store.sites.get(session.site_id) if session.site_id else None
    person = Person(session.user, session.local, session.site_id, session.id)
    return Session(
        user=session.user,
        site=site.name if site else None,
        local=session.local,
        csrf=session.csrf,
        created_at=session.created_at,
        renew_after=session.seen_at + RENEW_AFTER,
        expires_at=session.expires_at,
        may=await _may(services, person, site),
    )


async def _may(services: Services, person: Person, site: Site | None) -> PersonRights:
    platform = Allowed(allowed=person.local, reason="" if person.local else "Only the local administrator may.")
    if site is None:
        nowhere = Allowed(allowed=False, reason="The local administrator has no rights on clusters.")
        return PersonRights(
            create_cluster=nowhere,
            administer_sites=platform,
            administer_site=platform,
            administer_charts=platform,
            read_audit=platform,
        )
    try:
        held = await services.rights.listed(person, site)
    except RightMissing:
        raise
    except ApiError as error:
        if error.status == 401:
            raise
        # Proxmox VE is away: one stays signed in, and every act says why it is off.
        off = Allowed(allowed=False, reason=error.detail)
        return PersonRights(
            create_cluster=off,
            administer_sites=platform,
            administer_site=off,
            administer_charts=off,
            read_audit=platform,
        )
    at_root = held.at("/")
    lacking = next((privilege for privilege in SETUP if privilege not in at_root), SETUP[0])
    several = len(await services.store.sites.list()) > 1
    return PersonRights(
        create_cluster=allowed(held.at(workload_pool(site)), CHANGE, workload_pool(site)),
        administer_sites=platform,
        administer_site=allowed(at_root, lacking, "/"),
        administer_charts=allowed(at_root, lacking, "/", CHARTS_OF_ALL if several else ""),
        read_audit=platform,
    )


async def _refuse_unsupported_realm(services: Services, site: Site, realm: str) -> None:
    """Names a realm that we cannot use. The list of realms is public, so this tells nothing about a person."""
    known = {row.realm: row for row in await realms_of(services, site)}
    row = known.get(realm)
    if row is None:
        names = ", ".join(name for name, one in known.items() if one.supported)
        raise Unsupported(
            ErrorCode.FACTOR_NOT_SUPPORTED, f"Site {site.name} has no realm {realm!r}.", f"Use one of: {names}."
        )
    if not row.supported:
        raise Unsupported(
            ErrorCode.FACTOR_NOT_SUPPORTED,
            f"Realm {realm} is of type {row.type}, with which one cannot sign in here yet.",
            row.remedy,
        )


async def _ask_second_factor(services: Services, site: Site, factor: SecondFactor) -> SecondFactorNeeded:
    usable = [kind for kind in factor.kinds if kind in FACTORS]
    if not usable:
        raise _unsupported_factor(factor.kinds)
    expires_at = services.clock() + CHALLENGE_LIFE
    sealed = await seal(services.store, Challenge(site.id, factor.username, factor.challenge, expires_at))
    return SecondFactorNeeded(
        second_factor=SecondFactorChallenge(
            challenge_id=sealed,
            kinds=usable,
            other_kinds=[kind for kind in factor.kinds if kind not in FACTORS],
            expires_at=expires_at,
        )
    )


def _unsupported_factor(kinds: tuple[str, ...]) -> Unsupported:
    return Unsupported(
        ErrorCode.FACTOR_NOT_SUPPORTED,
        f"The second factor {', '.join(kinds)} of this account cannot be used here yet.",
        f"Add one of {', '.join(FACTORS)} to the account in Proxmox VE.",
    )


async def _refused(caller: Caller, site: str | None, realm: str, username: str) -> SignInRefused:
    """Counts and records a failure; the answer is the same whatever was wrong."""
    caller.services.attempts.failed(caller.source, _attempt_key(site, realm, username))
    await caller.services.store.audit.record(
        f"{username}@{realm}"[:128], "", "session.sign-in", f"site/{site}" if site else "", "refused", {}, caller.source
    )
    return SignInRefused(
        ErrorCode.SIGN_IN_REFUSED, "User name or password is wrong.", "Check both, and the realm, and try again."
    )


def _attempt_key(site: str | None, realm: str, username: str) -> str:
    return f"{site or ''}/{username.removesuffix(f'@{realm}')}@{realm}".lower()


def _parts(user: str, site: Site | None) -> tuple[str, str]:
    if site is None:
        return LOCAL_REALM, user
    name, _, realm = user.rpartition("@")
    return realm, name


def _same_origin(request: Request) -> None:
    """Refuses a sign-in that another web page sends: it would sign the person in to the attacker's account.

    There is no session whose token could be asked for yet; browsers say themselves where a request comes from.
    """
    if request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin", "same-site"):
        raise RightMissing(
            ErrorCode.CSRF_MISSING,
            "The sign-in came from another web page.",
            "Open Trilithon itself and sign in there.",
        )
