"""Discovery documents: /version, /api, /apis and what lies below them, and a small OpenAPI."""

from typing import Any

from lab.kube.objects import Obj
from lab.kube.resources import Registry, Resource

_SUB_KINDS = {
    "eviction": ("policy", "v1", "Eviction"),
    "scale": ("autoscaling", "v1", "Scale"),
    "token": ("authentication.k8s.io", "v1", "TokenRequest"),
    "binding": ("", "v1", "Binding"),
}
_SUB_VERBS = {
    "eviction": ["create"],
    "token": ["create"],
    "binding": ["create"],
    "log": ["get"],
    "finalize": ["update"],
}


def version(git_version: str) -> Obj:
    """`/version` for a version like `v1.36.5+k3s1`."""
    major, minor = git_version.removeprefix("v").split(".")[:2]
    return {
        "major": major,
        "minor": minor,
        "gitVersion": git_version,
        "gitCommit": "0" * 40,
        "gitTreeState": "clean",
        "buildDate": "2026-08-01T00:00:00Z",
        "goVersion": "go1.26.2",
        "compiler": "gc",
        "platform": "linux/amd64",
    }


def core_versions(address: str) -> Obj:
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def group_list(registry: Registry) -> Obj:
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [_group(name, versions) for name, versions in sorted(registry.groups().items())],
    }


def _group(name: str, versions: list[str]) -> Obj:
    listed = [{"groupVersion": f"{name}/{item}", "version": item} for item in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def group(registry: Registry, name: str) -> Obj | None:
    versions = registry.groups().get(name)
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)} if versions else None


def _members(registry: Registry, name: str, wanted: str) -> list[Resource]:
    return sorted(
        (item for item in registry.all() if item.group == name and item.version == wanted), key=lambda item: item.plural
    )


def resource_list(registry: Registry, name: str, wanted: str) -> Obj | None:
    """`APIResourceList` of one group and version; None when it is not served."""
    members = _members(registry, name, wanted)
    if not members:
        return None
    rows: list[Obj] = []
    for item in members:
        row: Obj = {
            "name": item.plural,
            "singularName": item.kind.lower(),
            "namespaced": item.namespaced,
            "kind": item.kind,
            "verbs": list(item.verbs),
        }
        if item.short:
            row["shortNames"] = list(item.short)
        if item.categories:
            row["categories"] = list(item.categories)
        rows.append(row)
        for sub in item.subresources:
            row = {
                "name": f"{item.plural}/{sub}",
                "singularName": "",
                "namespaced": item.namespaced,
                "kind": item.kind,
                "verbs": _SUB_VERBS.get(sub, ["get", "patch", "update"]),
            }
            if sub in _SUB_KINDS:
                row["group"], row["version"], row["kind"] = _SUB_KINDS[sub]
            rows.append(row)
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{name}/{wanted}" if name else wanted,
        "resources": rows,
    }


def aggregated(registry: Registry, core: bool) -> Obj:
    """`APIGroupDiscoveryList` v2, which newer clients ask for instead of many small documents."""
    groups = {"": ["v1"]} if core else registry.groups()
    items = []
    for name, versions in sorted(groups.items()):
        listed = []
        for wanted in versions:
            rows = [_aggregated_row(item) for item in _members(registry, name, wanted)]
            listed.append({"version": wanted, "resources": rows, "freshness": "Current"})
        items.append(
            {
                "metadata": {"name": name, "creationTimestamp": None} if name else {"creationTimestamp": None},
                "versions": listed,
            }
        )
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _aggregated_row(item: Resource) -> Obj:
    row: Obj = {
        "resource": item.plural,
        "responseKind": {"group": item.group, "version": item.version, "kind": item.kind},
        "scope": "Namespaced" if item.namespaced else "Cluster",
        "singularResource": item.kind.lower(),
        "verbs": list(item.verbs),
    }
    if item.short:
        row["shortNames"] = list(item.short)
    if item.categories:
        row["categories"] = list(item.categories)
    if item.subresources:
        row["subresources"] = [
            {
                "subresource": sub,
                "responseKind": dict(
                    zip(
                        ("group", "version", "kind"),
                        _SUB_KINDS.get(sub, (item.group, item.version, item.kind)),
                        strict=True,
                    )
                ),
                "verbs": _SUB_VERBS.get(sub, ["get", "patch", "update"]),
            }
            for sub in item.subresources
        ]
    return row


def openapi_v2(registry: Registry, git_version: str) -> Obj:
    """A Swagger document with every kind as an object of any fields."""
    definitions: dict[str, Any] = {}
    for item in registry.all():
        name = f"io.k8s.api.{(item.group or 'core').split('.')[0]}.{item.version}.{item.kind}"
        definitions[name] = {
            "type": "object",
            "x-kubernetes-group-version-kind": [{"group": item.group, "version": item.version, "kind": item.kind}],
        }
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": git_version},
        "paths": {},
        "definitions": definitions,
    }


def openapi_v3_index(registry: Registry) -> Obj:
    paths = ["api/v1"] + [f"apis/{name}/{item}" for name, versions in registry.groups().items() for item in versions]
    return {"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}"} for path in paths}}


def openapi_v3(registry: Registry, path: str) -> Obj | None:
    """The OpenAPI document of `api/v1` or `apis/<group>/<version>`."""
    parts = path.split("/")
    name, wanted = ("", parts[1]) if parts[0] == "api" and len(parts) == 2 else ("", "")
    if parts[0] == "apis" and len(parts) == 3:
        name, wanted = parts[1], parts[2]
    members = _members(registry, name, wanted)
    if not members:
        return None
    schemas: Obj = {}
    paths: Obj = {}
    for item in members:
        kind = [{"group": item.group, "version": item.version, "kind": item.kind}]
        schemas[f"io.k8s.api.{(item.group or 'core').split('.')[0]}.{item.version}.{item.kind}"] = {
            "type": "object",
            "x-kubernetes-group-version-kind": kind,
            "x-kubernetes-preserve-unknown-fields": True,
        }
        space = "/namespaces/{namespace}" if item.namespaced else ""
        parameters = [{"name": name, "in": "query"} for name in ("dryRun", "fieldManager", "fieldValidation", "force")]
        paths[f"{item.root}{space}/{item.plural}/{{name}}"] = {
            "patch": {"parameters": parameters, "x-kubernetes-group-version-kind": kind[0]}
        }
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1"},
        "paths": paths,
        "components": {"schemas": schemas},
    }
