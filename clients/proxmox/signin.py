"""Signing in a person with a realm of Proxmox VE: password, second factor, renewal.

proxmoxer's own ticket code is not used: it burns an attempt with an empty factor, ignores the pinned certificate on
that path and renews behind our back. The second factor is a second call of the same address, with the first answer's
ticket as `tfa-challenge`. A ticket lives two hours; a ticket in the place of the password gives the next one.
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar
from urllib.parse import unquote

import requests

from clients.proxmox.client import ProxmoxClient
from clients.proxmox.errors import NotSupported, NotTrusted, ProxmoxError, Refused, Unreachable, classify, mask
from clients.proxmox.transport import DEFAULT_TIMEOUT, THREADS, distrusted, prepare, reason
from clients.proxmox.trust import Trust, base_url

TICKET_LIFETIME = 7200
"""Seconds a ticket is good for."""

FACTORS = ("totp", "recovery")
"""The second factors that we can pass on today; `webauthn`, `u2f` and `yubico` are named when they are all there is."""

T = TypeVar("T")


@dataclass(frozen=True)
class Realm:
    """One row of the sign-in page's list. `supported` is false for OpenID Connect realms, until they are built."""

    name: str
    type: str
    comment: str = ""
    default: bool = False
    tfa: str = ""

    @property
    def supported(self) -> bool:
        return self.type != "openid"


@dataclass(frozen=True)
class SignedIn:
    """A full ticket. `username` is `user@realm` as Proxmox VE writes it."""

    username: str
    ticket: str = field(repr=False)
    csrf: str = field(repr=False)


@dataclass(frozen=True)
class SecondFactor:
    """The password was right; now one of `kinds` is asked for. `challenge` goes back with it, to nobody else."""

    username: str
    challenge: str = field(repr=False)
    kinds: tuple[str, ...]

    @property
    def supported(self) -> tuple[str, ...]:
        return tuple(kind for kind in self.kinds if kind in FACTORS)


async def realms(endpoints: Sequence[str], trust: Trust, timeout: float = DEFAULT_TIMEOUT) -> list[Realm]:
    """The realms a person may choose from; needs no account."""
    rows = await _anonymous(endpoints, trust, timeout, "GET", "access/domains", {})
    return [
        Realm(
            name=str(row["realm"]),
            type=str(row.get("type", "")),
            comment=str(row.get("comment") or ""),
            default=bool(int(row.get("default") or 0)),
            tfa=str(row.get("tfa") or ""),
        )
        for row in rows
    ]


async def sign_in(
    endpoints: Sequence[str],
    trust: Trust,
    realm: str,
    username: str,
    password: str,
    timeout: float = DEFAULT_TIMEOUT,
) -> SignedIn | SecondFactor:
    """First step. Raises Refused for anything wrong with name or password (Proxmox VE does not say which)."""
    name = username if username.endswith(f"@{realm}") else f"{username}@{realm}"
    params = {"username": name, "password": password, "new-format": "1"}
    answer = await _anonymous(endpoints, trust, timeout, "POST", "access/ticket", params)
    ticket = str(answer.get("ticket") or "")
    if answer.get("NeedTFA") or ticket.startswith("PVE:!tfa!"):
        return SecondFactor(name, ticket, challenge_kinds(ticket))
    return _signed_in(name, answer)


async def second_factor(
    endpoints: Sequence[str],
    trust: Trust,
    username: str,
    challenge: str,
    kind: str,
    code: str,
    timeout: float = DEFAULT_TIMEOUT,
) -> SignedIn:
    """Second step. Raises Refused for a wrong code, NotSupported for a kind of factor that is not built yet."""
    if kind not in FACTORS:
        raise NotSupported(f"The second factor {kind!r} cannot be used here yet; use one of {', '.join(FACTORS)}.")
    params = {"username": username, "tfa-challenge": challenge, "password": f"{kind}:{code.strip()}"}
    answer = await _anonymous(endpoints, trust, timeout, "POST", "access/ticket", params)
    signed = _signed_in(username, answer)
    if signed.ticket.startswith("PVE:!tfa!"):
        raise Refused("authentication failure", status=401, method="POST", path="/access/ticket")
    return signed


async def renew(
    endpoints: Sequence[str], trust: Trust, username: str, ticket: str, timeout: float = DEFAULT_TIMEOUT
) -> SignedIn:
    """A fresh ticket for a still valid one; no second factor is asked. Raises Refused when it is too late."""
    params = {"username": username, "password": ticket}
    return _signed_in(username, await _anonymous(endpoints, trust, timeout, "POST", "access/ticket", params))


async def permissions(client: ProxmoxClient, path: str | None = None) -> dict[str, dict[str, int]]:
    """The account's own privileges: path -> privilege -> propagate flag (0 still means: held).

    Without `path` only paths that occur somewhere are listed; ask for the exact path before a change.
    """
    answer = await client.get("access/permissions", path=path)
    return {
        str(where): {str(name): int(flag) for name, flag in (held or {}).items()}
        for where, held in (answer or {}).items()
    }


def challenge_kinds(ticket: str) -> tuple[str, ...]:
    """The second factors that a half-done ticket (`PVE:!tfa!{json}:...`) asks for.

    The JSON is percent-encoded in the ticket. An unreadable one gives `totp`, the factor nearly everybody has.
    """
    body = unquote(ticket.removeprefix("PVE:!tfa!"))
    try:
        kinds, _ = json.JSONDecoder().raw_decode(body)
    except ValueError:
        return ("totp",)
    if not isinstance(kinds, dict):
        return ("totp",)
    return tuple(kind for kind, state in kinds.items() if state and state != "unavailable") or ("totp",)


def _signed_in(username: str, answer: dict[str, Any]) -> SignedIn:
    ticket, csrf = answer.get("ticket"), answer.get("CSRFPreventionToken")
    if not ticket or not csrf:
        raise Refused("authentication failure", status=401, method="POST", path="/access/ticket")
    return SignedIn(str(answer.get("username") or username), str(ticket), str(csrf))


async def _anonymous(
    endpoints: Sequence[str], trust: Trust, timeout: float, method: str, path: str, params: dict[str, str]
) -> Any:
    """One call without a session, on the first endpoint that can be reached."""
    loop = asyncio.get_running_loop()
    for position, endpoint in enumerate(endpoints):
        work: Callable[[], Any] = partial(_ask, endpoint, trust, timeout, method, path, params)
        try:
            return await loop.run_in_executor(THREADS, work)
        except Unreachable:
            if position == len(endpoints) - 1:
                raise
    raise Unreachable("the site has no endpoints")


def _ask(endpoint: str, trust: Trust, timeout: float, method: str, path: str, params: dict[str, str]) -> Any:
    secrets = [value for key, value in params.items() if key in ("password", "tfa-challenge")]
    problem: ProxmoxError
    try:
        with requests.Session() as session:
            answer = prepare(session, trust, endpoint).request(
                method,
                f"{base_url(endpoint)}/{path}",
                data=params if method == "POST" else None,
                timeout=timeout,
                allow_redirects=False,
            )
            if answer.status_code == 200:
                return answer.json()["data"]
            words = mask(answer.reason or "", secrets)
            problem = classify(answer.status_code, words, method=method, path=f"/{path}")
    except (requests.exceptions.RequestException, ValueError, KeyError) as error:
        words = mask(f"{endpoint}: {reason(error)}", secrets)
        problem = NotTrusted(words) if distrusted(error) else Unreachable(words, sent=True)
    raise problem from None
