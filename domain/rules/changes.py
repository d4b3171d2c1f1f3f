"""Rules for a change of an existing cluster: what is fixed for its life, and what moves in one direction only."""

from collections.abc import Iterator

from domain.addresses import address, usable
from domain.clusters import ClusterSpec
from domain.errors import Violation, ViolationCode, shown
from domain.manifests import SITE_ANNOTATION
from domain.rules.context import SiteContext
from domain.rules.forms import out_of_range, variable
from domain.rules.general import VERSION_PATH
from domain.rules.network import ENDPOINT, effective_cni
from domain.versions import Version, upgrade_ok


def check(old: ClusterSpec, new: ClusterSpec, context: SiteContext) -> Iterator[Violation]:
    """Everything about the change itself that cannot be. `new` has its ranges chosen (`kept` sees to that)."""
    yield from _fixed(old, new)
    yield from _site(old, new, context)
    yield from _disks(old, new)
    yield from _version(old, new)
    yield from _addresses_in_use(new, context)


def kept(old: ClusterSpec, new: ClusterSpec) -> ClusterSpec:
    """`new` with what we chose for `old` where the owner left the choice to us: ranges and site."""
    update: dict[str, object] = {}
    for field in ("pod_cidrs", "service_cidrs", "site"):
        if not getattr(new, field) and getattr(old, field):
            update[field] = getattr(old, field)
    return new.model_copy(update=update) if update else new


def _fixed(old: ClusterSpec, new: ClusterSpec) -> Iterator[Violation]:
    network = variable("network")
    for path, before, after, why in (
        ("metadata.name", old.name, new.name, "pool and machines carry it"),
        ("metadata.namespace", old.namespace, new.namespace, "pool and machines carry it"),
        ("spec.topology.classRef.name", old.distribution, new.distribution, "no cluster moves to another one"),
        ("spec.clusterNetwork.pods.cidrBlocks", old.pod_cidrs, new.pod_cidrs, "its pods have addresses of it"),
        ("spec.clusterNetwork.services.cidrBlocks", old.service_cidrs, new.service_cidrs, "its services use it"),
        (ENDPOINT, old.endpoint, new.endpoint, "certificates and kubeconfigs name it"),
        (f"{network}.bridge", old.network.bridge, new.network.bridge, "its machines stand in that network"),
        (f"{network}.vlan", old.network.vlan, new.network.vlan, "its machines stand in that network"),
        (f"{network}.prefix", old.network.prefix, new.network.prefix, "its machines stand in that network"),
        (f"{network}.gateway", old.network.gateway, new.network.gateway, "its machines stand in that network"),
        (variable("storage"), old.storage, new.storage, "disks and volumes lie there"),
        (
            variable("cni"),
            effective_cni(old),
            effective_cni(new),
            "the old one's interfaces, routes and addresses would stay on every node",
        ),
        (
            variable("kubeProxyReplacement"),
            old.kube_proxy_replacement,
            new.kube_proxy_replacement,
            "agents read it once, when they start",
        ),
    ):
        if before != after:
            yield Violation(
                path=path,
                code=ViolationCode.IMMUTABLE,
                message=f"this is fixed for the cluster's life: {why}",
                remedy=f"set it back to {_plain(before)}, or make another cluster",
            )


def _site(old: ClusterSpec, new: ClusterSpec, context: SiteContext) -> Iterator[Violation]:
    """A manifest may begin or cease to name the site; naming another one would be a move."""
    if new.site is not None and new.site not in (old.site, context.site_name):
        yield Violation(
            path=f"metadata.annotations[{SITE_ANNOTATION}]",
            code=ViolationCode.IMMUTABLE,
            message="this is fixed for the cluster's life: its machines stand in that site",
            remedy=f"set it back to {old.site or context.site_name}, or make another cluster",
        )


def _plain(value: object) -> str:
    if value is None:
        return "nothing"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else shown(str(value)).strip("'")


def _disks(old: ClusterSpec, new: ClusterSpec) -> Iterator[Violation]:
    for name, before, after in (
        ("controlPlaneMachine", old.control_plane_machine.disk_gib, new.control_plane_machine.disk_gib),
        ("workerMachine", old.worker_machine.disk_gib, new.worker_machine.disk_gib),
    ):
        if after < before:
            yield out_of_range(
                variable(name, "diskGiB"), f"a disk only grows, and it has {before} GiB", f"use {before} or more"
            )


def _version(old: ClusterSpec, new: ClusterSpec) -> Iterator[Violation]:
    if old.version == new.version or old.distribution is not new.distribution:
        return
    try:
        before, after = Version.parse(old.version), Version.parse(new.version)
    except ValueError:
        return
    if after.distribution is before.distribution and not upgrade_ok(before, after):
        back = after < before
        yield out_of_range(
            VERSION_PATH,
            f"{before} cannot go {'back ' if back else ''}to {after}",
            f"use a newer release of v{before.major}.{before.minor} or v{before.major}.{before.minor + 1}: "
            "Kubernetes upgrades one minor version at a time and never back",
        )


def _addresses_in_use(new: ClusterSpec, context: SiteContext) -> Iterator[Violation]:
    parts = usable(new.network)
    lost = [held for held in sorted(context.own_addresses) if not any(address(held) in part for part in parts)]
    if lost:
        yield Violation(
            path=variable("network", "addresses"),
            code=ViolationCode.IN_USE,
            message=f"machines of this cluster have {', '.join(lost[:3])}{' and more' if len(lost) > 3 else ''}",
            remedy="keep the addresses that its machines have; add others beside them",
        )


def needs_template(old: ClusterSpec, new: ClusterSpec) -> bool:
    """True when the change makes machines, so that a template must be there."""
    grown = new.control_planes > old.control_planes or new.workers > old.workers
    return grown or new.version != old.version or old.distribution is not new.distribution
