"""Clusters as they are shown: rows, one cluster, conditions and machines, all from the store alone."""

from collections.abc import Iterable, Sequence

from api.job_views import site_names, summary
from api.models import clusters as shown
from api.models.jobs import JobSummary
from api.progress import of_cluster
from api.rights import CHANGE, SECRET, allowed, pool_of
from api.services import Services
from domain.clusters import Cluster, ClusterStatus, Mark
from domain.conditions import Condition, ConditionType, Reason
from domain.etcd import health, member_of
from domain.jobs import wanted_job
from domain.machines import Machine, Phase, Role
from domain.sites import Site

BAD_WHEN_TRUE = frozenset({ConditionType.JOB_PENDING, ConditionType.DELETING})
"""Conditions whose good state is false; all others are good when true."""


ON_THE_WAY = frozenset({Reason.IN_PROGRESS, Reason.WAITING, Reason.NODES_NOT_READY, Reason.UNINITIALISED})
"""Reasons that say no more than `not yet` while a job works; without one they are a fault."""


def condition(given: Condition, *, worked_on: bool = False) -> shown.Condition:
    """A condition as it is shown; `worked_on`: a job is on its way that may make it good."""
    good = given.status is (given.type not in BAD_WHEN_TRUE)
    in_progress = worked_on and not good and given.reason in ON_THE_WAY
    told = not good and not in_progress and given.reason is not Reason.NOT_BUILT_YET
    return shown.Condition(**given.model_dump(), worth_a_look=told, in_progress=in_progress)


def conditions(cluster: Cluster) -> list[shown.Condition]:
    """Those worth a look first, then those that a job works on, then by type."""
    worked_on = cluster.status is not ClusterStatus.FAILED and wanted_job(cluster) is not None
    found = [condition(given, worked_on=worked_on) for given in cluster.conditions]
    return sorted(found, key=lambda one: (not one.worth_a_look, not one.in_progress, one.type.value))


def etcd(cluster: Cluster, machines: Sequence[Machine]) -> shown.Etcd | None:
    """What was last seen of its etcd, each member under its machine's name; None where nothing was seen."""
    view = cluster.etcd
    if view is None or not view.members:
        return None
    found = health(view, machines)
    owners = {member.id: one.name for one in machines if one.is_server and (member := member_of(view, one)) is not None}
    members = [
        shown.EtcdMember(
            name=owners.get(one.id, one.label),
            machine=one.id in owners,
            healthy=one.healthy,
            learner=one.learner,
            leader=one.id == view.leader,
            message=one.trouble,
        )
        for one in view.members
    ]
    return shown.Etcd(
        members=sorted(members, key=lambda one: one.name),
        healthy=found.healthy,
        voters=found.voters,
        tolerance=found.tolerance,
        leader=next((one.name for one in members if one.leader), ""),
        size=view.size,
        quota=view.quota,
        version=view.version,
    )


def machine(given: Machine) -> shown.Machine:
    return shown.Machine.model_validate(given, from_attributes=True)


def in_order(machines: Iterable[Machine]) -> list[Machine]:
    """Servers first, each group by name."""
    return sorted(machines, key=lambda one: (one.role is not Role.CONTROL_PLANE, one.pool, one.name))


def counts(cluster: Cluster, machines: Sequence[Machine]) -> dict[str, shown.Count]:
    ready = {role: sum(one.role is role and one.phase is Phase.READY for one in machines) for role in Role}
    return {
        "control_plane": shown.Count(ready=ready[Role.CONTROL_PLANE], wanted=cluster.spec.control_planes),
        "workers": shown.Count(ready=ready[Role.WORKER], wanted=cluster.spec.workers),
    }


def row(cluster: Cluster, machines: Sequence[Machine], site: Site | None) -> shown.ClusterRow:
    spec = cluster.spec
    return shown.ClusterRow(
        namespace=cluster.namespace,
        name=cluster.name,
        site=site.name if site else "",
        distribution=spec.distribution,
        version=spec.version,
        status=cluster.status,
        message=message(cluster),
        **counts(cluster, machines),
        endpoint=spec.endpoint,
        created_at=cluster.created_at,
        created_by=cluster.created_by,
        pending=cluster.settled_generation < cluster.generation,
    )


def message(cluster: Cluster) -> str:
    """The sentence of the condition that explains the status; empty where there is nothing to explain."""
    if cluster.status is ClusterStatus.AVAILABLE:
        return ""
    about = {one.type: one for one in cluster.conditions}
    for kind in (ConditionType.JOB_PENDING, ConditionType.DELETING, ConditionType.AVAILABLE):
        one = about.get(kind)
        if one is not None and one.message and (one.status is False or (kind in BAD_WHEN_TRUE and one.status)):
            return one.message
    return ""


async def rows(services: Services, clusters: Sequence[Cluster]) -> list[shown.ClusterRow]:
    machines = await services.store.machines.of_clusters([cluster.id for cluster in clusters])
    sites = await site_names(services)
    return [row(cluster, machines.get(cluster.id, []), sites.get(cluster.site_id)) for cluster in clusters]


async def whole(services: Services, cluster: Cluster, site: Site, held: frozenset[str]) -> shown.Cluster:
    """One cluster; `held` are the person's privileges on its pool."""
    machines = await services.store.machines.of_cluster(cluster.id)
    job = await _job(services, cluster)
    return shown.Cluster(
        **row(cluster, machines, site).model_dump(),
        id=cluster.id,
        spec=cluster.spec,
        pool=f"{site.workload_pool}/{cluster.namespace}.{cluster.name}",
        generation=cluster.generation,
        settled_generation=cluster.settled_generation,
        resource_version=cluster.version,
        conditions=conditions(cluster),
        etcd=etcd(cluster, machines),
        deletion_requested_at=cluster.deletion_requested_at,
        job=job,
        progress=await of_cluster(services, cluster, job),
        may=rights(cluster, site, held),
        as_of=services.clock(),
    )


def rights(cluster: Cluster, site: Site, held: frozenset[str]) -> shown.ClusterRights:
    path = pool_of(site, cluster)
    going = "The cluster is being deleted." if cluster.deleting else ""
    return shown.ClusterRights(
        change=allowed(held, CHANGE, path, going),
        delete=allowed(held, CHANGE, path, going),
        kubeconfig=allowed(held, SECRET, path, kubeconfig_reason(cluster)),
    )


def kubeconfig_reason(cluster: Cluster) -> str:
    """Why there is no kubeconfig yet, from the cluster's state; empty where there is one."""
    if cluster.deleting:
        return "The cluster is being deleted."
    return "" if Mark.AVAILABLE in cluster.marks else "The cluster is not available yet."


async def _job(services: Services, cluster: Cluster) -> JobSummary | None:
    jobs, _ = await services.store.jobs.page(cluster_ids=[cluster.id], limit=1)
    return summary(services, jobs[0], await site_names(services)) if jobs else None
