"""What the routes need from outside, handed in at the start: so that tests hand in doubles of single seams."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from fastapi import Request

from api.attempts import Attempts
from api.gate import Gate
from api.rights import Rights
from api.sight import Sight
from api.tickets import Tickets
from clients.charts import ChartFolder
from domain.clusters import Cluster
from domain.jobs import Decision, Job
from domain.sites import Site
from store import Store


class Engine(Protocol):
    """What we ask of the Temporal server: a part of `jobs.Engine`. Raises `jobs.EngineAway` and its kin."""

    async def poke(self, cluster: Cluster, site: Site | None = None) -> bool:
        """Starts or signals the cluster's job. False: the engine does not answer, the dispatcher will do it."""
        ...

    async def decide(self, job: Job, decision: Decision) -> str:
        """Tells a parked job what a person decided."""
        ...

    async def start_self_test(self, site: Site) -> str:
        """Starts a self-test, or finds the one that runs, and gives the id of its job."""
        ...

    async def answers(self) -> bool:
        """Whether the engine can be reached."""
        ...

    def link(self, job: Job) -> str:
        """The job's page in the Temporal UI; empty where no UI is set up."""
        ...


@dataclass(frozen=True)
class Settings:
    """How this installation is set up, as far as the API shows or needs it."""

    version: str = "0.1.0"
    engine_url: str | None = None
    """Base address of the Temporal UI."""
    documentation_url: str | None = None
    pages: str | None = None
    """Folder with the built pages; None serves the API alone."""
    secure_cookie: bool = False
    """True wherever we are reached by TLS."""
    features: tuple[str, ...] = ("clusters", "jobs", "sites", "templates", "charts", "kubeconfig", "audit")


@dataclass
class Services:
    """Everything that routes use. `clock` gives aware UTC times."""

    store: Store
    gate: Gate
    engine: Engine
    clock: Callable[[], datetime]
    settings: Settings = field(default_factory=Settings)
    charts: ChartFolder | None = None
    """The folder of charts that workers have too; None where it is not known, and then nothing is refused for it."""
    tickets: Tickets = field(init=False)
    rights: Rights = field(init=False)
    sight: Sight = field(init=False)
    attempts: Attempts = field(init=False)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the process is about to end: streams end then, and their pages come back to its successor."""

    def __post_init__(self) -> None:
        self.tickets = Tickets(self.store, self.gate, self.clock)
        self.rights = Rights(self.gate, self.tickets, self.clock)
        self.sight = Sight(self.store, self.rights)
        self.attempts = Attempts(self.clock)


def services_of(request: Request) -> Services:
    """The services that `create_app` was given."""
    services = request.app.state.services
    assert isinstance(services, Services)  # noqa: S101
    return services
