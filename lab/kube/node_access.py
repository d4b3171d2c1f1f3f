"""What a kubelet may do: the node authoriser, and the admission that holds a kubelet to its own node (NodeRestriction).

Rules and words as a real kube-apiserver v1.36.3 gave them; `tests/contract/test_nodes.py` holds both against it.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from lab.kube.identity import Identity
from lab.kube.objects import Obj, annotations_of, dig, labels_of, meta
from lab.kube.refusals import Refusal
from lab.kube.resources import Resource

if TYPE_CHECKING:
    from lab.kube.access import Attempt

_PREFIX = "system:node:"
_LEASES = "kube-node-lease"
_MIRROR = "kubernetes.io/config.mirror"
_READ = ("get", "list", "watch")
NO_RULE = "no rule"
"""Nothing of a kubelet's; roles that are bound to it may still allow it."""

_RULES: dict[tuple[str, str], tuple[str, ...]] = {
    ("nodes", ""): ("create", "get", "list", "watch", "update", "patch"),
    ("nodes", "status"): ("update", "patch"),
    ("pods", ""): ("create", "delete", "get", "list", "watch"),
    ("pods", "status"): ("update", "patch"),
    ("pods", "eviction"): ("create",),
    ("services", ""): _READ,
    ("secrets", ""): _READ,
    ("configmaps", ""): _READ,
    ("events", ""): ("create", "update", "patch"),
    ("leases", ""): ("create", "get", "update", "patch", "delete"),
    ("csinodes", ""): ("create", "get", "update", "patch", "delete"),
    ("csidrivers", ""): _READ,
    ("serviceaccounts", "token"): ("create",),
    ("tokenreviews", ""): ("create",),
    ("subjectaccessreviews", ""): ("create",),
    ("localsubjectaccessreviews", ""): ("create",),
}
_OWN_LABELS = {
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
}
_OWN_PREFIXES = ("kubelet.kubernetes.io", "node.kubernetes.io")


class Lookup(Protocol):
    """Reads stored objects."""

    def find(self, plural: str, namespace: str, name: str) -> Obj | None: ...

    def rows(self, plural: str, namespace: str = "") -> list[Obj]: ...


def node_of(identity: Identity) -> str:
    """The node whose kubelet this is, "" for anybody else."""
    if "system:nodes" not in identity.groups or not identity.user.startswith(_PREFIX):
        return ""
    return identity.user.removeprefix(_PREFIX)


def why_not(objects: Lookup, identity: Identity, attempt: "Attempt") -> str:
    """Why the node authoriser has no opinion on a kubelet's attempt; "" when it allows it."""
    node = node_of(identity)
    if attempt.verb not in _RULES.get((attempt.resource, attempt.subresource), ()):
        return NO_RULE
    if attempt.resource == "nodes" and attempt.verb in _READ and attempt.name != node:
        what = f"'{attempt.name}'" if attempt.name else "all nodes"
        return f"node '{node}' cannot read {what}, only its own Node object"
    if attempt.resource == "leases":
        if attempt.namespace != _LEASES:
            return f'can only access leases in the "{_LEASES}" system namespace'
        if attempt.verb != "create" and attempt.name != node:
            return "can only access node lease with the same name as the requesting node"
    if attempt.resource == "csinodes" and attempt.verb != "create" and attempt.name != node:
        return "can only access CSINode with the same name as the requesting node"
    if attempt.resource in ("secrets", "configmaps"):
        return _unrelated(objects, node, attempt)
    if attempt.resource == "pods" and attempt.verb in ("list", "watch") and attempt.on_node != node:
        return "can only list/watch pods with spec.nodeName field selector"
    if attempt.resource == "pods" and attempt.verb == "get":
        pod = objects.find("pods", attempt.namespace, attempt.name)
        if pod is None or dig(pod, "spec", "nodeName") != node:
            return f"no relationship found between node '{node}' and this object"
    return ""


