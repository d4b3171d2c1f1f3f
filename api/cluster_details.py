"""What hangs below one cluster: machines, conditions, jobs, manifest, revisions and its kubeconfig."""

import secrets
from datetime import timedelta
from typing import Annotated, Any

import yaml
from fastapi import APIRouter, Depends, Query, Response

from api.access import AtCluster, NeedsCluster, Right
from api.cluster_changes import record
from api.cluster_views import conditions, in_order, kubeconfig_reason, machine
from api.job_views import summaries
from api.models.clusters import Conditions, FieldChange, Machines, Revision, Revisions
from api.models.jobs import JobSummary
from api.models.shapes import Page
from api.problems import Conflicting
from bootstrap import authorities
from domain.errors import ErrorCode
from domain.manifests import write_manifest
from store import NotFound

router = APIRouter(prefix="/clusters/{namespace}/{name}", tags=["clusters"])
YAML_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/yaml": {"schema": {"type": "string"}}}, "description": "YAML"}
}
CERTIFICATE_LIFE = timedelta(hours=12)
"""A certificate cannot be revoked, so it ends with the working day; another download gives another."""
API_PORT = 6443


@router.get("/machines")
async def list_machines(caller: AtCluster = Depends(NeedsCluster(Right.SEE_CLUSTER))) -> Machines:
    """The cluster's machines, servers first."""
    found = await caller.services.store.machines.of_cluster(caller.cluster.id)
    return Machines(items=[machine(one) for one in in_order(found)], as_of=caller.services.clock())


@router.get("/conditions")
async def list_conditions(caller: AtCluster = Depends(NeedsCluster(Right.SEE_CLUSTER))) -> Conditions:
    """The cluster's conditions; those worth a look first."""
    return Conditions(items=conditions(caller.cluster), as_of=caller.services.clock())


@router.get("/jobs")
async def list_cluster_jobs(
    offset: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    caller: AtCluster = Depends(NeedsCluster(Right.SEE_CLUSTER)),
) -> Page[JobSummary]:
    """The cluster's jobs, newest first."""
    found, total = await caller.services.store.jobs.page(cluster_ids=[caller.cluster.id], offset=offset, limit=limit)
    return Page(
        items=await summaries(caller.services, found),
        total=total,
        unfiltered_total=total,
        offset=offset,
        limit=limit,
        as_of=caller.services.clock(),
    )


@router.get("/manifest", responses=YAML_ANSWER, response_class=Response)
async def read_manifest(caller: AtCluster = Depends(NeedsCluster(Right.SEE_CLUSTER))) -> Response:
    """The cluster as a `Cluster` manifest, ready to apply again."""
    text = yaml.safe_dump(write_manifest(caller.cluster.spec), sort_keys=False, allow_unicode=True)
    return Response(text, media_type="application/yaml")


@router.get("/revisions")
async def list_revisions(caller: AtCluster = Depends(NeedsCluster(Right.SEE_CLUSTER))) -> Revisions:
    """Every accepted specification, its author and what it changed, newest first."""
    found = await caller.services.store.clusters.revisions(caller.cluster.id)
    return Revisions(
        items=[
            Revision(
                number=one.number,
                author=one.author,
                at=one.at,
                spec=one.spec,
                diff=[FieldChange.model_validate(change) for change in one.diff],
            )
            for one in reversed(found)
        ]
    )


@router.post("/kubeconfig", responses=YAML_ANSWER, response_class=Response)
async def take_kubeconfig(caller: AtCluster = Depends(NeedsCluster(Right.TAKE_KUBECONFIG))) -> Response:
    """An administrator's kubeconfig with a short-lived certificate of its own; every download is audited."""
    cluster, services = caller.cluster, caller.services
    reason = kubeconfig_reason(cluster)
    if reason:
        raise Conflicting(ErrorCode.CONFLICT, f"There is no kubeconfig: {reason}", "Wait until it is available.")
    try:
        kept = await services.store.secrets.get(f"cluster/{cluster.id}", "authorities")
    except NotFound as error:
        raise Conflicting(
            ErrorCode.CONFLICT, "The cluster's authorities are gone from the secret box.", "Restore the store."
        ) from error
    made = authorities.Authorities.from_json(kept)
    now = services.clock()
    # Recorded before it is given: a download that nobody wrote down must not exist.
    await record(caller, "cluster.kubeconfig", cluster)
    # The person's name is in the certificate, so that the cluster's own audit names them too. X.509 allows 64 letters.
    client = authorities.admin_certificate(
        made,
        caller.person.user[:64],
        rng=secrets,
        not_before=now - authorities.CLOCK_SKEW,
        not_after=now + CERTIFICATE_LIFE,
    )
    text = authorities.kubeconfig(
        f"https://{cluster.spec.endpoint}:{API_PORT}",
        made.server.certificate,
        client,
        cluster=cluster.name,
        user=caller.person.user,
    )
    return Response(
        text,
        media_type="application/yaml",
        headers={"Content-Disposition": f'attachment; filename="{cluster.name}.kubeconfig"'},
    )
