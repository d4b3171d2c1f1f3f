"""The client of each site, with its token fresh from the secret box."""

from collections.abc import Callable

from clients.proxmox import ProxmoxClient
from domain.sites import Site
from store import Store

Connect = Callable[[Site, bytes], ProxmoxClient]
"""Makes a client for a site from the token's secret value (`clients.proxmox.connect`)."""

TOKEN = "token"  # noqa: S105 - the name of the secret in the box


class SiteClients:
    """Keeps one client per site for as long as address, pin and token stay the same.

    Site and token are read from the store before every use, so that a rotated token or a changed endpoint is used from
    the next call on, also in the middle of a job (quality.md F27).
    """

    def __init__(self, store: Store, connect: Connect) -> None:
        self._store = store
        self._connect = connect
        self._open: dict[str, tuple[Site, bytes, ProxmoxClient]] = {}

    async def by_id(self, site_id: str) -> tuple[Site, ProxmoxClient]:
        """The site as it is now, and its client. Raises store.NotFound."""
        site = await self._store.sites.get(site_id)
        return site, await self.of(site)

    async def of(self, site: Site) -> ProxmoxClient:
        """The client of a site that was just read. Raises store.NotFound where its token is not in the box."""
        secret = await self._store.secrets.get(f"site/{site.id}", TOKEN)
        known = self._open.get(site.id)
        if known is not None and known[0] == site and known[1] == secret:
            return known[2]
        client = self._connect(site, secret)
        self._open[site.id] = (site, secret, client)
        if known is not None:
            await known[2].aclose()
        return client

    async def aclose(self) -> None:
        """Closes every connection."""
        opened, self._open = self._open, {}
        for _, _, client in opened.values():
            await client.aclose()
