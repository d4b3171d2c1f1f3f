"""The Proxmox VE API as async calls, over proxmoxer.

proxmoxer blocks, so every call runs in a thread; a `requests` session is not safe to share between threads, so each
call borrows one of its own. Endpoints are tried in turn where nothing can have been carried out: after a failed
connection (and 595, a proxying node that never reached the node that was meant), and for reads after any lost answer.
A changing call whose answer was lost is never repeated here: the caller must look first.

Every changing call passes `_change`, and there a Crossing (clients.crossings), so that a test can observe it or end the
process before it is sent, or after it was answered and before anybody knows.
"""

import asyncio
import hashlib
import io
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote

import requests
from proxmoxer.backends.https import (
    JsonSerializer,
    ProxmoxHTTPApiTokenAuth,
    ProxmoxHTTPAuthBase,
    ProxmoxHttpSession,
)
from proxmoxer.core import ProxmoxResource, ResourceException

from clients.crossings import UNWATCHED, Crossing
from clients.proxmox.errors import NotTrusted, ProxmoxError, Unreachable, classify, mask
from clients.proxmox.transport import DEFAULT_TIMEOUT, THREADS, distrusted, never_connected, prepare, reason
from clients.proxmox.trust import Trust, base_url
from domain.sites import Site

T = TypeVar("T")


@dataclass(frozen=True)
class ApiToken:
    """`user@realm!name` and its value."""

    token_id: str
    secret: str = field(repr=False)


@dataclass(frozen=True)
class Ticket:
    """A signed-in person's session with Proxmox VE."""

    username: str
    ticket: str = field(repr=False)
    csrf: str = field(repr=False)


class _TicketAuth(ProxmoxHTTPAuthBase):  # type: ignore[misc]
    """A ticket that we renew ourselves (clients.proxmox.signin), never proxmoxer."""

    def __init__(self, ticket: Ticket, timeout: float) -> None:
        super().__init__(timeout=timeout, verify_ssl=True)
        self._ticket = ticket

    def get_cookies(self) -> Any:
        jar = requests.cookies.RequestsCookieJar()
        jar.set("PVEAuthCookie", quote(self._ticket.ticket, safe=""))
        return jar

    def __call__(self, request: Any) -> Any:
        if request.method != "GET":
            request.headers["CSRFPreventionToken"] = self._ticket.csrf
        return request


