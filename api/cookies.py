"""The session cookie. The store knows only the hash of its value: who reads the database cannot sign in with it."""

import secrets

from fastapi import Request, Response

from api.services import Services
from store import session_id

PLAIN = "trilithon_session"
SECURE = "__Host-trilithon_session"
"""Over TLS: browsers take a cookie of this prefix only with Secure, for this host and from its root."""


def new_token() -> str:
    """A cookie's value: 256 random bits."""
    return secrets.token_urlsafe(32)


def session_id_of(request: Request, services: Services) -> str | None:
    """The id of the session that the request's cookie stands for, whether it exists or not."""
    token = request.cookies.get(SECURE if services.settings.secure_cookie else PLAIN)
    return session_id(token) if token else None


def set_cookie(response: Response, services: Services, token: str) -> None:
    secure = services.settings.secure_cookie
    # No lifetime: it ends with the browser, and the session in the store ends by itself.
    response.set_cookie(SECURE if secure else PLAIN, token, path="/", httponly=True, samesite="strict", secure=secure)


def drop_cookie(response: Response, services: Services) -> None:
    secure = services.settings.secure_cookie
    response.delete_cookie(SECURE if secure else PLAIN, path="/", httponly=True, samesite="strict", secure=secure)