def _unrelated(objects: Lookup, node: str, attempt: "Attempt") -> str:
    if not attempt.namespace:
        return "can only read namespaced object of this type"
    if not attempt.name:
        return "No Object name found"
    kind = attempt.resource.removesuffix("s")
    for pod in objects.rows("pods", attempt.namespace):
        if dig(pod, "spec", "nodeName") == node and attempt.name in _mentioned(pod.get("spec"), kind):
            return ""
    return f"no relationship found between node '{node}' and this object"


def _mentioned(value: Any, kind: str) -> Iterator[str]:
    """Names of the Secrets (`secret`) or ConfigMaps (`configmap`) that a part of a pod refers to."""
    if isinstance(value, list):
        for item in value:
            yield from _mentioned(item, kind)
    elif isinstance(value, dict):
        for field, inner in value.items():
            low = field.lower()
            if low == "imagepullsecrets" and kind == "secret":
                yield from (str(item.get("name")) for item in inner)
            elif low in (kind, f"{kind}ref", f"{kind}keyref") and isinstance(inner, dict):
                yield str(inner.get("secretName") or inner.get("name"))
            else:
                yield from _mentioned(inner, kind)


def admit(identity: Identity, what: tuple[Resource, str], old: Obj | None, new: Obj | None) -> None:
    """Holds a kubelet to its own node. `what` are resource and subresource; `old` is None for a creation, `new` for a
    deletion. Raises Refusal 403.
    """
    node = node_of(identity)
    if not node:
        return
    resource, subresource = what
    name = str(meta(new or old or {}).get("name", ""))

    def refuse(why: str) -> Refusal:
        details = {"name": name, "kind": resource.plural}
        if resource.group:
            details["group"] = resource.group
        return Refusal(403, "Forbidden", f'{resource.qualified} "{name}" is forbidden: {why}', details)

    if resource.plural == "nodes" and new is not None:
        if name != node:
            raise refuse(f'node "{node}" is not allowed to modify node "{name}"')
        wrong = _foreign_labels(labels_of(old or {}), labels_of(new))
        if wrong and old is None:
            raise refuse(f"is not allowed to set the following labels: {', '.join(wrong)}")
        if wrong:
            raise refuse(f"is not allowed to modify labels: {', '.join(wrong)}")
        if (
            old is not None
            and not subresource
            and (dig(old, "spec", "taints") or []) != (dig(new, "spec", "taints") or [])
        ):
            raise refuse(f'node "{node}" is not allowed to modify taints')
    elif resource.plural == "leases" and name != node:
        raise refuse("can only access node lease with the same name as the requesting node")
    elif resource.plural == "pods":
        why = _pod_trouble(node, subresource, old, new)
        if why:
            raise refuse(why)


def _foreign_labels(old: dict[str, str], new: dict[str, str]) -> list[str]:
    changed = {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
    found = []
    for key in sorted(changed):
        prefix, slash, _ = key.partition("/")
        kubernetes = any(prefix == end or prefix.endswith(f".{end}") for end in ("kubernetes.io", "k8s.io"))
        own = key in _OWN_LABELS or any(prefix == end or prefix.endswith(f".{end}") for end in _OWN_PREFIXES)
        if slash and kubernetes and not own:
            found.append(key)
    return found


def _pod_trouble(node: str, subresource: str, old: Obj | None, new: Obj | None) -> str:
    if old is not None:
        if dig(old, "spec", "nodeName") == node:
            return ""
        if new is None or subresource == "eviction":
            return f'node "{node}" can only delete pods with spec.nodeName set to itself'
        return f'node "{node}" can only update pod status for pods with spec.nodeName set to itself'  # noqa: S608
    pod = new or {}
    if _MIRROR not in annotations_of(pod):
        return f'pod does not have "{_MIRROR}" annotation, node "{node}" can only create mirror pods'
    if dig(pod, "spec", "nodeName") != node:
        return f'node "{node}" can only create pods with spec.nodeName set to itself'
    owners = meta(pod).get("ownerReferences") or []
    if len(owners) != 1 or (owners[0].get("kind"), owners[0].get("name")) != ("Node", node):
        return f'node "{node}" can only create pods with an owner reference set to itself'
    return ""
