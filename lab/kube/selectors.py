"""Label and field selectors."""

import re
from collections.abc import Mapping
from typing import Any

from lab.kube.objects import Obj, dig, labels_of, meta
from lab.kube.refusals import bad_request

_SET = re.compile(r"^\s*(\S+)\s+(in|notin)\s*\(([^)]*)\)\s*$")
_CLAUSE = re.compile(r",(?![^(]*\))")

Requirement = tuple[str, str, tuple[str, ...]]
"""Key, operator (`in`, `notin`, `exists`, `absent`), values."""


def parse_labels(text: str) -> list[Requirement]:
    """Reads a label selector as the query parameter has it. Refuses (400) what is no selector."""
    found: list[Requirement] = []
    for raw in _CLAUSE.split(text):
        clause = raw.strip()
        if not clause:
            continue
        if match := _SET.match(clause):
            values = tuple(part.strip() for part in match[3].split(","))
            found.append((match[1], match[2], values))
        elif "!=" in clause:
            key, value = clause.split("!=", 1)
            found.append((key.strip(), "notin", (value.strip(),)))
        elif "=" in clause:
            key, value = re.split("==?", clause, maxsplit=1)
            if "=" in value:
                raise bad_request("found '=', expected: ',' or 'end of string'")
            found.append((key.strip(), "in", (value.strip(),)))
        elif clause.startswith("!"):
            found.append((clause[1:].strip(), "absent", ()))
        elif re.fullmatch(r"[A-Za-z0-9._/-]+", clause):
            found.append((clause, "exists", ()))
        else:
            raise bad_request(f"unable to parse requirement: found '{clause}', expected: a selector")
    return found


def labels_match(requirements: list[Requirement], labels: Mapping[str, str]) -> bool:
    for key, operator, values in requirements:
        if operator == "in" and labels.get(key) not in values:
            return False
        if operator == "notin" and labels.get(key) in values:
            return False
        if operator == "exists" and key not in labels:
            return False
        if operator == "absent" and key in labels:
            return False
    return True


def from_object(selector: Obj | None) -> list[Requirement] | None:
    """A LabelSelector object as requirements; None when there is no selector (it then selects nothing)."""
    if selector is None:
        return None
    found: list[Requirement] = [(key, "in", (value,)) for key, value in (selector.get("matchLabels") or {}).items()]
    operators = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "absent"}
    for item in selector.get("matchExpressions") or []:
        found.append((item["key"], operators[item["operator"]], tuple(item.get("values") or ())))
    return found


_FIELDS: dict[str, tuple[str, ...]] = {
    "pods": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.phase",
        "status.podIP",
        "spec.hostNetwork",
    ),
    "nodes": ("spec.unschedulable",),
    "namespaces": ("status.phase",),
    "secrets": ("type",),
    "events": (
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.fieldPath",
        "reason",
        "type",
        "source",
        "reportingComponent",
    ),
    "replicasets": ("status.replicas",),
    "jobs": ("status.successful",),
}


def parse_fields(plural: str, text: str) -> list[tuple[str, bool, str]]:
    """Reads a field selector. Refuses (400) a field that the kind has no selector for, as the API does."""
    found: list[tuple[str, bool, str]] = []
    known = ("metadata.name", "metadata.namespace", *_FIELDS.get(plural, ()))
    for clause in filter(None, (part.strip() for part in text.split(","))):
        if "!=" in clause:
            name, value, equal = *clause.split("!=", 1), False
        elif "=" in clause:
            name, value = re.split("==?", clause, maxsplit=1)
            equal = True
        else:
            raise bad_request(f"invalid field selector: {clause!r}; can't understand it")
        if name not in known:
            raise bad_request(_unknown_field(plural, name))
        found.append((name, equal, value))
    return found


def _unknown_field(plural: str, name: str) -> str:
    if plural in _FIELDS:
        return f"field label not supported: {name}"
    return f'"{name}" is not a known field selector: only "metadata.name", "metadata.namespace"'


def fields_match(requirements: list[tuple[str, bool, str]], obj: Mapping[str, Any]) -> bool:
    for name, equal, value in requirements:
        actual: Any = dig(obj, *name.split("."), default="")
        if isinstance(actual, bool):
            actual = "true" if actual else "false"
        elif name in ("spec.unschedulable", "spec.hostNetwork") and actual == "":
            actual = "false"
        if (str(actual or "") == value) is not equal:
            return False
    return True


class Selector:
    """Both selectors of one request."""

    def __init__(self, plural: str, labels: str = "", fields: str = "") -> None:
        self.labels = parse_labels(labels)
        self.fields = parse_fields(plural, fields)

    def __call__(self, obj: Mapping[str, Any]) -> bool:
        return labels_match(self.labels, labels_of(obj)) and fields_match(self.fields, obj)

    @property
    def node(self) -> str:
        """The one node that pods are asked for, "" when the field selector does not say."""
        return next((value for field, equal, value in self.fields if field == "spec.nodeName" and equal), "")

    @property
    def name(self) -> str:
        """The one name that the field selector asks for, "" when it does not (rules with resourceNames see it)."""
        return next((value for field, equal, value in self.fields if field == "metadata.name" and equal), "")


def owned_by(obj: Mapping[str, Any], uid: str) -> bool:
    """True when one of the object's owner references has this uid."""
    return any(owner.get("uid") == uid for owner in meta(obj).get("ownerReferences") or [])
