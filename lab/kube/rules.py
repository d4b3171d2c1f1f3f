"""What the API fills in and what it refuses in an object's own words, kind by kind.

Only the rules that our objects and our tests meet; the real server's schema knows more, and unknown fields pass here.
"""

import base64
import binascii
import json
import re
from typing import Any

from lab.kube.objects import Obj, annotations_of, dig, labels_of, meta
from lab.kube.refusals import Refusal, bad_request, invalid
from lab.kube.resources import Resource
from lab.kube.selectors import from_object, labels_match

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_DATA_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)")
_FREE_NAMES = {"roles", "rolebindings", "clusterroles", "clusterrolebindings"}
_LABEL_NAMES = {"namespaces", "services"}
GENERATED = {"apps", "batch", "policy", "networking.k8s.io", "apiextensions.k8s.io"}
"""Groups whose kinds count `metadata.generation`."""


def without_nulls(value: Any) -> Any:
    """A copy without null fields, as decoding into a type drops them."""
    if isinstance(value, dict):
        return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def fill(resource: Resource, obj: Obj) -> None:
    """Defaults of a new or changed object, in place."""
    given = obj.get("spec")
    spec: Obj = given if isinstance(given, dict) else {}
    plural = resource.plural
    if plural == "secrets":
        obj.setdefault("type", "Opaque")
        for name, text in (obj.pop("stringData", None) or {}).items():
            obj.setdefault("data", {})[name] = base64.b64encode(str(text).encode()).decode()
    elif plural == "namespaces":
        obj.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
        obj.setdefault("status", {}).setdefault("phase", "Active")
        obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = obj["metadata"]["name"]
    elif plural == "nodes":
        obj.setdefault("spec", {})
        obj.setdefault("status", {})
    elif plural == "pods":
        _fill_pod(obj.setdefault("spec", spec))
        obj.setdefault("status", {}).setdefault("phase", "Pending")
    elif plural in ("deployments", "statefulsets", "replicasets"):
        spec.setdefault("replicas", 1)
        _fill_pod(spec.setdefault("template", {}).setdefault("spec", {}))
        if plural == "deployments":
            spec.setdefault(
                "strategy", {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}
            )
            spec.setdefault("revisionHistoryLimit", 10)
            spec.setdefault("progressDeadlineSeconds", 600)
        obj.setdefault("status", {})
    elif plural == "daemonsets":
        _fill_pod(spec.setdefault("template", {}).setdefault("spec", {}))
        spec.setdefault(
            "updateStrategy", {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
        )
        spec.setdefault("revisionHistoryLimit", 10)
        obj.setdefault(
            "status",
            {"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0},
        )
    elif plural == "services":
        spec.setdefault("type", "ClusterIP")
        spec.setdefault("sessionAffinity", "None")
        for port in spec.get("ports") or []:
            port.setdefault("protocol", "TCP")
            port.setdefault("targetPort", port.get("port"))
        obj.setdefault("status", {"loadBalancer": {}})
    elif plural in ("rolebindings", "clusterrolebindings"):
        for subject in obj.get("subjects") or []:
            if subject.get("kind") in ("User", "Group"):
                subject.setdefault("apiGroup", "rbac.authorization.k8s.io")
        if isinstance(obj.get("roleRef"), dict):
            obj["roleRef"].setdefault("apiGroup", "rbac.authorization.k8s.io")


def _fill_pod(spec: Obj) -> None:
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("securityContext", {})
    for container in (spec.get("containers") or []) + (spec.get("initContainers") or []):
        container.setdefault("resources", {})
        container.setdefault("imagePullPolicy", "IfNotPresent")
        for port in container.get("ports") or []:
            port.setdefault("protocol", "TCP")


def check(resource: Resource, obj: Obj) -> None:
    """Raises Refusal 422 (400 for what cannot be decoded) when the object breaks a rule of its kind."""
    data = meta(obj)
    name = data.get("name") or ""
    causes: list[tuple[str, str, str]] = []
    if resource.plural == "leases":
        _check_times(obj)

    def wrong(field: str, message: str, reason: str = "FieldValueInvalid") -> None:
        causes.append((field, reason, message))

    if not name:
        wrong("metadata.name", "Required value: name or generateName is required", "FieldValueRequired")
    elif resource.plural not in _FREE_NAMES:
        pattern = _LABEL if resource.plural in _LABEL_NAMES else _SUBDOMAIN
        if not pattern.fullmatch(name) or len(name) > (63 if pattern is _LABEL else 253):
            wrong(
                "metadata.name",
                f'Invalid value: "{name}": a lowercase RFC 1123 subdomain must consist of lower case '
                "alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character "
                f"(e.g. 'example.com', regex used for validation is '{_SUBDOMAIN.pattern}')",
            )
    for key, value in labels_of(obj).items():
        if not _LABEL_KEY.fullmatch(key) or not isinstance(value, str) or not _LABEL_VALUE.fullmatch(value):
            wrong(
                "metadata.labels",
                f"Invalid value: {json.dumps(value)}: a valid label must be an empty string or "
                "consist of alphanumeric characters, '-', '_' or '.'",
            )
    if resource.plural in ("secrets", "configmaps"):
        _check_data(resource, obj, wrong)
    if resource.plural == "pods":
        _check_pod(obj.get("spec") or {}, "spec", wrong)
    if resource.group == "apps" and resource.plural in ("deployments", "daemonsets", "statefulsets", "replicasets"):
        _check_workload(obj, wrong)
    if resource.plural == "nodes":
        _check_taints(dig(obj, "spec", "taints", default=[]) or [], wrong)
    if resource.plural == "secrets" and obj.get("type") == "kubernetes.io/service-account-token":
        field = "kubernetes.io/service-account.name"
        if not annotations_of(obj).get(field):
            wrong(f"metadata.annotations[{field}]", "Required value", "FieldValueRequired")
    if (
        resource.plural == "poddisruptionbudgets"
        and {"minAvailable", "maxUnavailable"} <= (obj.get("spec") or {}).keys()
    ):
        given = json.dumps(obj["spec"])
        wrong("spec", f"Invalid value: {given}: minAvailable and maxUnavailable cannot be both set")
    if resource.plural in ("rolebindings", "clusterrolebindings"):
        _check_binding(resource, obj, wrong)
    if resource.plural in ("roles", "clusterroles"):
        _check_role(resource, obj, wrong)
    if resource.plural == "services" and not dig(obj, "spec", "ports") and dig(obj, "spec", "clusterIP") != "None":
        wrong("spec.ports", "Required value", "FieldValueRequired")
    if resource.plural == "leases":
        seconds = dig(obj, "spec", "leaseDurationSeconds")
        if seconds is not None and (not isinstance(seconds, int) or seconds <= 0):
            wrong("spec.leaseDurationSeconds", f"Invalid value: {seconds}: must be greater than 0")
        changes = dig(obj, "spec", "leaseTransitions", default=0)
        if changes < 0:
            wrong("spec.leaseTransitions", f"Invalid value: {changes}: must be greater than or equal to 0")
    if causes:
        raise invalid(resource, name, *causes)


def _check_times(obj: Obj) -> None:
    """A Lease's times have six digits behind the second, no more and no less: others do not decode."""
    for field in ("acquireTime", "renewTime"):
        text = dig(obj, "spec", field)
        if text is not None and not _MICRO_TIME.fullmatch(str(text)):
            raise bad_request(
                f'Lease in version "v1" cannot be handled as a Lease: parsing time "{text}" as '
                '"2006-01-02T15:04:05.000000Z07:00": cannot parse it'
            )


def _check_taints(taints: list[Obj], wrong: Any) -> None:
    effects = ("NoSchedule", "PreferNoSchedule", "NoExecute")
    seen: set[tuple[Any, Any]] = set()
    for position, taint in enumerate(taints):
        # The field's name is the real server's, though the taints stand in spec.
        at, effect = f"metadata.taints[{position}]", taint.get("effect")
        if not taint.get("key"):
            wrong(f"{at}.key", 'Invalid value: "": name part must be non-empty')
        if not effect:
            wrong(f"{at}.effect", "Required value", "FieldValueRequired")
        elif effect not in effects:
            supported = ", ".join(f'"{one}"' for one in effects)
            text = f'Unsupported value: "{effect}": supported values: {supported}'
            wrong(f"{at}.effect", text, "FieldValueNotSupported")
        if (taint.get("key"), effect) in seen:
            text = f"Duplicate value: {json.dumps(taint)}: taints must be unique by key and effect pair"
            wrong(at, text, "FieldValueDuplicate")
        seen.add((taint.get("key"), effect))


def _check_binding(resource: Resource, obj: Obj, wrong: Any) -> None:
    if not dig(obj, "roleRef", "name"):
        wrong("roleRef.name", "Required value", "FieldValueRequired")
    kinds = ("Role", "ClusterRole") if resource.namespaced else ("ClusterRole",)
    if (kind := dig(obj, "roleRef", "kind")) not in kinds:
        supported = ", ".join(f'"{one}"' for one in kinds)
        wrong("roleRef.kind", f'Unsupported value: "{kind}": supported values: {supported}', "FieldValueNotSupported")
    for position, subject in enumerate(obj.get("subjects") or []):
        if not subject.get("name"):
            wrong(f"subjects[{position}].name", "Required value", "FieldValueRequired")
        if subject.get("kind") not in ("User", "Group", "ServiceAccount"):
            text = f'Unsupported value: "{subject.get("kind")}": supported values: "ServiceAccount", "User", "Group"'
            wrong(f"subjects[{position}].kind", text, "FieldValueNotSupported")


def _check_role(resource: Resource, obj: Obj, wrong: Any) -> None:
    for position, rule in enumerate(obj.get("rules") or []):
        if not rule.get("verbs"):
            wrong(
                f"rules[{position}].verbs",
                "Required value: verbs must contain at least one value",
                "FieldValueRequired",
            )
        if urls := rule.get("nonResourceURLs"):
            if resource.namespaced:
                text = f"Invalid value: {json.dumps(urls)}: namespaced rules cannot apply to non-resource URLs"
                wrong(f"rules[{position}].nonResourceURLs", text)
            continue
        if not rule.get("apiGroups"):
            text = "Required value: resource rules must supply at least one api group"
            wrong(f"rules[{position}].apiGroups", text, "FieldValueRequired")
        if not rule.get("resources"):
            text = "Required value: resource rules must supply at least one resource"
            wrong(f"rules[{position}].resources", text, "FieldValueRequired")


def _check_data(resource: Resource, obj: Obj, wrong: Any) -> None:
    for key, value in (obj.get("data") or {}).items():
        if not isinstance(value, str):
            raise bad_request(
                f'{resource.kind} in version "v1" cannot be handled as a {resource.kind}: json: cannot '
                f"unmarshal into Go struct field {resource.kind}.data of type string"
            )
        if not _DATA_KEY.fullmatch(key):
            wrong(
                f"data[{key}]",
                f'Invalid value: "{key}": a valid config key must consist of alphanumeric '
                "characters, '-', '_' or '.'",
            )
        if resource.plural == "secrets":
            try:
                base64.b64decode(value, validate=True)
            except (binascii.Error, ValueError):
                raise bad_request(
                    'Secret in version "v1" cannot be handled as a Secret: illegal base64 data at input '
                    f"byte {len(value)}"
                ) from None


def _check_pod(spec: Obj, at: str, wrong: Any) -> None:
    containers = spec.get("containers") or []
    if not containers:
        wrong(f"{at}.containers", "Required value", "FieldValueRequired")
    for position, container in enumerate(containers):
        if not container.get("name"):
            wrong(f"{at}.containers[{position}].name", "Required value", "FieldValueRequired")
        if not container.get("image"):
            wrong(f"{at}.containers[{position}].image", "Required value", "FieldValueRequired")


def _check_workload(obj: Obj, wrong: Any) -> None:
    selector = dig(obj, "spec", "selector")
    labels = dig(obj, "spec", "template", "metadata", "labels", default={}) or {}
    if not selector:
        wrong("spec.selector", "Required value", "FieldValueRequired")
    elif not labels_match(from_object(selector) or [], labels):
        wrong(
            "spec.template.metadata.labels",
            f"Invalid value: {json.dumps(labels, separators=(',', ':'))}: `selector` does not match template `labels`",
        )
    replicas = dig(obj, "spec", "replicas", default=1)
    if not isinstance(replicas, int) or replicas < 0:
        wrong("spec.replicas", f"Invalid value: {replicas}: must be greater than or equal to 0")
    _check_pod(dig(obj, "spec", "template", "spec", default={}), "spec.template.spec", wrong)


def check_change(resource: Resource, old: Obj, new: Obj) -> None:
    """Raises Refusal 422 when the change touches what may not change any more."""
    name = meta(new).get("name", "")
    plural = resource.plural

    def same(*path: str) -> bool:
        return bool(dig(old, *path) == dig(new, *path))

    if plural in ("secrets", "configmaps"):
        if plural == "secrets" and not same("type"):
            raise _fixed(resource, name, "type", new.get("type"))
        if old.get("immutable") and not (same("data") and same("binaryData") and same("immutable")):
            text = "Forbidden: field is immutable when `immutable` is set"
            raise invalid(resource, name, ("data", "FieldValueForbidden", text))
    elif plural in ("deployments", "daemonsets", "statefulsets", "replicasets") and not same("spec", "selector"):
        raise _fixed(resource, name, "spec.selector", dig(new, "spec", "selector"))
    elif plural in ("rolebindings", "clusterrolebindings") and not same("roleRef"):
        raise invalid(
            resource,
            name,
            ("roleRef", "FieldValueInvalid", f"Invalid value: {json.dumps(new['roleRef'])}: cannot change roleRef"),
        )
    elif plural == "nodes":
        for field in ("providerID", "podCIDR"):
            if dig(old, "spec", field) and not same("spec", field):
                text = f'Forbidden: node updates may not change {field} except from "" to valid'
                raise invalid(resource, name, (f"spec.{field}", "FieldValueForbidden", text))
    elif plural == "pods" and not _pod_change_allowed(old.get("spec") or {}, new.get("spec") or {}):
        text = (
            "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
            "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to "
            "existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
            "previously negative)"
        )
        raise invalid(resource, name, ("spec", "FieldValueForbidden", text))
    elif plural == "services" and dig(old, "spec", "clusterIP") and not same("spec", "clusterIP"):
        raise _fixed(resource, name, "spec.clusterIPs[0]", dig(new, "spec", "clusterIP"))


def _fixed(resource: Resource, name: str, field: str, value: Any) -> Refusal:
    text = f"Invalid value: {json.dumps(value, separators=(',', ':'))}: field is immutable"
    return invalid(resource, name, (field, "FieldValueInvalid", text))


def _pod_change_allowed(old: Obj, new: Obj) -> bool:
    def rest(spec: Obj) -> Obj:
        loose = {
            name: value
            for name, value in spec.items()
            if name not in ("tolerations", "activeDeadlineSeconds", "terminationGracePeriodSeconds")
        }
        for part in ("containers", "initContainers"):
            if part in loose:
                loose[part] = [{**item, "image": ""} for item in loose[part]]
        return loose

    return rest(old) == rest(new)
