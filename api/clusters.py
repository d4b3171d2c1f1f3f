"""Clusters: listed, created, changed and deleted."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from api import cluster_changes as changes
from api.access import (
    AtCluster,
    AtName,
    AtSite,
    NeedsApply,
    NeedsCluster,
    NeedsOwnSite,
    NeedsSession,
    Right,
    SignedIn,
    own_site,
)
from api.cluster_views import rows, whole
from api.idempotency import Answer, IdempotencyKey, once
from api.manifests import MANIFEST_BODY, ManifestBody, manifest_body
from api.models.clusters import Accepted, Cluster, ClusterRow, Deletion, Preview
from api.models.problems import Violation
from api.models.shapes import Page
from api.problems import Conflicting, Invalid
from api.rights import SEE, pool_of
from domain.clusters import ClusterStatus
from domain.errors import ErrorCode

router = APIRouter(prefix="/clusters", tags=["clusters"])
SORTS = r"^-?(name|namespace|site|status|created)$"
DryRun = Annotated[bool, Query(alias="dryRun", description="Answer with the preview and write nothing.")]
LATER = {"model": Accepted, "description": "Accepted; its job starts when the Temporal server is back."}


@router.get("")
async def list_clusters(
    text: Annotated[str, Query(description="Part of `<namespace>.<name>`.", max_length=100)] = "",
    status: Annotated[ClusterStatus | None, Query()] = None,
    sort: Annotated[str, Query(pattern=SORTS, description="Descending with a leading `-`.")] = "name",
    offset: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    caller: SignedIn = Depends(NeedsSession(Right.SIGNED_IN)),
) -> Page[ClusterRow]:
    """The clusters that the person may see, filtered, sorted and paged by the server."""
    services, person = caller.services, caller.person
    now = services.clock()
    if person.local:
        return Page(items=[], total=0, unfiltered_total=0, offset=offset, limit=limit, as_of=now)
    site = await own_site(person, services)
    seen = await services.sight.clusters(person, site)
    found, total = await services.store.clusters.page(
        site_id=site.id,
        names=None if seen.everything else seen.pool_names,
        text=text,
        status=status,
        sort=sort,
        offset=offset,
        limit=limit,
    )
    return Page(
        items=await rows(services, found),
        total=total,
        unfiltered_total=len(seen.by_id),
        offset=offset,
        limit=limit,
        as_of=now,
    )


@router.post(
    "",
    status_code=201,
    response_model=Accepted,
    openapi_extra=MANIFEST_BODY,
    responses={202: LATER, 200: {"model": Preview, "description": "With `dryRun`: what would be done."}},
)
async def create_cluster(
    body: ManifestBody = Depends(manifest_body),
    key: IdempotencyKey = None,
    dry_run: DryRun = False,
    caller: AtSite = Depends(NeedsOwnSite(Right.CREATE_CLUSTER)),
) -> Response:
    """Creates a cluster from its manifest; 202 when its job starts later; with `dryRun` 200 and a preview."""

    async def work() -> Answer:
        namespace, name = _names(body)
        existing = await caller.services.store.clusters.find(namespace, name)
        if existing is not None and not dry_run:
            # Before the rules: a cluster's own addresses would be called taken by itself.
            raise changes.taken(namespace, name)
        spec, broken = await changes.judged(caller, body)
        if dry_run:
            return 200, changes.preview(namespace, name, None, spec, broken)
        if spec is None:
            raise changes.refuse(broken)
        accepted = await changes.create(caller, spec)
        return (201 if accepted.started else 202), accepted

    return await once(caller, None if dry_run else key, body.text, work)


@router.get("/{namespace}/{name}")
async def read_cluster(caller: AtCluster = Depends(NeedsCluster(Right.SEE_CLUSTER))) -> Cluster:
    """One cluster with its conditions, counts and what the person may do with it."""
    return await whole(caller.services, caller.cluster, caller.site, caller.held)


@router.put(
    "/{namespace}/{name}",
    response_model=Accepted,
    openapi_extra=MANIFEST_BODY,
    responses={
        200: {"model": Accepted | Preview, "description": "Nothing had to change; or, with `dryRun`, the preview."},
        201: {"model": Accepted, "description": "Created."},
        202: LATER,
    },
)
async def apply_cluster(
    body: ManifestBody = Depends(manifest_body),
    dry_run: DryRun = False,
    caller: AtName = Depends(NeedsApply(Right.PUT_CLUSTER)),
) -> Response:
    """Makes the cluster what the manifest says: creates it (201), or finds nothing to change (200)."""

    async def work() -> Answer:
        spec, broken = await changes.judged(caller, body, caller.cluster)
        if spec is not None and (spec.namespace, spec.name) != (caller.namespace, caller.name):
            broken, spec = [_other_name(caller, spec.namespace, spec.name)], None
        if dry_run:
            return 200, changes.preview(caller.namespace, caller.name, caller.cluster, spec, broken)
        if spec is None:
            raise changes.refuse(broken)
        if caller.cluster is None:
            accepted = await changes.create(caller, spec)
            return (201 if accepted.started else 202), accepted
        if caller.cluster.deleting:
            raise Conflicting(
                ErrorCode.CONFLICT,
                f"Cluster {caller.namespace}/{caller.name} is being deleted.",
                "Apply again once it is gone.",
            )
        if spec.model_dump() != caller.cluster.spec.model_dump():
            raise changes.refuse_change(caller.cluster, spec)
        held = await caller.services.rights.reading(caller.person, caller.site, pool_of(caller.site, caller.cluster))
        return 200, await changes.unchanged(caller, caller.cluster, held | {SEE})

    # Without a key: applying twice is applying once, by what an apply is.
    return await once(caller, None, "", work)


@router.delete("/{namespace}/{name}", status_code=202)
async def delete_cluster(
    body: Deletion | None = None,
    confirm: Annotated[str | None, Query(description="The cluster's name, typed; or in the body.")] = None,
    caller: AtCluster = Depends(NeedsCluster(Right.CHANGE_CLUSTER)),
) -> Accepted:
    """Deletes the cluster with its VMs. The name is asked for, since this cannot be undone."""
    typed = body.confirm if body is not None else confirm
    if typed != caller.cluster.name:
        raise Invalid(
            ErrorCode.NAME_NOT_CONFIRMED,
            f"Deleting {caller.cluster.namespace}/{caller.cluster.name} takes its name as proof that it is meant; "
            "it was not given. Nothing was deleted.",
            f"Send `confirm` with the value {caller.cluster.name}.",
            violations=[
                Violation(
                    path="confirm",
                    code="Required" if typed is None else "Mismatch",
                    message="is not the cluster's name",
                    remedy=f"type {caller.cluster.name}",
                )
            ],
        )
    return await changes.delete(caller, caller.cluster)


def _names(body: ManifestBody) -> tuple[str, str]:
    """Namespace and name as the manifest gives them, for a preview of one that may be broken."""
    document = body.document
    metadata = document.get("metadata") if isinstance(document, dict) else None
    if not isinstance(metadata, dict):
        return "", ""
    return str(metadata.get("namespace") or "clusters")[:64], str(metadata.get("name") or "")[:64]


def _other_name(caller: AtName, namespace: str, name: str) -> Violation:
    return Violation(
        path="metadata.name",
        code="Conflicts",
        message=f"the manifest is of {namespace}/{name}, the address of {caller.namespace}/{caller.name}",
        remedy="use the manifest's own address",
    )
