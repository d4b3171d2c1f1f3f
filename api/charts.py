"""The cache of Helm charts: listed, downloaded, uploaded, forgotten."""

from fastapi import APIRouter, Depends, Request, Response

from api.access import NeedsCharts, NeedsSession, Right, SignedIn, own_site
from api.models.charts import Chart, ChartList, ChartPull, WantedChart
from api.models.problems import Violation
from api.problems import Conflicting, Invalid, Malformed
from api.problems import NotFound as NoSuchThing
from api.services import Services
from clients.charts import LARGEST, ChartArchive, ChartRefused, NotAChart, fetch, read_archive
from domain.charts import KeptChart
from domain.clusters import Cluster, ClusterSpec
from domain.errors import ErrorCode
from domain.releases import CHARTS, chart_named, charts_of
from domain.releases import Chart as Pinned
from store import AlreadyExists, InUse, NotFound, used_by

router = APIRouter(prefix="/charts", tags=["charts"])
UPLOAD = "upload"
_BODY = {
    "requestBody": {
        "required": True,
        "description": f"A packed chart, at most {LARGEST // 1024 // 1024} MiB.",
        "content": {"application/gzip": {"schema": {"type": "string", "format": "binary"}}},
    }
}


@router.get("")
async def list_charts(caller: SignedIn = Depends(NeedsSession(Right.SIGNED_IN))) -> ChartList:
    """Every kept chart with what uses it, and the charts that this release is made for."""
    services = caller.services
    kept = await services.store.charts.list()
    return ChartList(
        items=await _shown(caller, kept),
        total=len(kept),
        wanted=[WantedChart(**pinned.model_dump(), at_hand=await at_hand(services, pinned, kept)) for pinned in CHARTS],
    )


@router.post("", status_code=201, openapi_extra=_BODY)
async def upload_chart(request: Request, caller: SignedIn = Depends(NeedsCharts())) -> Chart:
    """Keeps a packed chart that is sent as the body."""
    raw = bytearray()
    async for piece in request.stream():
        raw += piece
        if len(raw) > LARGEST:
            raise Malformed(
                ErrorCode.TOO_LARGE,
                f"The chart is larger than {LARGEST // 1024 // 1024} MiB.",
                "Send a packed chart (`helm package`), without its images.",
                status=413,
            )
    try:
        archive = read_archive(bytes(raw))
    except NotAChart as error:
        raise Invalid(
            ErrorCode.INVALID_REQUEST, f"This is no Helm chart: {error}.", "Send what `helm package` makes."
        ) from error
    return await _keep(caller, archive, UPLOAD, "chart.upload")


@router.post("/pull", status_code=201)
async def pull_chart(body: ChartPull, caller: SignedIn = Depends(NeedsCharts())) -> Chart:
    """Downloads a chart from its own repository and keeps it, once its digest was checked."""
    pinned = chart_named(body.name)
    version = body.version or (pinned.version if pinned else None)
    repository = body.repository or (pinned.repository if pinned else None)
    if version is None or repository is None:
        known = ", ".join(chart.name for chart in CHARTS)
        raise Invalid(
            ErrorCode.INVALID_REQUEST,
            f"{body.name} is no chart that this release is made for.",
            f"Choose one of {known}, or give version and repository.",
            violations=[Violation(path="name", code="NotSupported", message="not known", remedy=f"use {known}")],
        )
    try:
        archive, source = await fetch(repository, body.name, version)
    except ChartRefused as error:
        raise Invalid(
            ErrorCode.INVALID_REQUEST,
            f"The chart {body.name} {version} was not kept: {error}.",
            "Check the address, or bring the archive yourself: trilithon chart upload FILE.",
        ) from error
    return await _keep(caller, archive, source, "chart.pull")


@router.delete("/{name}/{version}", status_code=204)
async def remove_chart(name: str, version: str, caller: SignedIn = Depends(NeedsCharts())) -> Response:
    """Forgets a chart; refused while a cluster's releases come from it."""
    try:
        await caller.services.store.charts.remove(name, version)
    except NotFound:
        raise NoSuchThing(
            ErrorCode.NOT_FOUND, f"The cache has no chart {name} {version}.", "See what it has: trilithon chart list."
        ) from None
    except InUse as error:
        using = len(used_by(_named(name, version, caller), await caller.services.store.clusters.all_living()))
        # How many, not which: the person may not see them all.
        by = "1 cluster" if using == 1 else f"{using} clusters"
        raise Conflicting(
            ErrorCode.IN_USE,
            f"The chart {name} {version} is needed by {by}, and stays.",
            "It can be deleted when they are gone.",
        ) from error
    await _record(caller, "chart.remove", name, version, {})
    return Response(status_code=204)


async def at_hand(services: Services, chart: Pinned, kept: list[KeptChart] | None = None) -> bool:
    """Whether the chart can be installed: in the cache, or in the folder that was set up."""
    known = await services.store.charts.list() if kept is None else kept
    if any((one.name, one.version) == (chart.name, chart.version) for one in known):
        return True
    return services.charts is not None and services.charts.has(chart.name, chart.version)


async def missing(services: Services, spec: ClusterSpec) -> list[Violation]:
    """A violation for each chart that the cluster needs and nobody has brought; none where no folder is known."""
    if services.charts is None:
        return []
    kept = await services.store.charts.list()
    return [
        Violation(
            path="",
            code="NotAvailable",
            message=f"the chart {chart.label} is neither in the chart cache nor in the chart folder",
            remedy=f"an administrator brings it: trilithon chart pull {chart.name}, or trilithon chart upload "
            f"{chart.name}-{chart.version}.tgz",
        )
        for chart in charts_of(spec)
        if not await at_hand(services, chart, kept)
    ]


async def _keep(caller: SignedIn, archive: ChartArchive, source: str, action: str) -> Chart:
    try:
        kept = await caller.services.store.charts.put(archive.name, archive.version, archive.data, source)
    except AlreadyExists as error:
        raise Conflicting(
            ErrorCode.ALREADY_EXISTS,
            f"{archive.name} {archive.version} is kept already, with other content.",
            "A version means one content. Remove the kept one first if it is wrong.",
        ) from error
    await _record(caller, action, kept.name, kept.version, {"digest": kept.digest, "source": kept.source})
    return (await _shown(caller, [kept]))[0]


async def _shown(caller: SignedIn, charts: list[KeptChart]) -> list[Chart]:
    services, person = caller.services, caller.person
    if not charts:
        return []
    living = await services.store.clusters.all_living()
    seen: set[str] = set()
    if living and not person.local:
        seen = set((await services.sight.clusters(person, await own_site(person, services))).by_id)
    return [_with_users(chart, used_by(chart, living), seen) for chart in charts]


def _with_users(chart: KeptChart, using: list[Cluster], seen: set[str]) -> Chart:
    names = [f"{cluster.namespace}/{cluster.name}" for cluster in using if cluster.id in seen]
    return Chart(**chart.model_dump(), used=len(using), used_by=names)


def _named(name: str, version: str, caller: SignedIn) -> KeptChart:
    return KeptChart(name=name, version=version, digest="", source="", size=0, created_at=caller.services.clock())


async def _record(caller: SignedIn, action: str, name: str, version: str, detail: dict[str, str]) -> None:
    await caller.services.store.audit.record(
        caller.person.known_as, "", action, f"chart/{name}/{version}", "done", detail, caller.source
    )