class ProxmoxClient:
    """One site as one account sees it.

    `endpoints`: base URLs, tried in order; the last good one is kept. `timeout` in seconds per attempt. All methods
    raise subclasses of ProxmoxError.
    """

    def __init__(
        self,
        endpoints: Sequence[str],
        credential: ApiToken | Ticket,
        trust: Trust,
        timeout: float = DEFAULT_TIMEOUT,
        *,
        crossing: Crossing = UNWATCHED,
    ) -> None:
        if not endpoints:
            raise ValueError("a site needs at least one endpoint")
        self.endpoints = tuple(endpoints)
        self.credential = credential
        self.trust = trust
        self.timeout = timeout
        self.crossing = crossing
        self._preferred = 0
        self._idle: dict[str, list[ProxmoxResource]] = {}
        self._lock = threading.Lock()
        self._own_endpoint: dict[str, str] | None = None

    @property
    def account(self) -> str:
        """Whom Proxmox VE sees: the token's id, or the person's name."""
        return self.credential.token_id if isinstance(self.credential, ApiToken) else self.credential.username

    async def get(self, path: str, /, **params: Any) -> Any:
        """Reads; tried on every endpoint until one answers."""
        return await self._on_any_endpoint(partial(self._call, "GET", path, params), changing=False)

    async def post(self, path: str, /, **params: Any) -> Any:
        return await self._change("POST", path, params)

    async def put(self, path: str, /, **params: Any) -> Any:
        return await self._change("PUT", path, params)

    async def delete(self, path: str, /, **params: Any) -> Any:
        return await self._change("DELETE", path, params)

    async def upload(self, node: str, storage: str, filename: str, data: bytes, *, content: str = "iso") -> str:
        """Sends a file to a storage and returns the task's UPID.

        It is sent to the node's own address where that is one of the endpoints: any other node copies the file over
        SSH afterwards, which is what fails in CAPMOX #112 and #569. The checksum goes first, so that a broken
        transfer is refused by Proxmox VE itself.
        """
        own = await self.endpoint_of(node)
        file = io.BytesIO(data)
        file.name = filename
        params = {
            "content": content,
            "checksum-algorithm": "sha256",
            "checksum": hashlib.sha256(data).hexdigest(),
            "filename": file,
        }
        path = f"nodes/{node}/storage/{storage}/upload"
        return str(await self._change("POST", path, params, first=own))

    async def endpoint_of(self, node: str) -> str | None:
        """The endpoint that is `node` itself, or None where none of the endpoints is known to be."""
        if self._own_endpoint is None:
            found: dict[str, str] = {}
            for endpoint in self.endpoints:
                try:
                    rows = await self._thread(partial(self._call, "GET", "cluster/status", {}, endpoint))
                except ProxmoxError:
                    continue
                found.update({str(row["name"]): endpoint for row in rows if row.get("local") and "name" in row})
            self._own_endpoint = found
        return self._own_endpoint.get(node)

    async def aclose(self) -> None:
        """Closes the idle connections."""
        with self._lock:
            idle, self._idle = self._idle, {}
        for apis in idle.values():
            for api in apis:
                api._store["session"].close()

    # --- the one way for every changing call ---

    async def _change(self, method: str, path: str, params: dict[str, Any], *, first: str | None = None) -> Any:
        name = crossing_name(method, path)
        self.crossing.before(name)
        try:
            return await self._on_any_endpoint(partial(self._call, method, path, params), changing=True, first=first)
        finally:
            # An error, too, is an answer that a dying process would have lost.
            self.crossing.after(name)

    async def _on_any_endpoint(self, call: Callable[[str], T], *, changing: bool, first: str | None = None) -> T:
        failure: ProxmoxError | None = None
        for endpoint in self._order(first):
            try:
                answer = await self._thread(partial(call, endpoint), finish=changing)
            except (Unreachable, NotTrusted) as error:
                if changing and isinstance(error, Unreachable) and error.sent:
                    raise
                # What a living node says of an absent one tells more than that the absent one does not answer.
                if failure is None or (error.status and not failure.status):
                    failure = error
                continue
            if first is None:
                self._preferred = self.endpoints.index(endpoint)
            return answer
        raise failure or Unreachable("the site has no endpoints")

    def _order(self, first: str | None) -> list[str]:
        turned = [*self.endpoints[self._preferred :], *self.endpoints[: self._preferred]]
        return [first, *(endpoint for endpoint in turned if endpoint != first)] if first else turned

    async def _thread(self, call: Callable[[], T], *, finish: bool = False) -> T:
        """Runs a blocking call; with `finish` a cancelled caller still waits for its end (at most the timeout), so
        that no effect of ours lands after we said that we have stopped."""
        future = asyncio.get_running_loop().run_in_executor(THREADS, call)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            if finish and not future.cancelled():
                await asyncio.wait([future])
            future.add_done_callback(_forget)
            raise

    # --- in a thread ---

    def _call(self, method: str, path: str, params: dict[str, Any], endpoint: str) -> Any:
        where = "/" + path.strip("/")
        problem: ProxmoxError
        api: ProxmoxResource | None = None
        try:
            api = self._borrow(endpoint)
            for value in params.values():
                if isinstance(value, io.IOBase):
                    value.seek(0)
            answer = self._send(api, method, path, _plain(params))
        except ResourceException as error:
            fields = error.errors if isinstance(error.errors, dict) else None
            problem = classify(error.status_code, self._mask(error.content or ""), fields, method=method, path=where)
        except requests.exceptions.RequestException as error:
            words = self._mask(f"{endpoint}: {reason(error)}")
            if distrusted(error):
                problem = NotTrusted(words, method=method, path=where)
            else:
                problem = Unreachable(words, sent=not never_connected(error), method=method, path=where)
        except ProxmoxError as error:
            problem = error
        else:
            if isinstance(answer, dict) and isinstance(answer.get("errors"), bytes):
                problem = Unreachable(
                    f"{endpoint}: the answer is not Proxmox VE's (a proxy's page?)",
                    sent=True,
                    method=method,
                    path=where,
                )
            else:
                return answer
        finally:
            if api is not None:
                self._return(endpoint, api)
        raise problem from None

    @staticmethod
    def _send(api: ProxmoxResource, method: str, path: str, params: dict[str, Any]) -> Any:
        resource = api(path.strip("/"))
        if method == "GET":
            return resource.get(**params)
        if method == "DELETE":
            return resource.delete(**params)
        return resource.post(**params) if method == "POST" else resource.put(**params)

    def _borrow(self, endpoint: str) -> ProxmoxResource:
        with self._lock:
            idle = self._idle.get(endpoint)
            if idle:
                return idle.pop()
        session = prepare(ProxmoxHttpSession(), self.trust, endpoint)
        if isinstance(self.credential, ApiToken):
            user, _, name = self.credential.token_id.partition("!")
            session.auth = ProxmoxHTTPApiTokenAuth(
                user, name, self.credential.secret, verify_ssl=True, timeout=self.timeout
            )
        else:
            session.auth = _TicketAuth(self.credential, self.timeout)
        return ProxmoxResource(base_url=base_url(endpoint), session=session, serializer=JsonSerializer())

    def _return(self, endpoint: str, api: ProxmoxResource) -> None:
        with self._lock:
            self._idle.setdefault(endpoint, []).append(api)

    def _mask(self, text: str) -> str:
        return mask(text, self._secrets())

    def _secrets(self) -> Iterable[str]:
        if isinstance(self.credential, ApiToken):
            return (self.credential.secret,)
        return (self.credential.ticket, quote(self.credential.ticket, safe=""), self.credential.csrf)


def crossing_name(method: str, path: str) -> str:
    """The stable name of a changing call, without what differs between runs: `proxmox POST nodes/qemu/clone`."""
    words = []
    parts = path.strip("/").split("/")
    for position, part in enumerate(parts):
        before = parts[position - 1] if position else ""
        if before not in ("nodes", "qemu", "storage", "users", "token", "content") and ":" not in part:
            words.append(part)
        if before == "content":
            break
    return f"proxmox {method} {'/'.join(words)}"


def _forget(future: "asyncio.Future[Any]") -> None:
    """Takes the exception of a call nobody waits for any more, so that asyncio does not complain about it."""
    if not future.cancelled():
        future.exception()


def _plain(params: dict[str, Any]) -> dict[str, Any]:
    """Booleans as Proxmox VE writes them; unset values left out."""
    return {key: int(value) if isinstance(value, bool) else value for key, value in params.items() if value is not None}


def connect(
    site: Site, secret: bytes, *, timeout: float = DEFAULT_TIMEOUT, crossing: Crossing = UNWATCHED
) -> ProxmoxClient:
    """A client with the platform's own account at a site. `secret` is the token's value from the secret box."""
    trust = Trust(fingerprint=site.fingerprint, ca=site.ca)
    return ProxmoxClient(site.endpoints, ApiToken(site.token_id, secret.decode()), trust, timeout, crossing=crossing)
