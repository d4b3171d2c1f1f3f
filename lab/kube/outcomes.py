"""Small judgements and answers of lab/kube/api.py: what counts as a change, and how an outcome is put in words."""

from typing import Any

from lab.kube.objects import Obj, meta
from lab.kube.ownership import ApplyConflict
from lab.kube.refusals import Refusal
from lab.kube.resources import Resource, Target


def etcd_key(target: Target) -> str:
    return "/".join(part for part in ("/registry", target.resource.plural, target.namespace, target.name) if part)


def group_kind(api_version: str, kind: str) -> str:
    group, _, version = api_version.rpartition("/")
    return f"{group}/{version}, Kind={kind}"


def unchanged(old: Obj, new: Obj) -> bool:
    def bare(obj: Obj) -> Obj:
        data = {name: value for name, value in meta(obj).items() if name not in ("resourceVersion", "managedFields")}
        return {**obj, "metadata": data}

    def owners(obj: Obj) -> list[tuple[str, Any]]:
        return sorted(
            (str(item.get("manager")) + str(item.get("operation")), str(item.get("fieldsV1")))
            for item in meta(obj).get("managedFields") or []
        )

    return bare(old) == bare(new) and owners(old) == owners(new)


def graceful(resource: Resource, obj: Obj) -> bool:
    """True for what is marked for deletion but not ended by losing its finalizers."""
    if resource.plural == "namespaces":
        return True
    return resource.plural == "pods" and bool((obj.get("spec") or {}).get("nodeName"))


def deleted_status(resource: Resource, data: Obj) -> Obj:
    details: Obj = {"name": data.get("name"), "kind": resource.plural, "uid": data.get("uid")}
    if resource.group:
        details["group"] = resource.group
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def apply_refusal(problem: ApplyConflict) -> Refusal:
    managers: dict[str, list[str]] = {}
    for path, manager in problem.fields:
        managers.setdefault(manager, []).append(path)
    count = len(problem.fields)
    parts = []
    for manager, paths in managers.items():
        listed = f": {paths[0]}" if len(paths) == 1 else ":\n- " + "\n- ".join(paths)
        parts.append(f"conflict with {manager}{listed}" if len(paths) == 1 else f"conflicts with {manager}{listed}")
    text = f"Apply failed with {count} conflict{'s' if count > 1 else ''}: " + "\n".join(parts)
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {manager}", "field": path}
        for path, manager in problem.fields
    ]
    return Refusal(409, "Conflict", text, {"causes": causes})
