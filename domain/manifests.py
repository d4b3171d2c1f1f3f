"""Manifest to `ClusterSpec` and back.

Both directions are one renaming (see `domain.manifest_shape`). What the owner left out stays unset in the spec
(`model_fields_set`) and is left out again when written. Only the class's name is brought to one spelling: manifests of
the reference document name `kubehenge-*` classes, which are read as ours and written as ours.

Reading never raises, whatever the document is: everything wrong with its shape comes back as violations, all at once.
The rules that values obey are in `domain.validation`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from domain import manifest_shape as shape
from domain.clusters import ClusterSpec, Distribution
from domain.errors import Violation, ViolationCode, shown
from domain.frozen import Frozen

SITE_ANNOTATION = "trilithon.dev/site"
"""Names the site of a cluster where there are several."""
VARIABLES_PATH = "spec.topology.variables"
CLASS_PREFIX = "trilithon"
_READ_PREFIXES = (CLASS_PREFIX, "kubehenge")

_DOCUMENT = TypeAdapter(shape.Document)
_VARIABLE = TypeAdapter(shape.VariableShape)
_VALUES = {name: TypeAdapter(of) for name, (_, of) in shape.VARIABLES.items()}


class Reading(Frozen):
    """What a document says, and everything wrong with its shape.

    Where only optional parts are wrong, `spec` is still there, read as if those parts were left out, so that its other
    values can be judged in the same go.
    """

    spec: ClusterSpec | None
    violations: tuple[Violation, ...] = ()


def read_manifest(document: object) -> ClusterSpec | list[Violation]:
    """The cluster that a document describes, or everything that keeps it from being read."""
    reading = read_parts(document)
    if reading.violations or reading.spec is None:
        return list(reading.violations)
    return reading.spec


def read_parts(document: object) -> Reading:
    """As `read_manifest`, and with what can be read despite violations."""
    whole, problems = _validated(_DOCUMENT, document, "")
    if whole is None:
        problems += _variable_problems(document)
        return Reading(spec=None, violations=tuple(problems))
    distribution, found = _distribution(whole.spec.topology.class_ref)
    problems += found
    values, found = _variables(whole.spec.topology.variables or [])
    problems += found
    if distribution is None or any(shape.VARIABLES[name][0] not in values for name in shape.REQUIRED_VARIABLES):
        return Reading(spec=None, violations=tuple(problems))
    fields = _frame(whole) | values | {"distribution": distribution}
    return Reading(spec=ClusterSpec.model_validate(fields), violations=tuple(problems))


def write_manifest(spec: ClusterSpec) -> dict[str, Any]:
    """The manifest of a spec: plain dicts and lists, in the order in which people write them."""
    given = spec.model_fields_set
    metadata: dict[str, Any] = {"name": spec.name}
    if "namespace" in given:
        metadata["namespace"] = spec.namespace
    if "labels" in given:
        metadata["labels"] = dict(spec.labels)
    annotations = dict(spec.annotations)
    if spec.site is not None:
        annotations[SITE_ANNOTATION] = spec.site
    if annotations or "annotations" in given:
        metadata["annotations"] = annotations
    ranges = {
        key: {"cidrBlocks": list(blocks)}
        for key, field, blocks in (
            ("pods", "pod_cidrs", spec.pod_cidrs),
            ("services", "service_cidrs", spec.service_cidrs),
        )
        if field in given
    }
    topology: dict[str, Any] = {
        "classRef": {"name": f"{CLASS_PREFIX}-{spec.distribution}", "namespace": f"{CLASS_PREFIX}-system"},
        "version": spec.version,
    }
    if "control_planes" in given:
        topology["controlPlane"] = {"replicas": spec.control_planes}
    if "pools" in given:
        pools = [pool.model_dump(exclude_unset=True) for pool in spec.pools]
        topology["workers"] = {"machineDeployments": [{"class": shape.WORKER_CLASS, **pool} for pool in pools]}
    topology["variables"] = [
        {"name": name, "value": _wire(getattr(spec, field), name)}
        for name, (field, _) in shape.VARIABLES.items()
        if field in given and getattr(spec, field) is not None
    ]
    return {
        "apiVersion": shape.API_VERSION,
        "kind": shape.KIND,
        "metadata": metadata,
        "spec": ({"clusterNetwork": ranges} if ranges else {}) | {"topology": topology},
    }


def _frame(whole: shape.Document) -> dict[str, Any]:
    """Fields of the spec that stand outside the variables, only those that were given."""
    metadata, topology = whole.metadata, whole.spec.topology
    annotations = None if metadata.annotations is None else dict(metadata.annotations)
    site = annotations.pop(SITE_ANNOTATION, None) if annotations is not None else None
    network = whole.spec.network
    pools = topology.workers.deployments if topology.workers else None
    fields: dict[str, Any] = {
        "name": metadata.name,
        "namespace": metadata.namespace,
        "labels": metadata.labels,
        # An annotations block that held only the site is no block of the owner's own.
        "annotations": annotations if annotations or site is None else None,
        "site": site,
        "version": topology.version,
        "control_planes": topology.control_plane.replicas if topology.control_plane else None,
        "pod_cidrs": tuple(network.pods.blocks) if network and network.pods else None,
        "service_cidrs": tuple(network.services.blocks) if network and network.services else None,
        "pools": None if pools is None else tuple(_given(pool, without=("of_class",)) for pool in pools),
    }
    return {field: value for field, value in fields.items() if value is not None}


def _given(part: shape.Shape, without: Sequence[str] = ()) -> dict[str, Any]:
    return part.model_dump(exclude_none=True, exclude=set(without))


def _distribution(ref: shape.ClassRef) -> tuple[Distribution | None, list[Violation]]:
    prefix, _, name = ref.name.partition("-")
    if prefix not in _READ_PREFIXES or name not in set(Distribution):
        return None, [
            Violation(
                path="spec.topology.classRef.name",
                code=ViolationCode.NOT_SUPPORTED,
                message=f"there is no cluster class {shown(ref.name)}",
                remedy="use one of " + ", ".join(f"{CLASS_PREFIX}-{one}" for one in Distribution),
            )
        ]
    if ref.namespace in (None, f"{prefix}-system"):
        return Distribution(name), []
    return Distribution(name), [
        Violation(
            path="spec.topology.classRef.namespace",
            code=ViolationCode.NOT_SUPPORTED,
            message=f"there is no cluster class {ref.name} in namespace {shown(ref.namespace)}",
            remedy=f"use namespace {prefix}-system",
        )
    ]


def _variables(entries: Iterable[object]) -> tuple[dict[str, Any], list[Violation]]:
    """Spec fields from the variables, as far as they can be read, and what is wrong with them."""
    values: dict[str, Any] = {}
    problems: list[Violation] = []
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        variable, found = _validated(_VARIABLE, entry, f"{VARIABLES_PATH}[{index}]")
        problems += found
        if variable is None:
            continue
        refused = _unexpected(variable.name, seen)
        seen.add(variable.name)
        if refused is not None:
            problems.append(refused)
        elif variable.value is not None:
            value, found = _validated(_VALUES[variable.name], variable.value, f"{VARIABLES_PATH}[{variable.name}]")
            problems += found
            if value is not None:
                values[shape.VARIABLES[variable.name][0]] = _plain(value)
    problems += [
        Violation(
            path=f"{VARIABLES_PATH}[{name}]",
            code=ViolationCode.REQUIRED,
            message=f"variable {name} is missing",
            remedy=f"add it under {VARIABLES_PATH}",
        )
        for name in shape.REQUIRED_VARIABLES
        if shape.VARIABLES[name][0] not in values
        and not any(problem.path.startswith(f"{VARIABLES_PATH}[{name}]") for problem in problems)
    ]
    return values, problems


def _unexpected(name: str, seen: set[str]) -> Violation | None:
    """Why a variable of that name cannot stand here."""
    path = f"{VARIABLES_PATH}[{shown(name)[1:-1]}]"
    if name not in shape.VARIABLES:
        known = ", ".join(shape.VARIABLES)
        return Violation(
            path=path,
            code=ViolationCode.UNKNOWN_VARIABLE,
            message=f"there is no variable {shown(name)}",
            remedy=f"known are {known}",
        )
    if name in seen:
        return Violation(
            path=path,
            code=ViolationCode.DUPLICATE,
            message=f"variable {name} is given twice",
            remedy="keep one of them",
        )
    return None


def _variable_problems(document: object) -> list[Violation]:
    """What is wrong with the variables of a document whose frame is broken elsewhere."""
    for key in ("spec", "topology", "variables"):
        document = document.get(key) if isinstance(document, Mapping) else None
    return _variables(document)[1] if isinstance(document, list) else []


def _plain(value: Any) -> Any:
    """A validated value as `ClusterSpec` takes it: dicts by field name without what was left out, tuples for lists."""
    if isinstance(value, shape.Shape):
        return {field: _plain(part) for field, part in value if part is not None}
    if isinstance(value, list):
        return tuple(_plain(part) for part in value)
    return value


def _wire(value: Any, variable: str) -> Any:
    """A spec's value as the manifest writes it."""
    given = TypeAdapter(Any).dump_python(value, mode="json", exclude_unset=True)
    adapter = _VALUES[variable]
    parsed = adapter.validate_python(given, by_name=True, by_alias=False)
    return adapter.dump_python(parsed, mode="json", by_alias=True, exclude_unset=True)


