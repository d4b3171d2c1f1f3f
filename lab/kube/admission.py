"""What the API server's admission plugins change and refuse, beyond each kind's own rules (lab/kube/rules.py)."""

from lab.kube import node_access
from lab.kube.identity import Identity
from lab.kube.objects import Obj, meta
from lab.kube.refusals import Refusal
from lab.kube.resources import Resource

_LASTING_NAMESPACES = ("default", "kube-system", "kube-public")
_NOT_READY = "node.kubernetes.io/not-ready"


def of_creation(identity: Identity, resource: Resource, obj: Obj) -> None:
    """Changes a new object in place; raises Refusal 403."""
    node_access.admit(identity, (resource, ""), None, obj)
    if resource.plural == "nodes":
        taints = obj.setdefault("spec", {}).setdefault("taints", [])
        if not any(taint.get("key") == _NOT_READY for taint in taints):
            taints.append({"key": _NOT_READY, "effect": "NoSchedule"})


def of_change(identity: Identity, resource: Resource, subresource: str, old: Obj, new: Obj) -> None:
    """Raises Refusal 403."""
    node_access.admit(identity, (resource, subresource), old, new)


def of_deletion(identity: Identity, resource: Resource, old: Obj) -> None:
    """Raises Refusal 403."""
    node_access.admit(identity, (resource, ""), old, None)
    name = meta(old)["name"]
    if resource.plural == "namespaces" and name in _LASTING_NAMESPACES:
        text = f'namespaces "{name}" is forbidden: this namespace may not be deleted'
        raise Refusal(403, "Forbidden", text, {"name": name, "kind": "namespaces"})
