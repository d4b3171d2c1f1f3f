"""One dependency per route declares the right that the route needs, and hands it what the right is about.

`tests/lint` and `tests/api` read the declarations: a route without exactly one `Needs` fails, so that no route can be
forgotten. What is not seen is answered exactly as what does not exist: one message, no name repeated, and the same
work done in the same order (the exact path is asked of Proxmox VE in both cases, then the store is read).
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from fastapi import Path, Request

from api.people import Person, person_of
from api.problems import not_built
from api.services import Services, services_of
from domain.clusters import Cluster
from domain.jobs import Job
from domain.sites import Site

SiteName = Annotated[str, Path(max_length=64)]
Namespace = Annotated[str, Path(max_length=64)]
ClusterName = Annotated[str, Path(max_length=64)]
JobId = Annotated[str, Path(max_length=128)]


class Right(StrEnum):
    """What a route needs. The text goes into the OpenAPI document as `x-right`."""

    NONE = "none"
    """Open to everybody: what sign-in itself needs."""
    SIGNED_IN = "signed-in"
    """Any session; the answer holds only what its person may see."""
    ADMINISTER_SITES = "administer-sites"
    """The local administrator."""
    SEE_SITE = "see-site"
    """Those who are signed in at this site, and the local administrator."""
    ADMINISTER_SITE = "administer-site"
    """The set-up privileges on `/` of this site, or the local administrator."""
    READ_AUDIT = "read-audit"
    """The local administrator."""
    CREATE_CLUSTER = "create-cluster"
    """VM.Allocate on the workload pool; storage and bridge are asked once the manifest is read."""
    SEE_CLUSTER = "see-cluster"
    CHANGE_CLUSTER = "change-cluster"
    PUT_CLUSTER = "put-cluster"
    """CHANGE_CLUSTER where it exists and may be seen, else CREATE_CLUSTER."""
    TAKE_KUBECONFIG = "take-kubeconfig"
    SEE_JOB = "see-job"
    """The right to see its cluster; jobs of sites: to administer the site. The local administrator sees all jobs."""
    DECIDE_JOB = "decide-job"


@dataclass(frozen=True)
class Caller:
    """Everything that a route may know about who calls it."""

    request: Request
    services: Services

    @property
    def source(self) -> str:
        """Where the request came from, for the audit."""
        return self.request.client.host if self.request.client else ""


@dataclass(frozen=True)
class SignedIn(Caller):
    person: Person


@dataclass(frozen=True)
class AtSite(SignedIn):
    site: Site


@dataclass(frozen=True)
class AtCluster(AtSite):
    cluster: Cluster


@dataclass(frozen=True)
class AtJob(SignedIn):
    job: Job
    site: Site | None
    cluster: Cluster | None


class Needs:
    """Base of the declarations: a dependency with a `right`."""

    def __init__(self, right: Right) -> None:
        self.right = right


class NeedsNothing(Needs):
    def __init__(self) -> None:
        super().__init__(Right.NONE)

    async def __call__(self, request: Request) -> Caller:
        return Caller(request, services_of(request))


class NeedsSession(Needs):
    """SIGNED_IN, ADMINISTER_SITES, READ_AUDIT."""

    async def __call__(self, request: Request) -> SignedIn:
        services = services_of(request)
        return SignedIn(request, services, await person_of(request, services))


class NeedsSite(Needs):
    """SEE_SITE, ADMINISTER_SITE."""

    async def __call__(self, request: Request, site: SiteName) -> AtSite:
        raise not_built("This")


class NeedsOwnSite(Needs):
    """CREATE_CLUSTER: the site that the person is signed in to."""

    async def __call__(self, request: Request) -> AtSite:
        raise not_built("This")


class NeedsCluster(Needs):
    """SEE_CLUSTER, CHANGE_CLUSTER, TAKE_KUBECONFIG."""

    async def __call__(self, request: Request, namespace: Namespace, name: ClusterName) -> AtCluster:
        raise not_built("This")


class NeedsApply(Needs):
    """PUT_CLUSTER."""

    async def __call__(self, request: Request, namespace: Namespace, name: ClusterName) -> AtSite:
        raise not_built("This")


class NeedsJob(Needs):
    """SEE_JOB, DECIDE_JOB."""

    async def __call__(self, request: Request, job_id: JobId) -> AtJob:
        raise not_built("This")
