"""One dependency per route declares the right that the route needs, and hands it what the right is about.

`tests/lint` and `tests/api` read the declarations: a route without exactly one `Needs` fails, so that no route can be
forgotten. What is not seen is answered exactly as what does not exist: one message, no name repeated, and the same
work done in the same order (the path is asked of Proxmox VE in both cases, then the store is read).
"""

from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from hmac import compare_digest
from typing import Annotated

from fastapi import Path, Request

from api.cookies import session_id_of
from api.people import Person
from api.problems import NotFound, RightMissing
from api.rights import CHANGE, SECRET, SEE, SETUP, cluster_pool, lacks, pool_of, workload_pool
from api.services import Services, services_of
from api.tickets import SESSION_LIFE, session_ended
from domain.clusters import Cluster
from domain.errors import ErrorCode
from domain.jobs import Job
from domain.sites import Site
from store import NotFound as NotInStore

SiteName = Annotated[str, Path(max_length=64)]
Namespace = Annotated[str, Path(max_length=64)]
ClusterName = Annotated[str, Path(max_length=64)]
JobId = Annotated[str, Path(max_length=128)]
CSRF_HEADER = "X-CSRF-Token"
SEEN_EVERY = timedelta(minutes=10)
"""Use prolongs a session; written at most this often."""
CHARTS_OF_ALL = "The clusters of all sites are made with these charts, and Proxmox VE's rights end at one site."
READING = frozenset({"GET", "HEAD"})


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
    ADMINISTER_CHARTS = "administer-charts"
    """The local administrator; where there is one site only, those with the set-up privileges on its `/` too."""
    READ_AUDIT = "read-audit"
    """The local administrator: the audit spans all sites."""
    CREATE_CLUSTER = "create-cluster"
    """VM.Allocate on the workload pool; storage and bridge are asked once the manifest is read."""
    SEE_CLUSTER = "see-cluster"
    """VM.Audit on the cluster's pool."""
    CHANGE_CLUSTER = "change-cluster"
    """VM.Allocate on the cluster's pool."""
    PUT_CLUSTER = "put-cluster"
    """CHANGE_CLUSTER where it exists and may be seen, else CREATE_CLUSTER."""
    TAKE_KUBECONFIG = "take-kubeconfig"
    """Sys.Modify on the cluster's pool."""
    SEE_JOB = "see-job"
    """The right to see its cluster; jobs of sites: to administer the site. The local administrator sees all jobs."""
    DECIDE_JOB = "decide-job"
    """The right to change its cluster; jobs of sites: to administer the site."""


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
    held: frozenset[str]
    """The person's privileges on the cluster's pool, as they were asked for this request."""


@dataclass(frozen=True)
class AtName(AtSite):
    """A cluster's name, and the cluster where there is one that the person may change."""

    namespace: str
    name: str
    cluster: Cluster | None


@dataclass(frozen=True)
class AtJob(SignedIn):
    """`held`: the person's privileges on its cluster's pool; empty for the local administrator and jobs of sites."""

    job: Job
    site: Site | None
    cluster: Cluster | None
    held: frozenset[str]


class Needs:
    """Base of the declarations: a dependency with a `right`."""

    def __init__(self, right: Right) -> None:
        self.right = right


class NeedsNothing(Needs):
    """NONE."""

    def __init__(self) -> None:
        super().__init__(Right.NONE)

    async def __call__(self, request: Request) -> Caller:
        return Caller(request, services_of(request))


class NeedsSession(Needs):
    """SIGNED_IN, ADMINISTER_SITES, READ_AUDIT."""

    async def __call__(self, request: Request) -> SignedIn:
        services = services_of(request)
        person = await person_of(request, services)
        if self.right is not Right.SIGNED_IN and not person.local:
            raise RightMissing(
                ErrorCode.RIGHT_MISSING,
                f"{person.user} may not do this: it concerns every site, and Proxmox VE's rights end at one.",
                "Sign in as the local administrator.",
            )
        return SignedIn(request, services, person)


class NeedsSite(Needs):
    """SEE_SITE, ADMINISTER_SITE."""

    async def __call__(self, request: Request, site: SiteName) -> AtSite:
        services = services_of(request)
        person = await person_of(request, services)
        found = await services.store.sites.find(site)
        if found is None or not (person.local or person.site_id == found.id):
            raise not_found()
        if self.right is Right.ADMINISTER_SITE and not person.local:
            await services.rights.demand(person, found, [(privilege, "/") for privilege in SETUP])
        return AtSite(request, services, person, found)


class NeedsCharts(Needs):
    """ADMINISTER_CHARTS: the cache is one for all sites, and what is in it is installed with all rights.

    So where there are several sites, an administrator of one of them could reach into the clusters of the others.
    """

    def __init__(self) -> None:
        super().__init__(Right.ADMINISTER_CHARTS)

    async def __call__(self, request: Request) -> SignedIn:
        services = services_of(request)
        person = await person_of(request, services)
        if not person.local:
            site = await own_site(person, services)
            await services.rights.demand(person, site, [(privilege, "/") for privilege in SETUP])
            if len(await services.store.sites.list()) > 1:
                raise RightMissing(
                    ErrorCode.RIGHT_MISSING,
                    f"{person.user} may not do this. {CHARTS_OF_ALL}",
                    "Sign in as the local administrator.",
                )
        return SignedIn(request, services, person)


class NeedsOwnSite(Needs):
    """CREATE_CLUSTER: the site that the person is signed in to."""

    async def __call__(self, request: Request) -> AtSite:
        services = services_of(request)
        person = await person_of(request, services)
        site = await own_site(person, services)
        await services.rights.demand(person, site, [(CHANGE, workload_pool(site))])
        return AtSite(request, services, person, site)


