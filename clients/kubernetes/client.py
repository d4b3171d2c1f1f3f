"""One API server, spoken to in JSON."""

import json
import ssl
from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Any, Self

import httpx

from clients.crossings import UNWATCHED, Crossing
from clients.kubernetes.errors import ApiError, TlsMismatch, Unreachable
from clients.kubernetes.identity import Identity
from clients.tls_failure import NO_ANSWER, tls_failure

Json = dict[str, Any]

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


class KubernetesClient:
    """Speaks to one API server address.

    Args:
        server: base URL, for example `https://192.0.2.50:6443`.
        identity: our certificate and the authority that we trust.
        tls_server_name: name to check the certificate for when it is not the host of `server`.
        timeout: seconds for one call; watches have their own.
        crossing: told of every mutating call (crash-point tests).
    """

    def __init__(
        self,
        server: str,
        identity: Identity,
        *,
        tls_server_name: str | None = None,
        timeout: float = 10.0,
        crossing: Crossing = UNWATCHED,
    ) -> None:
        self.server = server.rstrip("/")
        self._name = tls_server_name
        self._crossing = crossing
        self._http = httpx.AsyncClient(
            verify=identity.context(), timeout=httpx.Timeout(timeout, connect=min(timeout, 3.0)), trust_env=False
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, e: BaseException | None, t: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._http.aclose()

    async def livez(self) -> None:
        """Returns when the API server says that it lives; raises like every call otherwise."""
        await self._send("GET", "/livez", decode=False)

    async def version(self) -> str:
        """The server's version, for example `v1.36.5+k3s1`."""
        return str((await self.get("/version"))["gitVersion"])

    async def get(self, path: str, **query: str) -> Json:
        """The object or list at `path`.

        Raises:
            ApiError: the server refused (404 included).
            Unreachable: nothing answered.
            TlsMismatch: it is not this cluster's API server, or it does not know us.
        """
        return await self._send("GET", path, query=query)

    async def find(self, path: str) -> Json | None:
        """Like `get`, with None for 404."""
        try:
            return await self.get(path)
        except ApiError as error:
            if error.not_found:
                return None
            raise

    async def create(self, path: str, body: Json) -> Json:
        """Creates `body` in the collection `path`."""
        return await self._send("POST", path, body=body)

    async def apply(self, path: str, body: Json, *, manager: str = "trilithon", force: bool = True) -> Json:
        """Server-side apply: the object at `path` has at least what `body` says, whoever made it."""
        query = {"fieldManager": manager, "force": "true" if force else "false"}
        return await self._send("PATCH", path, body=body, query=query, content_type=APPLY)

    async def patch(self, path: str, body: Json | list[Json], *, kind: str = MERGE) -> Json:
        return await self._send("PATCH", path, body=body, query={"fieldManager": "trilithon"}, content_type=kind)

    async def replace(self, path: str, body: Json) -> Json:
        """Replaces the object; its `resourceVersion` makes a lost race a 409."""
        return await self._send("PUT", path, body=body)

    async def delete(self, path: str, *, missing_ok: bool = True) -> None:
        """Deletes the object at `path`; already gone counts as done unless told otherwise."""
        try:
            await self._send("DELETE", path)
        except ApiError as error:
            if not (missing_ok and error.not_found):
                raise

    async def watch(self, path: str, *, seconds: float, **query: str) -> AsyncIterator[Json]:
        """Events of a collection for at most `seconds`; ends early when the server closes the stream."""
        asked = {**query, "watch": "true", "timeoutSeconds": str(max(1, int(seconds)))}
        limit = httpx.Timeout(seconds + 5.0, connect=3.0)
        try:
            async with self._http.stream(
                "GET", self.server + path, params=asked, timeout=limit, extensions=self._extensions()
            ) as answer:
                if answer.status_code >= 400:
                    await answer.aread()
                    raise _refusal(answer)
                async for line in answer.aiter_lines():
                    if line.strip():
                        yield json.loads(line)
        except NO_ANSWER as error:
            raise _translate(error, self.server) from error

    def _extensions(self) -> dict[str, str]:
        return {"sni_hostname": self._name} if self._name else {}

    async def _send(
        self,
        method: str,
        path: str,
        *,
        body: Json | list[Json] | None = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        decode: bool = True,
    ) -> Json:
        mutating = method != "GET"
        name = f"kubernetes {method} {_collection(path)}"
        if mutating:
            self._crossing.before(name)
        try:
            answer = await self._http.request(
                method,
                self.server + path,
                params=dict(query or {}),
                content=None if body is None else json.dumps(body),
                headers={"Content-Type": content_type} if body is not None else None,
                extensions=self._extensions(),
            )
        except NO_ANSWER as error:
            raise _translate(error, self.server) from error
        if mutating:
            self._crossing.after(name)
        if answer.status_code >= 400:
            raise _refusal(answer)
        return dict(answer.json()) if decode else {}


def _collection(path: str) -> str:
    """The resource type in a path: the stable part of a call's name."""
    parts = [part for part in path.split("/") if part]
    after = parts[2:] if parts[:1] == ["api"] else parts[3:]
    if after[:1] == ["namespaces"] and len(after) > 2:
        after = after[2:]
    return after[0] if after else path


def _refusal(answer: httpx.Response) -> ApiError:
    try:
        status = answer.json()
        return ApiError(answer.status_code, str(status.get("reason", "")), str(status.get("message", "")))
    except (ValueError, AttributeError):
        return ApiError(answer.status_code, answer.reason_phrase, answer.text[:300])


def _translate(error: httpx.HTTPError | ssl.SSLError, server: str) -> Unreachable | TlsMismatch:
    failed = tls_failure(error, server)
    if failed is not None:
        return TlsMismatch(failed)
    return Unreachable(f"{server} does not answer: {str(error) or type(error).__name__}")
