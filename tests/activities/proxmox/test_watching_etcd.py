"""The site's watch looks at etcd by the way, and neither waits for the other."""

import asyncio
from typing import Any

from activities.proxmox.watching import Watching
from domain.contracts.jobs import SiteInput
from store import StoreUnavailable
from tests.activities.proxmox.conftest import World

SITE = SiteInput(site_id="site-1", site_name="lab")


class Watch(Watching):
    """A watch whose round lasts until it is told to end; Proxmox VE is not asked."""

    etcd_every = 0.001

    def __init__(self, look: Any) -> None:
        super().__init__(None, None, look)  # type: ignore[arg-type]
        self.end = asyncio.Event()

    async def _watch(self, site: SiteInput, moved: asyncio.Event) -> None:
        await self.end.wait()


async def test_it_looks_again_and_again_and_survives_a_store_that_is_away() -> None:
    seen: list[str] = []

    async def look(site_id: str, ill_only: bool) -> bool:
        seen.append(site_id)
        if len(seen) == 1:
            raise StoreUnavailable("away")
        if len(seen) == 3:
            watch.end.set()
        return ill_only

    watch = Watch(look)
    await asyncio.wait_for(watch.watch_site(SITE), 10)
    assert seen == ["site-1"] * 3


async def test_a_look_that_hangs_ends_with_the_round() -> None:
    ended = asyncio.Event()

    async def look(_: str, __: bool) -> bool:
        watch.end.set()
        try:
            return await asyncio.Event().wait()
        finally:
            ended.set()

    watch = Watch(look)
    await asyncio.wait_for(watch.watch_site(SITE), 10)
    assert ended.is_set()


async def test_without_a_look_only_the_site_is_watched() -> None:
    watch = Watch(None)
    watch.end.set()
    await watch.watch_site(SITE)


class Reading(Watching):
    """A watch that tells of its reads."""

    watch_every, etcd_every, etcd_ill_every = 0.02, 3600.0, 0.01

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.reads = asyncio.Queue[None]()

    async def _server_moved(self, *given: Any) -> bool:
        moved = await super()._server_moved(*given)
        self.reads.put_nowait(None)
        return moved

    async def next_reads(self, count: int) -> None:
        """Waits until the site was read so many times from now on."""
        while not self.reads.empty():
            self.reads.get_nowait()
        for _ in range(count):
            await asyncio.wait_for(self.reads.get(), 20)


async def test_power_of_a_server_brings_a_look_at_once_and_the_ill_are_looked_at_until_they_are_well(
    world: World,
) -> None:
    (machine,) = world.machines
    await world.groundwork()
    await world.create(machine)
    looks: list[bool] = []
    well = asyncio.Event()

    async def look(_: str, ill_only: bool) -> bool:
        looks.append(ill_only)
        if len(looks) == 3:
            well.set()
        return len(looks) < 3

    watch = Reading(world.store, world.activities.sites, look)
    under_way = asyncio.create_task(watch.watch_site(SiteInput(site_id=world.site.id, site_name="lab")))
    try:
        await watch.next_reads(3)
        assert looks == [], "nothing has moved"
        world.datacenter.control("PUT", f"vms/{machine.vmid}", {"status": "stopped"})
        await asyncio.wait_for(well.wait(), 20)
        await watch.next_reads(5)
        assert looks == [False, True, True], "all of them once, then the ill ones, then none"
    finally:
        under_way.cancel()
        await asyncio.wait([under_way])
