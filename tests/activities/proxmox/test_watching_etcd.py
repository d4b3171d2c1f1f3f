"""The site's watch looks at etcd by the way, and neither waits for the other."""

import asyncio
from typing import Any

from activities.proxmox.watching import Watching
from domain.contracts.jobs import SiteInput
from store import StoreUnavailable

SITE = SiteInput(site_id="site-1", site_name="lab")


class Watch(Watching):
    """A watch whose round lasts until it is told to end; Proxmox VE is not asked."""

    etcd_every = 0.001

    def __init__(self, look: Any) -> None:
        super().__init__(None, None, look)  # type: ignore[arg-type]
        self.end = asyncio.Event()

    async def _watch(self, site: SiteInput) -> None:
        await self.end.wait()


async def test_it_looks_again_and_again_and_survives_a_store_that_is_away() -> None:
    seen: list[str] = []

    async def look(site_id: str) -> None:
        seen.append(site_id)
        if len(seen) == 1:
            raise StoreUnavailable("away")
        if len(seen) == 3:
            watch.end.set()

    watch = Watch(look)
    await asyncio.wait_for(watch.watch_site(SITE), 10)
    assert seen == ["site-1"] * 3


async def test_a_look_that_hangs_ends_with_the_round() -> None:
    ended = asyncio.Event()

    async def look(_: str) -> None:
        watch.end.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    watch = Watch(look)
    await asyncio.wait_for(watch.watch_site(SITE), 10)
    assert ended.is_set()


async def test_without_a_look_only_the_site_is_watched() -> None:
    watch = Watch(None)
    watch.end.set()
    await watch.watch_site(SITE)
