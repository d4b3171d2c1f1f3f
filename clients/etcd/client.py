"""One etcd server, spoken to in JSON."""

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

import httpx

from clients.crossings import UNWATCHED, Crossing
from clients.etcd import shapes
from clients.etcd.errors import Refused, TlsMismatch, Unreachable
from clients.etcd.shapes import Alarm, Health, Json, Member, Status
from clients.kubernetes.identity import Identity
from clients.tls_failure import NO_ANSWER, tls_failure

CLIENT_PORT = 2379
_VERDICT = 3.0
"""Seconds in which a server that refuses our certificate says so."""


class EtcdClient:
    """Speaks to the etcd server at one address.

    Changes look first, so that one that was done already is not done again, and repeat refusals that pass by
    themselves for `patience` seconds.

    Args:
        address: IP address of the server.
        identity: our certificate for etcd, and the authority of etcd's servers.
        port: the client port.
        timeout: seconds for one call.
        patience: seconds for which a passing refusal of a change is tried again.
        step: seconds between two of these tries.
        crossing: told of every mutating call (crash-point tests).
    """

    def __init__(
        self,
        address: str,
        identity: Identity,
        *,
        port: int = CLIENT_PORT,
        timeout: float = 4.0,
        patience: float = 60.0,
        step: float = 2.0,
        crossing: Crossing = UNWATCHED,
    ) -> None:
        host = f"[{address}]" if ":" in address else address
        self.server = f"https://{host}:{port}"
        self._place = (address, port)
        self._context = identity.context()
        self._patience = patience
        self._step = step
        self._crossing = crossing
        self._http = httpx.AsyncClient(
            verify=self._context, timeout=httpx.Timeout(timeout, connect=min(timeout, 3.0)), trust_env=False
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, e: BaseException | None, t: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._http.aclose()

    # --- looks; each raises Unreachable, TlsMismatch or Refused ---

    async def members(self, *, confirmed: bool = False) -> list[Member]:
        """The members as this very server knows them; answered without a majority too.

        With `confirmed` the list is one that a majority agrees on, and without a majority there is none.
        """
        answer = await self._call("/v3/cluster/member/list", {"linearizable": True} if confirmed else {})
        return [shapes.member(one) for one in answer.get("members") or ()]

    async def status(self) -> Status:
        """What the server says of itself: leader, size, version, errors."""
        return shapes.status(await self._call("/v3/maintenance/status", {}))

    async def alarms(self) -> list[Alarm]:
        """Every alarm that is raised, on whichever member."""
        answer = await self._call("/v3/maintenance/alarm", {"action": "GET"})
        return [shapes.alarm(one) for one in answer.get("alarms") or ()]

    async def health(self) -> Health:
        """Whether the server can answer a read that needs the majority. A bad health is an answer, not an error."""
        try:
            answer = await self._http.get(f"{self.server}/health")
        except NO_ANSWER as error:
            raise await self._silence(error) from error
        try:
            said = answer.json()
            return Health(good=said["health"] == "true", reason=str(said.get("reason", "")))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise _refusal(answer) from None

    # --- changes ---

    async def remove_member(self, member_id: str) -> None:
        """Removes a member; one that is not there counts as removed.

        Raises:
            Refused: still refused after `patience`, for example because a majority would be lost.
        """

        async def act() -> None:
            if all(one.id != member_id for one in await self.members(confirmed=True)):
                return
            try:
                await self._change("remove member", "/v3/cluster/member/remove", {"ID": shapes.wire_id(member_id)})
            except Refused as refused:
                if not refused.not_found:
                    raise

        await self._persist(act)

    async def promote(self, member_id: str) -> None:
        """Makes a learner a voter as soon as it has caught up; a voter stays one.

        Raises:
            Refused: it has not caught up within `patience`, or there is no such member (404).
        """

        async def act() -> None:
            found = next((one for one in await self.members(confirmed=True) if one.id == member_id), None)
            if found is not None and not found.learner:
                return
            await self._change("promote member", "/v3/cluster/member/promote", {"ID": shapes.wire_id(member_id)})

        await self._persist(act)

    async def move_leader(self, member_id: str) -> None:
        """Makes another voter the leader. Must be sent to the server that leads now.

        Raises:
            Refused: this server does not lead (`not_the_leader`), or the other cannot.
        """

        async def act() -> None:
            if (await self.status()).leader == member_id:
                return
            target = {"targetID": shapes.wire_id(member_id)}
            await self._change("move leader", "/v3/maintenance/transfer-leadership", target)

        await self._persist(act)

    async def _persist(self, act: Callable[[], Awaitable[None]]) -> None:
        """Repeats what looks before it acts: a lost answer and a passing refusal end in the next look."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._patience
        while True:
            try:
                await act()
                return
            except (Refused, Unreachable) as error:
                given_up = isinstance(error, Refused) and not error.passing
                if given_up or loop.time() + self._step > end:
                    raise
            await asyncio.sleep(self._step)

    async def _change(self, what: str, path: str, body: Json) -> None:
        name = f"etcd {what}"
        self._crossing.before(name)
        await self._call(path, body)
        self._crossing.after(name)

    async def _call(self, path: str, body: Json) -> Json:
        try:
            answer = await self._http.post(self.server + path, content=json.dumps(body))
        except NO_ANSWER as error:
            raise await self._silence(error) from error
        if answer.status_code >= 400:
            raise _refusal(answer)
        try:
            return dict(answer.json())
        except ValueError:
            raise Refused(answer.status_code, "the answer is not etcd's") from None

    async def _silence(self, error: httpx.HTTPError | ssl.SSLError) -> Unreachable | TlsMismatch:
        failed = tls_failure(error, self.server)
        if failed is None and isinstance(error, httpx.NetworkError | httpx.RemoteProtocolError):
            failed = await self._refused_certificate()
        if failed is not None:
            return TlsMismatch(failed)
        return Unreachable(f"{self.server} does not answer: {str(error) or type(error).__name__}")

    async def _refused_certificate(self) -> str | None:
        """Asks in a handshake alone why a connection was closed on us.

        TLS 1.3 judges our certificate when we are already sending: the refusal is then often lost in a reset.
        """
        try:
            reader, writer = await asyncio.open_connection(*self._place, ssl=self._context)
            try:
                async with asyncio.timeout(_VERDICT):
                    await reader.read(1)
            finally:
                writer.close()
        except ssl.SSLError as error:
            return f"{self.server} refused our certificate: {error.reason}"
        except OSError:  # a time-out among them: it was not the certificate
            return None
        return None


def _refusal(answer: httpx.Response) -> Refused:
    try:
        said = answer.json()
        return Refused(answer.status_code, str(said.get("message") or said.get("error") or answer.reason_phrase))
    except (ValueError, AttributeError):
        return Refused(answer.status_code, answer.text[:300] or answer.reason_phrase)
