"""The platform on one machine: what `trilithon up` prepares, starts and tells."""

import asyncio
import gc
import importlib
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cli import installation, laboratory
from cli.datafolder import DataFolder
from cli.failures import Failure
from cli.installation import READY_LIMIT, answers, temporal_program, ways_to_the_command
from cli.output import say
from cli.supervisor import Part, Supervisor
from store import KeyUnusable, SecretKey, migrate, open_store, scrypt_hash

ADMINISTRATOR = "admin"


class Platform:
    """Everything in one process group: Temporal on a file, SQLite, API with pages, one worker.

    Args:
        folder: the data folder, held by the caller.
        port: pages and API.
        temporal_port: the Temporal server.
        temporal_ui_port: its pages.
        lab_space: addresses of the laboratory, or None without one.
        charts: folder of Helm charts; the laboratory's by default when there is one.
        lab_kind: what the laboratory's nodes are. With real ones the processes run in the laboratory's network.
    """

    def __init__(
        self,
        folder: DataFolder,
        port: int,
        temporal_port: int,
        temporal_ui_port: int,
        lab_space: int | None,
        charts: Path | None,
        lab_kind: str = laboratory.KINDS[0],
    ) -> None:
        self._folder = folder
        self._port = port
        self._temporal_port = temporal_port
        self._temporal_ui_port = temporal_ui_port
        self._lab_space = lab_space
        self._charts = charts
        self._lab_kind = lab_kind
        self._lab: dict[str, Any] | None = None
        self._password: str | None = None
        self._first = not folder.store.exists()
        self.supervisor = Supervisor([])

    def prepare(self) -> None:
        """Key, store, first administrator, laboratory.

        Raises:
            Failure: the key is missing or unusable, or the laboratory does not start.
        """
        self._folder.logs.mkdir(exist_ok=True)
        self._key()
        if self._lab_space is not None:
            say("Starting the simulated datacenter …")
            self._lab = laboratory.start(self._folder.lab, self._lab_space, self._lab_kind)
            laboratory.open_ways(self._lab, (self._port, self._temporal_port, self._temporal_ui_port))
        asyncio.run(self._prepare_store())

    def start(self, until: Callable[[], bool]) -> None:
        """Starts the processes and returns when all of them answer, or `until` says to stop.

        Raises:
            Failure: one of them does not answer within a minute; the text ends with its log's last lines.
        """
        parts = self._parts()
        self.supervisor = Supervisor(parts)
        temporal, api, worker = parts
        checks: tuple[tuple[Part, Callable[[], bool]], ...] = (
            (temporal, lambda: laboratory.listens_inside(self._lab, self._temporal_port)),
            (api, lambda: answers(f"http://127.0.0.1:{self._port}/api/v1/healthz")),
            (worker, worker.alive),
        )
        # API and worker wait for a Temporal server that is not there yet; their programs are loaded while it starts.
        for part in parts:
            say(f"Starting {part.name} …")
            if part is api and api.main is not None:
                _load()
            part.start()
        for part, ready in checks:
            deadline = time.monotonic() + READY_LIMIT
            while not ready():
                if until():
                    return
                dead = next((one for one in parts if not one.alive()), None)
                if dead is not None or time.monotonic() > deadline:
                    failed = dead or part
                    raise Failure(f"{failed.name} did not start:\n{failed.tail()}", f"Its log: {failed.log}")
                time.sleep(0.05)

    def welcome(self) -> Iterator[str]:
        """What a person wants to know now: addresses, accounts, folders, and what to try next."""
        url = f"http://127.0.0.1:{self._port}"
        yield ""
        yield f"Trilithon runs:     {url}"
        yield f"Temporal UI:        http://127.0.0.1:{self._temporal_ui_port}"
        if self._lab is not None:
            yield f"Simulated PVE:      {', '.join(self._lab['endpoints'])}  (state: {self._lab['control']}/lab/state)"
        yield f"Data folder:        {self._folder.path}"
        yield f"Key of all secrets: {self._folder.key}  (keep a copy: without it no secret can be read again)"
        yield ""
        if self._password is not None:
            yield f"Local administrator, shown only now: {ADMINISTRATOR} (realm local), password {self._password}"
            yield "  sets up sites and sees jobs; has no rights on clusters"
        if self._lab is not None:
            yield "People of the simulated datacenter (realm pve):"
            for person in self._lab["people"]["people"]:
                factor = f", TOTP secret {person['totp']}" if person.get("totp") else ""
                yield f"  {person['userid']:<14} password {person['password']:<13} {person['may']}{factor}"
            yield ""
            yield "Try next, in another terminal:"
            yield from (f"  {line}" for line in ways_to_the_command())
            yield f"  trilithon login {url} --user dev@pve"
            # Real nodes run kubeadm alone; their addresses are those of the example in the default space.
            example, name = ("dev-kubeadm", "dev") if self._lab.get("kind") == "real" else ("edge-k3s", "edge")
            yield f"  trilithon apply -f examples/{example}.yaml"
            yield f"  trilithon wait cluster/{name} --for=condition=Available"
        else:
            yield f"Next: sign in at {url} as the local administrator and add a site (docs/guide/site.md)."
        yield ""
        yield "Ctrl-C stops the platform."

    def _key(self) -> None:
        try:
            if not self._folder.key.exists():
                if self._folder.store.exists():
                    raise Failure(
                        f"The key file {self._folder.key} is missing, and the store beside it holds secrets sealed "
                        "with it.",
                        "Put your copy of the key back. Without it: `trilithon reset` begins anew.",
                    )
                SecretKey.create(self._folder.key)
            SecretKey.load(self._folder.key)
        except KeyUnusable as error:
            raise Failure(str(error)) from error

    async def _prepare_store(self) -> None:
        await migrate(self._folder.store_url)
        store = open_store(self._folder.store_url, SecretKey.load(self._folder.key), clock=_now)
        try:
            if ADMINISTRATOR not in await store.local_users.names():
                self._password = secrets.token_urlsafe(12)
                await store.local_users.put_local_user(ADMINISTRATOR, scrypt_hash(self._password))
            if self._lab is not None:
                await laboratory.register(store, self._lab, _now())
        finally:
            await store.close()

    @property
    def _enter(self) -> list[str]:
        """What stands before a command that is to run in the laboratory's network."""
        return list((self._lab or {}).get("enter", ()))

    def _parts(self) -> list[Part]:
        folder, logs = self._folder, self._folder.logs
        environment = {
            "TRILITHON_STORE": folder.store_url,
            "TRILITHON_KEY_FILE": str(folder.key),
            "TRILITHON_TEMPORAL": f"127.0.0.1:{self._temporal_port}",
            "TRILITHON_TEMPORAL_UI": f"http://127.0.0.1:{self._temporal_ui_port}",
            "TRILITHON_CHARTS": str(self._charts_folder()),
            "TRILITHON_HOST": "127.0.0.1",
            "TRILITHON_PORT": str(self._port),
        }
        pages = Path(__file__).resolve().parent.parent / "ui" / "dist"
        if pages.is_dir():
            environment["TRILITHON_PAGES"] = str(pages)
        temporal = [
            temporal_program(),
            "server",
            "start-dev",
            *("--ip", "127.0.0.1"),
            *("--port", str(self._temporal_port)),
            *("--ui-port", str(self._temporal_ui_port)),
            *("--db-filename", str(folder.temporal)),
            *("--log-level", "warn"),
            # The server's default rounds short timers up to a second.
            *("--dynamic-config-value", 'history.timerProcessorMaxTimeShift="1ms"'),
            # Two workflows that signal each other at the same time wait as long as this for each other's lock (500 ms).
            *("--dynamic-config-value", 'history.cacheNonUserContextLockTimeout="100ms"'),
        ]
        python = [*self._enter, sys.executable, "-m"]
        parts = [
            Part("Temporal", [*self._enter, *temporal], logs / "temporal.log"),
            Part("API", [*python, "api.main"], logs / "api.log", environment),
            Part("worker", [*python, "workers.main"], logs / "worker.log", environment),
        ]
        if not self._enter:
            parts[1].main, parts[2].main = installation.api, installation.worker
        return parts

    def _charts_folder(self) -> Path:
        if self._charts is not None:
            return self._charts
        return Path(self._lab["charts"]) if self._lab is not None else self._folder.path / "charts"


def _load() -> None:
    """Loads the programs of API and worker, once for all copies of this process (docs/decisions/022)."""
    for program in ("api.main", "workers.main"):
        importlib.import_module(program)
    # What is loaded is never garbage: the collector of a copy would look at all of it, and so copy its memory.
    gc.collect()
    gc.freeze()


def foreign_clusters(folder: DataFolder) -> list[str]:
    """Clusters on sites that are not the laboratory; what `reset` must not forget.

    Raises:
        Failure: the store is there and cannot be read.
    """
    if not folder.store.exists():
        return []

    async def read() -> list[str]:
        store = open_store(folder.store_url, SecretKey.load(folder.key), clock=_now)
        try:
            real = {site.id for site in await store.sites.list() if not site.lab}
            living = await store.clusters.all_living()
            return [f"{c.namespace}/{c.name}" for c in living if c.site_id in real]
        finally:
            await store.close()

    try:
        return asyncio.run(read())
    except Exception as error:
        raise Failure(
            f"The store in {folder.path} cannot be read, so whether clusters would be left behind is unknown: {error}",
            "Mend it, or delete the folder yourself when you know that no cluster stands on a real site.",
        ) from error


def _now() -> datetime:
    return datetime.now(UTC)
