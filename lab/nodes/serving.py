"""Starts the simulated nodes: control API, artifact and chart address."""

from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from lab.nodes.artifacts import Artifacts
from lab.nodes.control import Control
from lab.nodes.settings import Timing
from lab.nodes.world import World

CONTROL_HOST = "127.0.70.9"
ARTIFACT_HOST = "127.0.70.10"


@dataclass
class Running:
    """What was started, and where it listens."""

    world: World
    artifacts: Artifacts
    control_url: str
    artifact_url: str
    _runners: list[web.AppRunner | web.ServerRunner]

    async def close(self) -> None:
        """Stops listening and every machine's processes; what ran is kept as running."""
        for runner in self._runners:
            await runner.cleanup()
        await self.world.close()


async def serve(
    port: int = 8009,
    artifact_port: int = 8010,
    data: Path | None = None,
    timing: Timing | None = None,
    host: str = CONTROL_HOST,
    artifact_host: str = ARTIFACT_HOST,
) -> Running:
    """Starts everything; ports of 0 are chosen freely. Raises OSError when an address is busy."""
    world, artifacts = World(data, timing), Artifacts()
    control = web.AppRunner(Control(world, artifacts).app(), access_log=None, shutdown_timeout=1)
    files = web.ServerRunner(web.Server(artifacts.handle, access_log=None), shutdown_timeout=1)
    urls = []
    runners: list[web.AppRunner | web.ServerRunner] = [control, files]
    for runner, where, wanted in ((control, host, port), (files, artifact_host, artifact_port)):
        await runner.setup()
        site = web.TCPSite(runner, where, wanted)
        await site.start()
        urls.append(f"http://{where}:{runner.addresses[0][1]}")
    world.load()
    return Running(world, artifacts, urls[0], urls[1], runners)
