"""Threads, sessions and words of a failed request: what client and sign-in share below the API."""

import logging
import re
import ssl
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import requests
from urllib3.exceptions import NewConnectionError

from clients.proxmox.trust import Trust, adapter

DEFAULT_TIMEOUT = 30.0
"""Seconds per call. proxmoxer's own default of 5 is too short: a lock of the cluster file system may take 10 s."""

THREADS = ThreadPoolExecutor(max_workers=32, thread_name_prefix="proxmox")
"""Shared by all clients of a process; apart from asyncio's own pool, which a site that hangs must not fill."""

# proxmoxer logs parameters and answers (token values among them) when its level is lowered: closed for good.
for _name in ("proxmoxer.core", "proxmoxer.backends.https"):
    logging.getLogger(_name).disabled = True

SessionT = TypeVar("SessionT", bound=requests.Session)


def prepare(session: SessionT, trust: Trust, endpoint: str) -> SessionT:
    """Makes a session hold `trust` and ignore proxies, `.netrc` and CA variables of the environment. Blocking."""
    session.trust_env = False
    session.mount("https://", adapter(trust, endpoint))
    session.headers["accept"] = "application/json"
    session.hooks["response"].append(_take_words_from_body)
    return session


def _take_words_from_body(response: requests.Response, **_: Any) -> None:
    """Proxmox VE puts its words into the reason phrase, which proxies drop; newer versions repeat them in the body."""
    if response.status_code < 400:
        return
    try:
        message = str(response.json().get("message") or "").strip()
    except (ValueError, AttributeError):
        return
    if len(message) > len(response.reason or ""):
        response.reason = message


def never_connected(error: BaseException) -> bool:
    """True when no connection was made, so that nothing can have been carried out."""
    if isinstance(error, requests.exceptions.ConnectTimeout):
        return True
    return any(isinstance(cause, NewConnectionError) for cause in _causes(error))


def distrusted(error: BaseException) -> bool:
    """True when the handshake failed over the certificate. Any other TLS error may come after the request was sent."""
    words = ("certificate verify failed", "ingerprint", "doesn't match", "Hostname mismatch")
    return any(
        isinstance(cause, ssl.SSLCertVerificationError) or any(word in str(cause) for word in words)
        for cause in _causes(error)
    )


def reason(error: BaseException) -> str:
    """The innermost cause in words, without urllib3's wrappers and object addresses."""
    cause = _causes(error)[-1]
    text = str(getattr(cause, "strerror", None) or cause)
    return re.sub(r"^(<.*?>|\w+\(.*?\)): ", "", text) or type(cause).__name__


def _causes(error: BaseException) -> list[BaseException]:
    found = [error]
    while True:
        seen = found[-1]
        inner = getattr(seen, "reason", None)
        if not isinstance(inner, BaseException):
            inner = next((arg for arg in seen.args if isinstance(arg, BaseException)), None)
        if inner is None or inner in found:
            return found
        found.append(inner)
