"""What hangs below one cluster: machines, conditions, jobs, manifest, revisions and its kubeconfig."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from api.access import AtCluster, NeedsCluster, Right
from api.models.clusters import Conditions, Machines, Revisions
from api.models.jobs import JobSummary
from api.models.shapes import Page
from api.problems import not_built

router = APIRouter(prefix="/clusters/{namespace}/{name}", tags=["clusters"])
YAML = {200: {"content": {"application/yaml": {"schema": {"type": "string"}}}, "description": "YAML"}}


@router.get("/machines")
async def list_machines(caller: AtCluster = Depends(NeedsCluster(Right.SEE_CLUSTER))) -> Machines:
    """The cluster's machines, servers first."""
    raise not_built("This")


@router.get("/conditions")
async def list_conditions(caller: AtCluster = Depends(NeedsCluster(Right.SEE_CLUSTER))) -> Conditions:
    """The cluster's conditions; those worth a look first."""
    raise not_built("This")


@router.get("/jobs")
async def list_cluster_jobs(
    offset: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    caller: AtCluster = Depends(NeedsCluster(Right.SEE_CLUSTER)),
) -> Page[JobSummary]:
    """The cluster's jobs, newest first."""
    raise not_built("This")


@router.get("/manifest", responses=YAML, response_class=Response)
async def read_manifest(caller: AtCluster = Depends(NeedsCluster(Right.SEE_CLUSTER))) -> Response:
    """The cluster as a `Cluster` manifest, ready to apply again."""
    raise not_built("This")


@router.get("/revisions")
async def list_revisions(caller: AtCluster = Depends(NeedsCluster(Right.SEE_CLUSTER))) -> Revisions:
    """Every accepted specification, its author and what it changed, newest first."""
    raise not_built("This")


@router.post("/kubeconfig", responses=YAML, response_class=Response)
async def take_kubeconfig(caller: AtCluster = Depends(NeedsCluster(Right.TAKE_KUBECONFIG))) -> Response:
    """An administrator's kubeconfig with a short-lived certificate of its own; every download is audited."""
    raise not_built("This")
