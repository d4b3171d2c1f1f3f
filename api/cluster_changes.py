"""What is behind create, apply and delete: judged, asked, written, and only then told to the engine.

The order is the promise: everything that can be refused is refused before anything is written; the write is one
transaction of the store; what comes after it can fail or be lost without the change being lost, since the dispatcher
finds it in the store.
"""

import asyncio
from functools import cache
from zoneinfo import available_timezones

import structlog

from api import charts
from api.access import AtSite
from api.cluster_views import condition, whole
from api.manifests import ManifestBody
from api.models.clusters import Accepted, PlannedMachine, PlannedStep, Preview
from api.models.problems import Violation
from api.problems import Conflicting, Invalid, NotBuilt
from api.rights import create_needs
from api.services import Services
from clients.proxmox import ProxmoxError
from domain.clusters import Cluster, ClusterSpec
from domain.conditions import Condition, ConditionType, Reason, unbuilt
from domain.errors import ErrorCode
from domain.errors import Violation as Broken
from domain.jobs import JobKind
from domain.machines import drafts, identities
from domain.manifests import read_parts
from domain.sites import Site
from domain.validation import SiteContext, check, choose_site
from domain.walk import walk
from store import AlreadyExists, InUse, NotFound

POKE_LIMIT = 2.0
"""Seconds that a person waits for the engine to take a change; after that the dispatcher does it."""
log = structlog.get_logger("trilithon.api")


async def judged(
    caller: AtSite, body: ManifestBody, own: Cluster | None = None
) -> tuple[ClusterSpec | None, list[Violation]]:
    """The spec of a manifest for the caller's site, complete, or every rule that it breaks. Writes nothing."""
    services, site = caller.services, caller.site
    context = SiteContext.of(
        site,
        await services.store.templates.list(site.id),
        await services.store.clusters.all_living(),
        time_zones=_time_zones(),
        visible=set((await services.sight.clusters(caller.person, site)).by_id),
        nodes=await _nodes(services, site) if "allowedNodes" in body.text else None,
        own=own.id if own else None,
    )
    checked = check(body.document, context, own.spec if own else None)
    found = [violation(one) for one in checked.violations]
    spec = checked.spec or read_parts(body.document).spec
    if spec is not None and spec.site is not None:
        # Only the person's own site is offered: what other sites there are is none of their business.
        chosen = choose_site(spec, [site])
        if isinstance(chosen, Broken) and not any(one.path == chosen.path for one in found):
            found.append(violation(chosen))
    if checked.spec is not None and not found and own is None:
        # Before any machine is made: a cluster without its pod network would stand half made.
        found += await charts.missing(services, checked.spec)
    return (checked.spec if not found else None), found


def violation(broken: Broken) -> Violation:
    return Violation(path=broken.path, code=broken.code.value, message=broken.message, remedy=broken.remedy)


def refuse(violations: list[Violation]) -> Invalid:
    """The refusal of a manifest with everything that is wrong with it."""
    first = violations[0]
    more = f", and {len(violations) - 1} more" if len(violations) > 1 else ""
    return Invalid(
        ErrorCode.INVALID_SPEC,
        f"The manifest was refused: {first.path or 'the document'}: {first.message}{more}. Nothing was written.",
        first.remedy,
        violations=violations,
    )


async def create(caller: AtSite, spec: ClusterSpec) -> Accepted:
    """Writes a new cluster and tells the engine. Raises RightMissing and Conflicting."""
    services, site = caller.services, caller.site
    await services.rights.demand(caller.person, site, create_needs(site, spec))
    try:
        cluster = await services.store.clusters.create(spec, site.id, caller.person.known_as, unbuilt(spec))
    except AlreadyExists as error:
        raise taken(spec.namespace, spec.name) from error
    except InUse as error:
        raise refuse(
            [
                Violation(
                    path="spec.topology.variables[controlPlaneEndpoint]",
                    code="InUse",
                    message="this address is taken in its network",
                    remedy="choose an address that nothing else uses",
                )
            ]
        ) from error
    await record(caller, "cluster.create", cluster)
    return await _told(caller, cluster, changed=True)


def taken(namespace: str, name: str) -> Conflicting:
    """The refusal of a name that a living cluster has. It says no more: the person may not see that cluster."""
    return Conflicting(
        ErrorCode.ALREADY_EXISTS,
        f"The name {namespace}/{name} is taken.",
        "Choose another name, or apply to the cluster that has it if you may change it.",
    )


