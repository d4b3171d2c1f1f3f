"""`python -m lab.nodes --port 8009 --data DIR`: the simulated nodes as a process of their own."""

import argparse
import asyncio
import json
import signal
from pathlib import Path

from lab.nodes.serving import ARTIFACT_HOST, CONTROL_HOST, serve
from lab.nodes.settings import Timing


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="lab.nodes", description=__doc__)
    parser.add_argument("--host", default=CONTROL_HOST, help="address of the control API")
    parser.add_argument("--port", type=int, default=8009, help="port of the control API, 0 for any free one")
    parser.add_argument("--artifact-host", default=ARTIFACT_HOST, help="address of programs and charts")
    parser.add_argument("--artifact-port", type=int, default=8010, help="its port, 0 for any free one")
    parser.add_argument("--data", type=Path, default=None, help="folder that keeps disks and clusters over restarts")
    parser.add_argument("--boot-seconds", type=float, default=Timing.boot, help="power-on to guest agent")
    return parser.parse_args()


async def _run(arguments: argparse.Namespace) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stop.set)
    running = await serve(
        arguments.port,
        arguments.artifact_port,
        arguments.data,
        Timing(boot=arguments.boot_seconds),
        arguments.host,
        arguments.artifact_host,
    )
    ready = {
        "ready": True,
        "control": running.control_url,
        "artifacts": running.artifact_url,
        "charts": f"{running.artifact_url}/charts",
    }
    print(json.dumps(ready), flush=True)
    await stop.wait()
    await running.close()


def main() -> None:
    """Runs until SIGINT or SIGTERM."""
    asyncio.run(_run(_arguments()))


if __name__ == "__main__":
    main()
