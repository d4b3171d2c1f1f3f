"""Whom we speak to: the certificate is pinned, or signed by a given authority, or by one the system trusts.

There is no way to switch the check off. A fingerprint is compared in the TLS handshake of every connection, before a
request (with its token or password) is sent.
"""

import hashlib
import re
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from requests.adapters import HTTPAdapter

from clients.proxmox.errors import NotTrusted, Unreachable


@dataclass(frozen=True)
class Trust:
    """How an endpoint proves who it is.

    `fingerprint`: SHA-256 of the certificate, hex with or without colons; several, separated by spaces or commas,
    where each node has a certificate of its own. `ca`: authorities in PEM; the host name is checked then. Neither:
    the authorities that come with Python's `certifi`, host name checked.
    """

    fingerprint: str | None = None
    ca: str | None = None

    @property
    def fingerprints(self) -> tuple[str, ...]:
        """The pinned fingerprints, lower-case hex without colons."""
        found = re.split(r"[\s,;]+", self.fingerprint or "")
        return tuple(part.replace(":", "").lower() for part in found if part)

    def check(self) -> None:
        """Raises ValueError where a fingerprint is not SHA-256 in hex, or the CA is not PEM."""
        for value in self.fingerprints:
            if not re.fullmatch(r"[0-9a-f]{64}", value):
                raise ValueError(f"{value!r} is not a SHA-256 fingerprint (64 hexadecimal digits)")
        if self.ca:
            try:
                ssl.create_default_context(cadata=self.ca)
            except ssl.SSLError as error:
                raise ValueError(f"the certificate authority is not a PEM certificate: {error.reason}") from error


def host_and_port(endpoint: str) -> tuple[str, int]:
    """Host and port of a base URL such as `https://pve1.example:8006`. Raises ValueError for anything but https."""
    parts = urlsplit(endpoint if "//" in endpoint else f"https://{endpoint}")
    if parts.scheme != "https" or not parts.hostname:
        raise ValueError(f"{endpoint!r} is not an address of the form https://host:8006")
    return parts.hostname, parts.port or 8006


def base_url(endpoint: str) -> str:
    """The API's base URL on an endpoint, with its port spelled out."""
    host, port = host_and_port(endpoint)
    return f"https://[{host}]:{port}/api2/json" if ":" in host else f"https://{host}:{port}/api2/json"


def peer_fingerprint(endpoint: str, timeout: float = 10.0) -> str:
    """SHA-256 of the certificate that an endpoint shows, colons between bytes. Blocking. Raises Unreachable.

    It trusts nothing: for showing a fingerprint to a person, or for choosing among pinned ones.
    """
    host, port = host_and_port(endpoint)
    context = _unchecked()
    try:
        with socket.create_connection((host, port), timeout=timeout) as raw:
            with context.wrap_socket(raw, server_hostname=host) as tls:
                certificate = tls.getpeercert(binary_form=True)
    except OSError as error:
        raise Unreachable(f"{endpoint}: {error.strerror or error}") from error
    if not certificate:
        raise NotTrusted(f"{endpoint} showed no certificate")
    digest = hashlib.sha256(certificate).hexdigest().upper()
    return ":".join(digest[i : i + 2] for i in range(0, len(digest), 2))


def adapter(trust: Trust, endpoint: str) -> HTTPAdapter:
    """The transport that holds `trust` for one endpoint. May connect once, to choose among several fingerprints."""
    pinned: Sequence[str] = trust.fingerprints
    if not pinned:
        context = ssl.create_default_context(cadata=trust.ca) if trust.ca else None
        return _CheckedAdapter(context)
    if len(pinned) == 1:
        return _PinnedAdapter(pinned[0])
    seen = peer_fingerprint(endpoint).replace(":", "").lower()
    if seen not in pinned:
        raise NotTrusted(f"{endpoint} shows the certificate {seen}, which is not one of the {len(pinned)} pinned ones")
    return _PinnedAdapter(seen)


def _unchecked() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class _PinnedAdapter(HTTPAdapter):
    """Accepts exactly one certificate, whatever name or authority it carries."""

    def __init__(self, fingerprint: str) -> None:
        self._fingerprint = fingerprint
        super().__init__(max_retries=0)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        kwargs.update(ssl_context=_unchecked(), assert_fingerprint=self._fingerprint, assert_hostname=False)
        super().init_poolmanager(*args, **kwargs)

    def cert_verify(self, conn: Any, url: str, verify: Any, cert: Any) -> None:
        """The chain is not asked (it is usually self-made); the fingerprint is, by urllib3, in the handshake."""
        conn.cert_reqs = "CERT_NONE"
        conn.ca_certs = None


class _CheckedAdapter(HTTPAdapter):
    """Accepts what the given authorities signed for this host name; without any, what `certifi` lists."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._context = context
        super().__init__(max_retries=0)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        if self._context is not None:
            kwargs["ssl_context"] = self._context
        super().init_poolmanager(*args, **kwargs)

    def cert_verify(self, conn: Any, url: str, verify: Any, cert: Any) -> None:
        """Never adds the system's authorities to the given ones: that would widen the trust."""
        if self._context is None:
            super().cert_verify(conn, url, True, cert)  # type: ignore[no-untyped-call]
            return
        conn.cert_reqs = "CERT_REQUIRED"
        conn.ca_certs = None
