"""Headers of every answer, and the last net under every fault. Plain ASGI, so that streams pass through untouched."""

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.problems import Malformed, answer, unexpected
from clients.charts import LARGEST
from domain.errors import ErrorCode

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
EVERY_ANSWER = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
STRICT_TRANSPORT = "max-age=31536000"
BODY_LIMIT = 1024 * 1024
"""Bytes. Few requests of ours come near; one that does not say its length is cut where it is read (api.manifests)."""
LARGER = {"/api/v1/charts": LARGEST}
"""Where more may come: packed charts."""


def too_large(scope: Scope) -> int:
    """The limit in bytes, when a request says itself that it is larger than any of ours at that address; else 0."""
    length = dict(scope["headers"]).get(b"content-length", b"0")
    limit = LARGER.get(scope["path"], BODY_LIMIT)
    return limit if length.isdigit() and int(length) > limit else 0


class Headers:
    """Adds the headers, and answers unexpected exceptions where nothing was sent yet.

    Answers of the API are never stored by anything on the way; pages set their own caching (api.pages).
    """

    def __init__(self, app: ASGIApp, *, api_prefix: str, tls: bool) -> None:
        self._app = app
        self._api_prefix = api_prefix
        self._tls = tls

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in EVERY_ANSWER.items():
                    headers[name] = value
                if self._tls:
                    headers["Strict-Transport-Security"] = STRICT_TRANSPORT
                if scope["path"].startswith(self._api_prefix):
                    headers["Cache-Control"] = "no-store"
            await send(message)

        if limit := too_large(scope):
            problem = Malformed(
                ErrorCode.TOO_LARGE,
                f"The request is larger than {limit // 1024} KiB.",
                "Send less at once.",
                status=413,
            )
            await answer(problem.problem())(scope, receive, with_headers)
            return
        try:
            await self._app(scope, receive, with_headers)
        except Exception as error:
            fault = unexpected(Request(scope), error)
            if started:
                # The answer is half sent; cutting it is the only honest end, and the log says why.
                raise
            await fault(scope, receive, with_headers)
