"""The Proxmox VE tickets of those who are signed in: sealed in the store, renewed in time, forgotten at sign-out."""

import asyncio
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from weakref import WeakValueDictionary

from api.gate import Gate
from api.problems import NotSignedIn
from clients.proxmox import Refused, SignedIn, Ticket, Unreachable
from domain.errors import ErrorCode
from domain.sites import Site
from store import NotFound as NotInStore
from store import Store

RENEW_AFTER = timedelta(minutes=45)
"""A ticket lives two hours and is renewed before it is one hour old (facts/proxmox.md 1.1)."""
TICKET_LIFE = timedelta(hours=2)
SESSION_LIFE = TICKET_LIFE - timedelta(minutes=5)
"""How long a session lasts without use. A little less than its ticket: it ends first, and with a clear word."""
NAME = "ticket"


class Tickets:
    """One ticket per session, in the secret box under `session/<id>`."""

    def __init__(self, store: Store, gate: Gate, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._gate = gate
        self._clock = clock
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def keep(self, session_id: str, signed: SignedIn) -> None:
        value = {
            "username": signed.username,
            "ticket": signed.ticket,
            "csrf": signed.csrf,
            "at": self._clock().isoformat(),
        }
        await self._store.secrets.put(_scope(session_id), NAME, json.dumps(value).encode())

    async def take(self, session_id: str, site: Site) -> Ticket:
        """The session's ticket, renewed where it is due. Raises NotSignedIn when it is good no longer."""
        ticket, at = await self._read(session_id)
        if self._clock() - at < RENEW_AFTER:
            return ticket
        return await self.renew(session_id, site, not_before=at)

    async def renew(self, session_id: str, site: Site, *, not_before: datetime | None = None) -> Ticket:
        """A fresh ticket for a still valid one. One request at a time per session; the others find it renewed."""
        async with self._lock(session_id):
            ticket, at = await self._read(session_id)
            if not_before is not None and at > not_before:
                return ticket
            try:
                signed = await self._gate.renew(site, ticket.username, ticket.ticket)
            except Refused as error:
                await self.forget(session_id)
                raise session_ended() from error
            except Unreachable:
                # The old one may still do: Proxmox VE being away must not sign everybody out.
                if self._clock() - at < TICKET_LIFE:
                    return ticket
                raise
            await self.keep(session_id, signed)
            return Ticket(signed.username, signed.ticket, signed.csrf)

    async def forget(self, session_id: str) -> None:
        await self._store.secrets.delete_scope(_scope(session_id))

    async def _read(self, session_id: str) -> tuple[Ticket, datetime]:
        try:
            value = json.loads(await self._store.secrets.get(_scope(session_id), NAME))
        except NotInStore as error:
            raise session_ended() from error
        return Ticket(value["username"], value["ticket"], value["csrf"]), datetime.fromisoformat(value["at"])

    def _lock(self, session_id: str) -> asyncio.Lock:
        lock = self._locks.get(session_id)
        if lock is None:
            lock = self._locks[session_id] = asyncio.Lock()
        return lock


def session_ended() -> NotSignedIn:
    """One answer for every session that is no longer good, whatever the cause."""
    return NotSignedIn(
        ErrorCode.NOT_SIGNED_IN, "Your session has ended.", "Sign in again; what you began goes on meanwhile."
    )


def _scope(session_id: str) -> str:
    return f"session/{session_id}"
