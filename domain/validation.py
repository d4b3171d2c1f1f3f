"""One entry to all rules: is this spec right for this site, and may a cluster become it?

Every violation is found, not the first only. The rules are in `domain.rules`, one module for each page of the wizard.
"""

from collections.abc import Iterable, Sequence

from domain.addresses import choose_ranges
from domain.clusters import ClusterSpec
from domain.errors import Violation, ViolationCode, shown
from domain.frozen import Frozen
from domain.manifests import SITE_ANNOTATION, read_parts
from domain.rules import addons, changes, general, identity, machines, network
from domain.rules.context import Neighbour, SiteContext
from domain.sites import Site

__all__ = ["Checked", "Neighbour", "SiteContext", "check", "choose_site", "complete", "validate", "validate_change"]

_PAGES = (general.check, network.check, machines.check, addons.check, identity.check)


class Checked(Frozen):
    """A manifest after reading and judging. `spec` is complete (`complete`), and None exactly when it is refused."""

    spec: ClusterSpec | None
    violations: tuple[Violation, ...] = ()


def check(document: object, context: SiteContext, old: ClusterSpec | None = None) -> Checked:
    """Read a manifest and judge it: as a new cluster, or as a change of `old`. Never raises, whatever `document` is.

    Faults of shape and broken rules come in one answer, as far as the rest can be read despite the former.
    """
    reading = read_parts(document)
    found = list(reading.violations)
    if reading.spec is None:
        return Checked(spec=None, violations=tuple(found))
    spec = complete(reading.spec, context, old)
    rules = validate(spec, context) if old is None else validate_change(old, spec, context)
    # A part that could not be read was left out above; what a rule says about its absence would mislead.
    found += [rule for rule in rules if not any(_same_place(rule.path, one.path) for one in reading.violations)]
    return Checked(spec=None if found else spec, violations=tuple(found))


def complete(spec: ClusterSpec, context: SiteContext, old: ClusterSpec | None = None) -> ClusterSpec:
    """The spec with the choices that are ours: what was chosen for `old`, otherwise ranges as F-026 asks."""
    spec = changes.kept(old, spec) if old is not None else spec
    return choose_ranges(spec, avoid=context.endpoints)


def validate(spec: ClusterSpec, context: SiteContext) -> list[Violation]:
    """Everything that keeps a new cluster from being made in this site; empty when nothing does."""
    found = [violation for page in _PAGES for violation in page(spec, context)]
    return found + list(_unchosen_ranges(spec, context))


def validate_change(old: ClusterSpec, new: ClusterSpec, context: SiteContext) -> list[Violation]:
    """Everything that keeps a cluster from becoming `new`; empty when nothing does.

    `context` leaves the cluster itself out of its neighbours. What a site no longer offers (a bridge, a storage, a
    node, a template) is refused only where the change asks for it: running clusters keep what they have.
    """
    new = changes.kept(old, new)
    found = validate(new, context)
    kept = _kept_paths(old, new)
    found = [one for one in found if not (one.code in _SITE_CODES and any(one.path.startswith(path) for path in kept))]
    return found + list(changes.check(old, new, context))


_SITE_CODES = (ViolationCode.NOT_ALLOWED, ViolationCode.NOT_AVAILABLE)


def _kept_paths(old: ClusterSpec, new: ClusterSpec) -> list[str]:
    """Paths whose value is as before, for the rules that speak of what the site offers now."""
    paths = []
    if old.network.bridge == new.network.bridge:
        paths.append("spec.topology.variables[network].bridge")
    if old.storage == new.storage:
        paths.append("spec.topology.variables[storage]")
    if not changes.needs_template(old, new):
        paths += [general.VERSION_PATH, "spec.topology.classRef.name"]
    had = old.allowed_nodes or ()
    paths += [
        f"spec.topology.variables[allowedNodes][{index}]"
        for index, node in enumerate(new.allowed_nodes or ())
        if node in had
    ]
    return paths


def choose_site(spec: ClusterSpec, sites: Sequence[Site]) -> Site | Violation:
    """The site that a spec names, or the only one there is."""
    names = ", ".join(sorted(site.name for site in sites)) or "none"
    path = f"metadata.annotations[{SITE_ANNOTATION}]"
    if spec.site is None:
        if len(sites) == 1:
            return sites[0]
        return Violation(
            path=path,
            code=ViolationCode.REQUIRED if sites else ViolationCode.NOT_AVAILABLE,
            message="there are several sites" if sites else "there is no site yet",
            remedy=f"name one of {names}" if sites else "ask an administrator to add one (trilithon site add)",
        )
    for site in sites:
        if site.name == spec.site:
            return site
    return Violation(
        path=path,
        code=ViolationCode.NOT_ALLOWED,
        message=f"there is no site {shown(spec.site)}",
        remedy=f"use one of {names}",
    )


def _unchosen_ranges(spec: ClusterSpec, context: SiteContext) -> Iterable[Violation]:
    """F-026's fallback can fail where the nodes' network swallows every private range."""
    chosen = choose_ranges(spec, avoid=context.endpoints)
    for part, given in (("pods", chosen.pod_cidrs), ("services", chosen.service_cidrs)):
        if not given:
            yield Violation(
                path=f"spec.clusterNetwork.{part}.cidrBlocks",
                code=ViolationCode.OVERLAPS,
                message="no private range is clear of the nodes' network",
                remedy="give one that is, or correct the prefix length",
            )


def _same_place(one: str, other: str) -> bool:
    """True when one path is the other or lies within it."""
    shorter, longer = sorted((one, other), key=len)
    return longer.startswith(shorter) and longer[len(shorter) : len(shorter) + 1] in ("", ".", "[")