async def delete(caller: AtSite, cluster: Cluster) -> Accepted:
    """Records the wish to delete, once, and tells the engine (also when it was recorded before)."""
    changed = not cluster.deleting
    try:
        cluster = await caller.services.store.clusters.request_deletion(cluster.id, caller.person.known_as)
    except NotFound as error:
        # It went while we looked: what was wanted is so.
        raise Conflicting(ErrorCode.CONFLICT, "The cluster is gone already.", "Read the list again.") from error
    if changed:
        await record(caller, "cluster.delete", cluster)
    return await _told(caller, cluster, changed=changed)


async def unchanged(caller: AtSite, cluster: Cluster, held: frozenset[str]) -> Accepted:
    """The answer to an apply that changes nothing."""
    shown = await whole(caller.services, cluster, caller.site, held)
    return Accepted(cluster=shown, changed=False, started=True)


def refuse_change(cluster: Cluster, spec: ClusterSpec) -> NotBuilt:
    """Changing a cluster that exists comes later; what would change is named."""
    old, new = cluster.spec.model_dump(mode="json"), spec.model_dump(mode="json")
    fields = [name for name in new if old[name] != new[name]]
    return NotBuilt(
        ErrorCode.NOT_BUILT,
        f"Changing an existing cluster is not built yet; {cluster.namespace}/{cluster.name} would change in "
        f"{', '.join(fields)}. Nothing was written.",
        "Delete it and create it anew, or wait for a release that scales and upgrades.",
        violations=[
            Violation(path=name, code="NotBuilt", message="differs from the cluster as it is", remedy="set it back")
            for name in fields
        ],
    )


def preview(
    namespace: str, name: str, existing: Cluster | None, spec: ClusterSpec | None, broken: list[Violation]
) -> Preview:
    """What the job would do, from the same planner that the job asks."""
    imagined = None
    if spec is not None and existing is None:
        imagined = Cluster(id="preview", namespace=spec.namespace, name=spec.name, site_id="", spec=spec)
    machines = drafts(imagined.spec, imagined.id, (), identities(imagined.id, 0)) if imagined else []
    steps = walk(JobKind.CREATE, imagined, ()) if imagined else []
    return Preview(
        namespace=namespace,
        name=name,
        exists=existing is not None,
        spec=spec,
        violations=broken,
        machines=[PlannedMachine.model_validate(one, from_attributes=True) for one in machines],
        steps=[
            PlannedStep(order=order, kind=step.kind, summary=step.summary, machine=step.name if step.machine_id else "")
            for order, step in enumerate(steps, 1)
        ],
        not_acted_on=[condition(one) for one in unbuilt(spec)] if spec is not None else [],
    )


async def record(caller: AtSite, action: str, cluster: Cluster, result: str = "done") -> None:
    """One audit entry about a cluster: the person, and the account that acts for them."""
    await caller.services.store.audit.record(
        caller.person.known_as,
        caller.site.token_id,
        action,
        f"cluster/{cluster.namespace}/{cluster.name}",
        result,
        {"id": cluster.id, "site": caller.site.name, "generation": cluster.generation},
        caller.source,
    )


async def _told(caller: AtSite, cluster: Cluster, *, changed: bool) -> Accepted:
    """Tells the engine. Where it is away the change waits, and a condition says so."""
    services, site = caller.services, caller.site
    started = await _poke(services, cluster, site)
    if not started:
        pending = Condition(
            type=ConditionType.JOB_PENDING,
            status=True,
            reason=Reason.ENGINE_AWAY,
            message="The Temporal server does not answer. The change is kept and starts by itself when it is back.",
        )
        await services.store.clusters.set_condition(cluster.id, pending)
    cluster = await services.store.clusters.get(cluster.id, history=True)
    # The right to change was asked on the exact path; what the pages need besides is a read.
    held = await services.rights.reading(caller.person, site, f"/pool/{site.workload_pool}/{cluster.spec.pool_name}")
    return Accepted(cluster=await whole(services, cluster, site, held), changed=changed, started=started)


async def _poke(services: Services, cluster: Cluster, site: Site) -> bool:
    try:
        async with asyncio.timeout(POKE_LIMIT):
            return await services.engine.poke(cluster, site)
    except TimeoutError:
        return False
    except Exception as error:
        log.error("poke failed", cluster=cluster.id, error=type(error).__name__)
        return False


async def _nodes(services: Services, site: Site) -> set[str] | None:
    """The site's nodes as our own account sees them; None where they cannot be read."""
    try:
        secret = (await services.store.secrets.get(f"site/{site.id}", "token")).decode()
    except NotFound:
        return None
    platform = services.gate.platform(site, secret)
    try:
        return {str(node["node"]) for node in await platform.get("nodes")}
    except ProxmoxError:
        return None
    finally:
        await platform.aclose()


@cache
def _time_zones() -> frozenset[str]:
    return frozenset(available_timezones())