class NeedsCluster(Needs):
    """SEE_CLUSTER, CHANGE_CLUSTER, TAKE_KUBECONFIG."""

    async def __call__(self, request: Request, namespace: Namespace, name: ClusterName) -> AtCluster:
        services = services_of(request)
        person = await person_of(request, services)
        if person.local or person.site_id is None:
            raise not_found()
        site = await own_site(person, services)
        path = cluster_pool(site, namespace, name)
        if self.right is Right.SEE_CLUSTER:
            held = await services.rights.reading(person, site, path)
        else:
            held = await services.rights.exact(person, site, path)
        cluster = await services.store.clusters.find(namespace, name)
        if cluster is None or cluster.site_id != site.id or SEE not in held:
            raise not_found()
        wanted = {Right.CHANGE_CLUSTER: CHANGE, Right.TAKE_KUBECONFIG: SECRET}.get(self.right, SEE)
        if wanted not in held:
            raise lacks(wanted, path, person)
        return AtCluster(request, services, person, site, cluster, held)


class NeedsApply(Needs):
    """PUT_CLUSTER."""

    async def __call__(self, request: Request, namespace: Namespace, name: ClusterName) -> AtName:
        services = services_of(request)
        person = await person_of(request, services)
        site = await own_site(person, services)
        path = cluster_pool(site, namespace, name)
        held = await services.rights.exact(person, site, path)
        cluster = await services.store.clusters.find(namespace, name)
        if cluster is None or cluster.site_id != site.id or SEE not in held:
            await services.rights.demand(person, site, [(CHANGE, workload_pool(site))])
            cluster = None
        elif CHANGE not in held:
            raise lacks(CHANGE, path, person)
        return AtName(request, services, person, site, namespace, name, cluster)


class NeedsJob(Needs):
    """SEE_JOB, DECIDE_JOB."""

    async def __call__(self, request: Request, job_id: JobId) -> AtJob:
        services = services_of(request)
        person = await person_of(request, services)
        try:
            job = await services.store.jobs.get(job_id)
        except NotInStore:
            # The same question that an unseen job would cost, so that the time taken tells nothing.
            if not person.local:
                await services.rights.listed(person, await own_site(person, services))
            raise not_found() from None
        site = await services.store.sites.get(job.site_id) if job.site_id else None
        if job.cluster_id is None:
            await self._site_job(services, person, site)
            return AtJob(request, services, person, job, site, None, frozenset())
        cluster = await services.store.clusters.get(job.cluster_id, history=True)
        site = site or await services.store.sites.get(cluster.site_id)
        held = await self._cluster_job(services, person, site, cluster)
        return AtJob(request, services, person, job, site, cluster, held)

    async def _site_job(self, services: Services, person: Person, site: Site | None) -> None:
        if person.local:
            return
        if site is None or person.site_id != site.id:
            raise not_found()
        listed = (await services.rights.listed(person, site)).at("/")
        if not set(SETUP) <= listed:
            raise not_found()
        if self.right is Right.DECIDE_JOB:
            await services.rights.demand(person, site, [(privilege, "/") for privilege in SETUP])

    async def _cluster_job(self, services: Services, person: Person, site: Site, cluster: Cluster) -> frozenset[str]:
        path = pool_of(site, cluster)
        if person.local:
            if self.right is Right.DECIDE_JOB:
                raise lacks(CHANGE, path, person)
            return frozenset()
        if person.site_id != site.id:
            raise not_found()
        ask = services.rights.reading if self.right is Right.SEE_JOB else services.rights.exact
        held = await ask(person, site, path)
        if SEE not in held:
            raise not_found()
        if self.right is Right.DECIDE_JOB and CHANGE not in held:
            raise lacks(CHANGE, path, person)
        return held


async def person_of(request: Request, services: Services) -> Person:
    """The person behind the request's session cookie. Raises NotSignedIn; and 403 for a change without its token."""
    session_id = session_id_of(request, services)
    if session_id is None:
        raise session_ended()
    try:
        session = await services.store.sessions.get(session_id)
    except NotInStore:
        raise session_ended() from None
    if request.method not in READING:
        given = request.headers.get(CSRF_HEADER, "")
        if not compare_digest(given.encode(), session.csrf.encode()):
            raise RightMissing(
                ErrorCode.CSRF_MISSING,
                f"The change came without this session's token in the header {CSRF_HEADER}.",
                "Read the token from GET /api/v1/session and send it along.",
            )
    if services.clock() - session.seen_at > SEEN_EVERY:
        with suppress(NotInStore):
            await services.store.sessions.renew(session_id, services.clock() + SESSION_LIFE)
    return Person(session.user, session.local, session.site_id, session_id)


async def own_site(person: Person, services: Services) -> Site:
    """The site that the person is signed in to. Raises RightMissing for the local administrator, who has none."""
    if person.local or person.site_id is None:
        raise RightMissing(
            ErrorCode.RIGHT_MISSING,
            "The local administrator has no rights on clusters.",
            "Sign in with a Proxmox VE account that may do this.",
        )
    try:
        return await services.store.sites.get(person.site_id)
    except NotInStore:
        # The site was removed while somebody was signed in to it.
        raise session_ended() from None


def not_found() -> NotFound:
    """The one answer for what does not exist and for what may not be seen."""
    return NotFound(
        ErrorCode.NOT_FOUND,
        "There is nothing of that name here, or you may not see it.",
        "Check the name; if it is right, ask for VM.Audit on the cluster's pool in Proxmox VE.",
    )
