"""Tables: what `kubectl get` prints, made by the server."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from lab.kube.controllers import pod_ready
from lab.kube.objects import Obj, dig, labels_of, meta, parse_time
from lab.kube.resources import Resource

Column = tuple[str, str, int, Callable[[Obj], Any]]
"""Name, type, priority (0 is always shown, 1 with `-o wide`), value."""


def age(text: str | None) -> str:
    """`45s`, `12m`, `3h`, `4d` since a time."""
    moment = parse_time(text)
    if moment is None:
        return "<unknown>"
    seconds = max(0, int((datetime.now(UTC) - moment).total_seconds()))
    if seconds < 120:
        return f"{seconds}s"
    if seconds < 7200:
        return f"{seconds // 60}m"
    return f"{seconds // 3600}h" if seconds < 172800 else f"{seconds // 86400}d"


def _name(obj: Obj) -> str:
    return str(meta(obj).get("name"))


def _age(obj: Obj) -> str:
    return age(meta(obj).get("creationTimestamp"))


def _node_status(node: Obj) -> str:
    ready = next((item for item in dig(node, "status", "conditions", default=[]) if item["type"] == "Ready"), None)
    words = "Ready" if ready and ready["status"] == "True" else "NotReady"
    return words + (",SchedulingDisabled" if dig(node, "spec", "unschedulable") else "")


def _node_roles(node: Obj) -> str:
    prefix = "node-role.kubernetes.io/"
    return ",".join(sorted(key[len(prefix) :] for key in labels_of(node) if key.startswith(prefix))) or "<none>"


def _node_address(kind: str) -> Callable[[Obj], str]:
    def find(node: Obj) -> str:
        rows = dig(node, "status", "addresses", default=[]) or []
        return next((row["address"] for row in rows if row["type"] == kind), "<none>")

    return find


def _pod_ready(pod: Obj) -> str:
    total = len(dig(pod, "spec", "containers", default=[]) or [])
    return f"{total if pod_ready(pod) else 0}/{total}"


def _pod_status(pod: Obj) -> str:
    return "Terminating" if meta(pod).get("deletionTimestamp") else str(dig(pod, "status", "phase", default="Unknown"))


def _at(*path: str, default: Any = "<none>") -> Callable[[Obj], Any]:
    return lambda obj: dig(obj, *path, default=default)


def _workload_ready(obj: Obj) -> str:
    return f"{dig(obj, 'status', 'readyReplicas', default=0)}/{dig(obj, 'spec', 'replicas', default=0)}"


def _ports(service: Obj) -> str:
    rows = dig(service, "spec", "ports", default=[]) or []
    return ",".join(f"{row.get('port')}/{row.get('protocol', 'TCP')}" for row in rows) or "<none>"


_NAME: Column = ("Name", "string", 0, _name)
_AGE: Column = ("Age", "string", 0, _age)
_INFO = ("status", "nodeInfo")

_COLUMNS: dict[str, tuple[Column, ...]] = {
    "nodes": (
        _NAME,
        ("Status", "string", 0, _node_status),
        ("Roles", "string", 0, _node_roles),
        _AGE,
        ("Version", "string", 0, _at(*_INFO, "kubeletVersion")),
        ("Internal-IP", "string", 1, _node_address("InternalIP")),
        ("External-IP", "string", 1, _node_address("ExternalIP")),
        ("OS-Image", "string", 1, _at(*_INFO, "osImage")),
        ("Kernel-Version", "string", 1, _at(*_INFO, "kernelVersion")),
        ("Container-Runtime", "string", 1, _at(*_INFO, "containerRuntimeVersion")),
    ),
    "pods": (
        _NAME,
        ("Ready", "string", 0, _pod_ready),
        ("Status", "string", 0, _pod_status),
        ("Restarts", "integer", 0, lambda _: 0),
        _AGE,
        ("IP", "string", 1, _at("status", "podIP")),
        ("Node", "string", 1, _at("spec", "nodeName")),
    ),
    "namespaces": (_NAME, ("Status", "string", 0, _at("status", "phase")), _AGE),
    "secrets": (
        _NAME,
        ("Type", "string", 0, _at("type")),
        ("Data", "integer", 0, lambda o: len(o.get("data") or {})),
        _AGE,
    ),
    "configmaps": (_NAME, ("Data", "integer", 0, lambda o: len(o.get("data") or {})), _AGE),
    "services": (
        _NAME,
        ("Type", "string", 0, _at("spec", "type")),
        ("Cluster-IP", "string", 0, _at("spec", "clusterIP")),
        ("External-IP", "string", 0, lambda _: "<none>"),
        ("Port(s)", "string", 0, _ports),
        _AGE,
    ),
    "deployments": (
        _NAME,
        ("Ready", "string", 0, _workload_ready),
        ("Up-to-date", "integer", 0, _at("status", "updatedReplicas", default=0)),
        ("Available", "integer", 0, _at("status", "availableReplicas", default=0)),
        _AGE,
    ),
    "daemonsets": (
        _NAME,
        ("Desired", "integer", 0, _at("status", "desiredNumberScheduled", default=0)),
        ("Current", "integer", 0, _at("status", "currentNumberScheduled", default=0)),
        ("Ready", "integer", 0, _at("status", "numberReady", default=0)),
        ("Available", "integer", 0, _at("status", "numberAvailable", default=0)),
        _AGE,
    ),
    "leases": (_NAME, ("Holder", "string", 0, _at("spec", "holderIdentity", default="")), _AGE),
    "events": (
        ("Last Seen", "string", 0, lambda o: age(o.get("lastTimestamp"))),
        ("Type", "string", 0, _at("type")),
        ("Reason", "string", 0, _at("reason")),
        (
            "Object",
            "string",
            0,
            lambda o: (
                f"{dig(o, 'involvedObject', 'kind', default='').lower()}/{dig(o, 'involvedObject', 'name', default='')}"
            ),
        ),
        ("Message", "string", 0, _at("message")),
    ),
}


def table(resource: Resource, objects: list[Obj], list_meta: Obj, include: str = "Metadata") -> Obj:
    """The Table of these objects; `include` says how much of each object goes along (None, Metadata, Object)."""
    columns = _COLUMNS.get(
        resource.plural, (_NAME, ("Created At", "date", 0, lambda o: meta(o).get("creationTimestamp")))
    )
    rows = []
    for obj in objects:
        row: Obj = {"cells": [value(obj) for _, _, _, value in columns]}
        if include == "Object":
            row["object"] = obj
        elif include != "None":
            row["object"] = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": meta(obj)}
        rows.append(row)
    definitions = [
        {
            "name": name,
            "type": kind,
            "format": "name" if name == "Name" else "",
            "priority": priority,
            "description": name,
        }
        for name, kind, priority, _ in columns
    ]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": list_meta,
        "columnDefinitions": definitions,
        "rows": rows,
    }
