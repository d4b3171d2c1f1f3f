"""The part that lives in namespaces of its own: first process there, network, control API, machines.

Started by lab.real's main part; when that one dies, however it dies, the kernel ends this one and every machine.
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from aiohttp import web

from lab.nodes.artifacts import Artifacts
from lab.real import cgroups
from lab.real.control import Control
from lab.real.forwards import Forwards, outside_socket
from lab.real.layout import Layout
from lab.real.network import run
from lab.real.stock import Stock
from lab.real.world import World

OUTER_PROC = Path("/run/outer-proc")


def settle() -> None:
    """Private mounts: our own /run and /proc; the machine's processes stay visible under OUTER_PROC, for counting."""

    def mount(*words: str) -> None:
        subprocess.run(["mount", *words], check=True, capture_output=True)

    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    OUTER_PROC.mkdir()
    mount("--rbind", "/proc", str(OUTER_PROC))
    mount("-t", "proc", "proc", "/proc")
    run("ip", "link", "set", "lo", "up")


def reap(child: int) -> int:
    """What the first process of a namespace owes: it takes every orphan's end, and ends with `child`."""
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda number, _: os.kill(child, number))
    while True:
        with contextlib.suppress(InterruptedError):
            pid, status = os.wait()
            if pid == child:
                return os.waitstatus_to_exitcode(status)


async def serve(arguments: argparse.Namespace) -> None:
    """Runs until SIGTERM or SIGINT, then leaves nothing behind."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stop.set)
    layout, given = Layout(arguments.space), json.loads(arguments.stock)
    stock = Stock(Path(given["tree"]), {name: Path(path) for name, path in given["kube"].items()}, Path(given["store"]))
    world = World(layout, stock, arguments.disks, OUTER_PROC)
    world.network.bridge("vmbr0", None)
    forwards = Forwards(arguments.namespace)
    runner = web.AppRunner(Control(world, forwards, arguments.pid).app(), access_log=None, shutdown_timeout=1)
    await runner.setup()
    # The same address inside, for the simulated Proxmox VE, and outside, for people and tests.
    outside = await asyncio.to_thread(outside_socket, arguments.namespace, arguments.host, arguments.port)
    port = outside.getsockname()[1]
    await web.SockSite(runner, outside).start()
    await web.TCPSite(runner, arguments.host, port).start()
    artifacts = web.ServerRunner(web.Server(Artifacts().handle))
    await artifacts.setup()
    await web.TCPSite(artifacts, f"{layout.inside}.1", 8010).start()
    await forwards.open(f"{layout.outside}.10:{arguments.artifact_port}", f"{layout.inside}.1:8010")
    proxy = await forwards.proxy(f"{arguments.host}:{arguments.proxy_port}")
    print(
        json.dumps(
            {
                "ready": True,
                "control": f"http://{arguments.host}:{port}",
                "artifacts": f"http://{layout.inside}.1:8010",
                "charts": f"http://{layout.inside}.1:8010/charts",
                "proxy": f"http://{proxy}",
                "network": {"gateway": f"{layout.inside}.1", "prefix": 24, "base": layout.inside},
                "pve": layout.inside,
                "versions": sorted(stock.kube),
                "namespace_of": arguments.pid,
            }
        ),
        flush=True,
    )
    await stop.wait()
    await runner.cleanup()
    await world.close()
    await artifacts.cleanup()
    cgroups.sweep()


def main() -> int:
    """Number 1 of its namespace forks, so that serving and reaping do not meet."""
    parser = argparse.ArgumentParser(prog="lab.real.inside", description=__doc__)
    parser.add_argument("--space", type=int, required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--artifact-port", type=int, required=True)
    parser.add_argument("--proxy-port", type=int, required=True)
    parser.add_argument("--stock", required=True)
    parser.add_argument("--disks", type=Path, required=True)
    parser.add_argument("--namespace", type=int, required=True)
    parser.add_argument("--pid", type=int, default=0)
    arguments = parser.parse_args()
    if os.getpid() != 1:
        raise SystemExit("lab.real starts this part, in namespaces of its own")
    # Seen from outside: the number by which others enter our network.
    arguments.pid = int(os.readlink("/proc/self"))
    settle()
    child = os.fork()
    if child:
        return reap(child)
    asyncio.run(serve(arguments))
    return 0


if __name__ == "__main__":
    sys.exit(main())
