"""Headers of every answer, and the last net under every fault. Plain ASGI, so that streams pass through untouched."""

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.problems import unexpected

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

        try:
            await self._app(scope, receive, with_headers)
        except Exception as error:
            answer = unexpected(Request(scope), error)
            if started:
                # The answer is half sent; cutting it is the only honest end, and the log says why.
                raise
            await answer(scope, receive, with_headers)
