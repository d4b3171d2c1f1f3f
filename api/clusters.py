"""Clusters: listed, created, changed and deleted."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from api.access import AtCluster, AtSite, NeedsApply, NeedsCluster, NeedsOwnSite, NeedsSession, Right, SignedIn
from api.idempotency import IdempotencyKey
from api.manifests import MANIFEST_BODY, ManifestBody, manifest_body
from api.models.clusters import Accepted, Cluster, ClusterRow, Deletion, Preview
from api.models.shapes import Page
from api.problems import not_built
from domain.clusters import ClusterStatus

router = APIRouter(prefix="/clusters", tags=["clusters"])
SORTS = r"^-?(name|site|status|version|created)$"
DryRun = Annotated[bool, Query(alias="dryRun", description="Answer with the preview and write nothing.")]


@router.get("")
async def list_clusters(
    text: Annotated[str, Query(description="Part of the name, namespace or version.", max_length=100)] = "",
    status: Annotated[list[ClusterStatus] | None, Query()] = None,
    sort: Annotated[str, Query(pattern=SORTS)] = "name",
    offset: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    caller: SignedIn = Depends(NeedsSession(Right.SIGNED_IN)),
) -> Page[ClusterRow]:
    """The clusters that the person may see, filtered, sorted and paged by the server."""
    raise not_built("This")


@router.post(
    "", status_code=201, openapi_extra=MANIFEST_BODY, responses={202: {"model": Accepted}, 200: {"model": Preview}}
)
async def create_cluster(
    response: Response,
    body: ManifestBody = Depends(manifest_body),
    key: IdempotencyKey = None,
    dry_run: DryRun = False,
    caller: AtSite = Depends(NeedsOwnSite(Right.CREATE_CLUSTER)),
) -> Accepted | Preview:
    """Creates a cluster from its manifest; 202 when its job starts later; with `dryRun` 200 and a preview."""
    raise not_built("This")


@router.get("/{namespace}/{name}")
async def read_cluster(caller: AtCluster = Depends(NeedsCluster(Right.SEE_CLUSTER))) -> Cluster:
    """One cluster with its conditions, counts and what the person may do with it."""
    raise not_built("This")


@router.put(
    "/{namespace}/{name}", openapi_extra=MANIFEST_BODY, responses={201: {"model": Accepted}, 202: {"model": Accepted}}
)
async def apply_cluster(
    response: Response,
    body: ManifestBody = Depends(manifest_body),
    dry_run: DryRun = False,
    caller: AtSite = Depends(NeedsApply(Right.PUT_CLUSTER)),
) -> Accepted | Preview:
    """Makes the cluster what the manifest says: creates it (201), or finds nothing to change (200)."""
    raise not_built("This")


@router.delete("/{namespace}/{name}", status_code=202)
async def delete_cluster(
    body: Deletion | None = None,
    confirm: Annotated[str | None, Query(description="The cluster's name, typed; or in the body.")] = None,
    caller: AtCluster = Depends(NeedsCluster(Right.CHANGE_CLUSTER)),
) -> Accepted:
    """Deletes the cluster with its VMs. The name is asked for, since this cannot be undone."""
    raise not_built("This")
