"""`python -m lab.real --space N --data DIR`: real nodes behind the simulated Proxmox VE, as a process of their own.

Speaks lab/nodes' protocol on 127.0.N.9 (port 8009), inside and outside its namespaces. Prints one JSON line when it is
ready. Exit status 69: the machine lacks something, which is said; 75: another laboratory holds the machine.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from lab.programs.build import BuildFailed
from lab.programs.needs import EXIT_MISSING, Missing, missing_for_nodes, require
from lab.programs.recipes import DEFAULT_VERSION
from lab.real import cgroups
from lab.real.forwards import own_namespace
from lab.real.layout import Layout, cache_folder
from lab.real.lock import DEFAULT, MachineLock, Taken
from lab.real.stock import prepare, prune

EXIT_TAKEN = 75


def say(line: str) -> None:
    """A line for people, on standard error: standard output carries the ready line only."""
    print(line, file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="lab.real", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--space", type=int, default=70, choices=range(2, 240), metavar="N", help="its addresses")
    parser.add_argument("--host", help="address of the control API (127.0.N.9)")
    parser.add_argument("--port", type=int, default=8009, help="its port")
    parser.add_argument("--artifact-port", type=int, default=8010, help="port of charts on 127.0.N.10")
    parser.add_argument("--proxy-port", type=int, default=8011, help="port of the HTTP proxy into the laboratory")
    parser.add_argument("--data", type=Path, required=True, help="folder of this laboratory")
    parser.add_argument("--version", action="append", help=f"Kubernetes version of a template ({DEFAULT_VERSION})")
    parser.add_argument("--wait", type=float, default=0, help="seconds to wait for another laboratory's end")
    parser.add_argument("--prepare", action="store_true", help="only build what is missing")
    parser.add_argument("--lock", type=Path, default=DEFAULT, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    """Builds, locks, cleans up after a dead one, starts the inner part and lives as long as it."""
    arguments = _arguments()
    versions = arguments.version or [DEFAULT_VERSION]
    lock = MachineLock(arguments.lock)
    try:
        require(missing_for_nodes())
        stock = prepare(versions, say)
        if arguments.prepare:
            return 0
        lock.take(str(arguments.data.resolve()), arguments.wait, say)
        # Whoever held the machine meanwhile may have pruned what it did not need.
        stock = prepare(versions, say)
    except Missing as error:
        say(str(error))
        return EXIT_MISSING
    except Taken as error:
        say(str(error))
        return EXIT_TAKEN
    except (BuildFailed, subprocess.CalledProcessError) as error:
        text = error.stderr if isinstance(error, subprocess.CalledProcessError) else ""
        say(f"{error}\n{text.decode(errors='replace') if isinstance(text, bytes) else text or ''}")
        return 1
    arguments.data.mkdir(parents=True, exist_ok=True)
    prune(stock)
    for name in cgroups.sweep():
        say(f"removed what a dead laboratory left: {name}")
    # Beside the stock: machines hard-link the preloaded images, so both must lie on one file system.
    disks = cache_folder() / "disks"
    shutil.rmtree(disks, ignore_errors=True)
    disks.mkdir(parents=True)
    namespace = own_namespace()
    host = arguments.host or f"{Layout(arguments.space).outside}.9"
    inner = subprocess.Popen(
        # Both die with us: the inner part by unshare's --kill-child, unshare by its own parent-death signal.
        [
            "setpriv",
            "--pdeathsig",
            "KILL",
            "--",
            "unshare",
            "-m",
            "-n",
            "-p",
            "-f",
            "--kill-child",
            "--propagation",
            "private",
            "--",
            sys.executable,
            "-m",
            "lab.real.inside",
            "--space",
            str(arguments.space),
            "--host",
            host,
            "--port",
            str(arguments.port),
            "--artifact-port",
            str(arguments.artifact_port),
            "--proxy-port",
            str(arguments.proxy_port),
            "--disks",
            str(disks),
            "--namespace",
            str(namespace),
            "--stock",
            json.dumps(
                {"tree": str(stock.tree), "kube": {k: str(v) for k, v in stock.kube.items()}, "store": str(stock.store)}
            ),
        ],
        pass_fds=(namespace,),
        stdin=subprocess.DEVNULL,
        cwd=Path(__file__).resolve().parents[2],
    )

    def forward(number: int, _: object) -> None:
        # unshare itself ignores SIGTERM while it waits: the signal goes to its child, the first process inside.
        for child in Path(f"/proc/{inner.pid}/task/{inner.pid}/children").read_text().split():
            os.kill(int(child), number)

    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, forward)
    status = inner.wait()
    cgroups.sweep()
    shutil.rmtree(disks, ignore_errors=True)
    lock.drop()
    return status


if __name__ == "__main__":
    sys.exit(main())