def _validated(adapter: TypeAdapter[Any], value: object, path: str) -> tuple[Any, list[Violation]]:
    """A value of the adapter's type and what is wrong with it; None when required parts are missing or wrong.

    Wrong parts are cut out and the rest is tried once more, which succeeds where all of them were optional.
    """
    try:
        return adapter.validate_python(value, strict=True), []
    except ValidationError as error:
        details = error.errors(include_url=False)
    problems = [_violation(detail, path) for detail in details]
    try:
        return adapter.validate_python(_without(value, [detail["loc"] for detail in details]), strict=True), problems
    except ValidationError:
        return None, problems


def _without(value: object, places: Iterable[tuple[int | str, ...]]) -> object:
    """A copy of `value` without the given places; a wrong entry takes its whole list along."""
    for place in places:
        keys = list(place)
        while keys and isinstance(keys[-1], int):
            keys.pop()
        value = _cut(value, keys)
    return value


def _cut(value: object, keys: Sequence[int | str]) -> object:
    if not keys:
        return None
    if isinstance(value, Mapping):
        rest = {key: part for key, part in value.items() if key != keys[0]}
        if len(keys) > 1 and keys[0] in value and (part := _cut(value[keys[0]], keys[1:])) is not None:
            rest[keys[0]] = part
        return rest
    if isinstance(value, list) and isinstance(keys[0], int) and keys[0] < len(value):
        copy = list(value)
        copy[keys[0]] = _cut(copy[keys[0]], keys[1:])
        return copy
    return value


