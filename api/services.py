"""What the routes need from outside, handed in at the start: so that tests hand in doubles of single seams."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from fastapi import Request

from domain.clusters import Cluster
from domain.jobs import Decision, Job


class Engine(Protocol):
    """What we ask of the Temporal server (room `jobs`)."""

    async def poke(self, cluster: Cluster) -> bool:
        """Starts or signals the cluster's job. False: the engine does not answer, the dispatcher will do it."""
        ...

    async def decide(self, job: Job, decision: Decision) -> None: ...

    async def start_self_test(self, site_id: str, site_name: str, requested_by: str) -> str | None:
        """The id of the job, or None when the engine does not answer."""
        ...

    async def answers(self) -> bool: ...


@dataclass(frozen=True)
class Settings:
    """How this installation is set up, as far as the API shows or needs it."""

    version: str = "0.1.0"
    lab: bool = False
    engine_url: str | None = None
    """Base address of the Temporal UI, and its namespace below."""
    engine_namespace: str = "default"
    documentation_url: str | None = None
    pages: str | None = None
    """Folder with the built pages; None serves the API alone."""
    secure_cookie: bool = False
    """True wherever we are reached by TLS."""
    features: tuple[str, ...] = ("clusters", "jobs", "sites", "templates", "kubeconfig")


@dataclass
class Services:
    store: Any
    gate: Any
    engine: Engine
    clock: Callable[[], datetime]
    settings: Settings = field(default_factory=Settings)


def services_of(request: Request) -> Services:
    """The services that `create_app` was given."""
    services = request.app.state.services
    assert isinstance(services, Services)  # noqa: S101
    return services
