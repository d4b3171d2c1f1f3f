"""What the API itself asks of a site's Proxmox VE: sign-in, a person's privileges, and looks at the site.

`ProxmoxGate` asks for real. Everything that changes Proxmox VE is a job's work, never the API's.
"""

from collections.abc import Mapping
from typing import Protocol

from clients.proxmox import (
    ApiToken,
    ProxmoxClient,
    Realm,
    SecondFactor,
    SignedIn,
    Ticket,
    Trust,
    permissions,
    realms,
    renew,
    second_factor,
    sign_in,
)
from domain.sites import Site

Privileges = Mapping[str, Mapping[str, int]]
"""Path -> privilege -> propagate flag. A flag of 0 still means: held (facts/proxmox.md 1.2)."""

TIMEOUT = 10.0
"""Seconds for one answer while a person waits for a page."""


class Gate(Protocol):
    """The seam. All methods raise `clients.proxmox.ProxmoxError`s."""

    async def realms(self, site: Site) -> list[Realm]: ...

    async def sign_in(self, site: Site, realm: str, username: str, password: str) -> SignedIn | SecondFactor: ...

    async def second_factor(self, site: Site, username: str, challenge: str, kind: str, code: str) -> SignedIn: ...

    async def renew(self, site: Site, username: str, ticket: str) -> SignedIn: ...

    async def permissions(self, site: Site, ticket: Ticket, path: str | None = None) -> Privileges:
        """The person's own privileges; without `path` those on the paths that Proxmox VE lists."""
        ...

    def platform(self, site: Site, token_secret: str) -> ProxmoxClient:
        """The site as our own account sees it. To be closed by the caller."""
        ...


class ProxmoxGate:
    """The real gate. `timeout` in seconds for each attempt."""

    def __init__(self, timeout: float = TIMEOUT) -> None:
        self._timeout = timeout

    async def realms(self, site: Site) -> list[Realm]:
        return await realms(site.endpoints, trust_of(site), self._timeout)

    async def sign_in(self, site: Site, realm: str, username: str, password: str) -> SignedIn | SecondFactor:
        return await sign_in(site.endpoints, trust_of(site), realm, username, password, self._timeout)

    async def second_factor(self, site: Site, username: str, challenge: str, kind: str, code: str) -> SignedIn:
        return await second_factor(site.endpoints, trust_of(site), username, challenge, kind, code, self._timeout)

    async def renew(self, site: Site, username: str, ticket: str) -> SignedIn:
        return await renew(site.endpoints, trust_of(site), username, ticket, self._timeout)

    async def permissions(self, site: Site, ticket: Ticket, path: str | None = None) -> Privileges:
        client = ProxmoxClient(site.endpoints, ticket, trust_of(site), self._timeout)
        try:
            return await permissions(client, path)
        finally:
            await client.aclose()

    def platform(self, site: Site, token_secret: str) -> ProxmoxClient:
        return ProxmoxClient(site.endpoints, ApiToken(site.token_id, token_secret), trust_of(site), self._timeout)


def trust_of(site: Site) -> Trust:
    return Trust(fingerprint=site.fingerprint, ca=site.ca)