_CODES = {
    "missing": ViolationCode.REQUIRED,
    "extra_forbidden": ViolationCode.UNKNOWN_FIELD,
    "invalid_key": ViolationCode.UNKNOWN_FIELD,
    "literal_error": ViolationCode.NOT_SUPPORTED,
}

_WANTED = {
    "string_type": "text",
    "string_unicode": "text without broken characters",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a block of keys with values",
    "model_type": "a block of keys with values",
    "model_attributes_type": "a block of keys with values",
}


def _violation(detail: ErrorDetails, root: str) -> Violation:
    """One of pydantic's errors in our words."""
    path = _path(root, detail["loc"])
    code = _CODES.get(detail["type"], ViolationCode.WRONG_TYPE)
    if detail["input"] is None and code is not ViolationCode.UNKNOWN_FIELD:
        code = ViolationCode.REQUIRED
    name = path or "the document"
    if code is ViolationCode.REQUIRED:
        return Violation(path=path, code=code, message=f"{name} is missing", remedy="add it")
    if code is ViolationCode.UNKNOWN_FIELD:
        return Violation(
            path=path, code=code, message=f"there is no field {name}", remedy="correct its name or take it out"
        )
    if code is ViolationCode.NOT_SUPPORTED:
        offered = detail.get("ctx", {}).get("expected", "")
        return Violation(
            path=path,
            code=code,
            message=f"{name} cannot be {shown(detail['input'])}",
            remedy=f"use {offered}".replace("'", ""),
        )
    wanted = _WANTED.get(detail["type"], "another kind of value")
    quotes = detail["type"] == "string_type" and not isinstance(detail["input"], list | dict)
    return Violation(
        path=path,
        code=code,
        message=f"{name} must be {wanted}, not {shown(detail['input'])} ({type(detail['input']).__name__})",
        remedy=f"give {wanted}" + (", in quotes" if quotes else ""),
    )


def _path(root: str, loc: Iterable[int | str]) -> str:
    path = root
    for key in loc:
        if isinstance(key, int):
            path += f"[{key}]"
        else:
            key = shown(key)[1:-1]
            path += f".{key}" if path else key
    return path
