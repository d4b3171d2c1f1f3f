"""Rules of the wizard's page General: names, distribution, version, counts."""

from collections.abc import Iterator

from domain.clusters import ClusterSpec
from domain.errors import Violation, ViolationCode, shown
from domain.machines import CONTROL_PLANE_POOL, MAX_NAME, SUFFIX_LENGTH, name_stem
from domain.rules.context import SiteContext
from domain.rules.forms import (
    bounded,
    duplicate,
    is_label,
    is_label_value,
    is_letter_label,
    is_qualified_key,
    malformed,
    out_of_range,
)
from domain.versions import EXAMPLES, OLDEST, Version

MAX_CLUSTER_NAME = 40
CONTROL_PLANE_COUNTS = (1, 3, 5, 7)
MAX_WORKERS = 100
MAX_POOLS = 50
VERSION_PATH = "spec.topology.version"
DEPLOYMENTS_PATH = "spec.topology.workers.machineDeployments"
RESERVED_POOLS = (CONTROL_PLANE_POOL, "cp")
"""Pool names whose machines would read as servers."""


def check(spec: ClusterSpec, context: SiteContext) -> Iterator[Violation]:
    """Everything wrong on this page."""
    yield from _names(spec)
    yield from _metadata(spec)
    yield from _version(spec, context)
    if spec.control_planes not in CONTROL_PLANE_COUNTS:
        yield out_of_range(
            "spec.topology.controlPlane.replicas",
            f"a control plane cannot have {shown(spec.control_planes)} nodes",
            "use 1, 3, 5 or 7: etcd keeps a majority only with an odd number",
        )
    yield from _pools(spec)


def _names(spec: ClusterSpec) -> Iterator[Violation]:
    if not is_letter_label(spec.name, MAX_CLUSTER_NAME):
        yield malformed(
            "metadata.name",
            spec.name,
            "a name for a cluster",
            f"use at most {MAX_CLUSTER_NAME} lower-case letters, digits and dashes, a letter first, no dash at the end",
        )
    if not is_letter_label(spec.namespace):
        yield malformed(
            "metadata.namespace",
            spec.namespace,
            "a namespace",
            "use at most 63 lower-case letters, digits and dashes, a letter first, no dash at the end",
        )


def _metadata(spec: ClusterSpec) -> Iterator[Violation]:
    form = "use letters, digits, dashes, dots and underscores, at most 63 of them"
    for key, value in spec.labels.items():
        if not is_qualified_key(key):
            yield malformed("metadata.labels", key, "a key for a label", form)
        if not is_label_value(value):
            yield malformed(f"metadata.labels[{key}]", value, "a value for a label", form)
    for key in spec.annotations:
        if not is_qualified_key(key):
            yield malformed("metadata.annotations", key, "a key for an annotation", form)


def _version(spec: ClusterSpec, context: SiteContext) -> Iterator[Violation]:
    try:
        version = Version.parse(spec.version)
    except ValueError:
        version = None
    if version is None or version.distribution is not spec.distribution:
        yield malformed(
            VERSION_PATH,
            spec.version,
            f"a version of {spec.distribution}",
            f"write it like {EXAMPLES[spec.distribution]}",
        )
        return
    if version.branch < OLDEST:
        yield out_of_range(
            VERSION_PATH, f"{version} is older than what we build", f"use v{OLDEST[0]}.{OLDEST[1]} or newer"
        )
    built = sorted(text for distribution, text in context.templates if distribution is spec.distribution)
    if not built:
        yield Violation(
            path="spec.topology.classRef.name",
            code=ViolationCode.NOT_AVAILABLE,
            message=f"the site has no VM template for {spec.distribution}",
            remedy="ask an administrator to build and register one",
        )
    elif spec.version not in built:
        yield Violation(
            path=VERSION_PATH,
            code=ViolationCode.NOT_AVAILABLE,
            message=f"the site has no VM template for {spec.version}",
            remedy=f"use {' or '.join(built)}, or ask an administrator to register a template",
        )


def _pools(spec: ClusterSpec) -> Iterator[Violation]:
    if len(spec.pools) > MAX_POOLS:
        yield out_of_range(DEPLOYMENTS_PATH, f"{len(spec.pools)} worker pools are too many", f"use at most {MAX_POOLS}")
        return
    seen: set[str] = set()
    for index, pool in enumerate(spec.pools):
        path = f"{DEPLOYMENTS_PATH}[{index}]"
        yield from bounded(f"{path}.replicas", pool.replicas, 0, MAX_WORKERS, "a worker pool's size")
        if not is_label(pool.name):
            yield malformed(
                f"{path}.name",
                pool.name,
                "a name for a worker pool",
                "use lower-case letters, digits and dashes, no dash at the ends",
            )
            continue
        if pool.name in RESERVED_POOLS:
            yield Violation(
                path=f"{path}.name",
                code=ViolationCode.NOT_SUPPORTED,
                message=f"a worker pool cannot be called {pool.name}: its machines would read as control-plane nodes",
                remedy="use another name, for example md-0",
            )
        room = MAX_NAME - len(name_stem(spec.name, "")) - 1 - SUFFIX_LENGTH
        if len(pool.name) > room and len(spec.name) <= MAX_CLUSTER_NAME:
            yield out_of_range(
                f"{path}.name",
                f"machines of pool {shown(pool.name)} would have names longer than {MAX_NAME} characters",
                f"use at most {room} characters: host names hold the cluster's name, the pool's and a suffix",
            )
        if pool.name in seen:
            yield duplicate(f"{path}.name", pool.name)
        seen.add(pool.name)
