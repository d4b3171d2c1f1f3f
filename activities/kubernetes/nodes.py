"""What a Node object says, read in one place."""

from typing import Any

NODES = "/api/v1/nodes"
UNINITIALISED = "node.cloudprovider.kubernetes.io/uninitialized"
CONTROL_PLANE_TAINT = "node-role.kubernetes.io/control-plane"

Node = dict[str, Any]


def name(node: Node) -> str:
    return str(node["metadata"]["name"])


def ready(node: Node) -> bool:
    """True when its kubelet reports Ready."""
    conditions = (node.get("status") or {}).get("conditions") or []
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def not_ready_because(node: Node) -> str:
    """The kubelet's own words on why it is not Ready."""
    for condition in (node.get("status") or {}).get("conditions") or []:
        if condition.get("type") == "Ready":
            return str(condition.get("message") or condition.get("reason") or "the kubelet gives no reason")
    return "the kubelet has not reported yet"


def taints(node: Node) -> list[dict[str, Any]]:
    return list((node.get("spec") or {}).get("taints") or [])


def initialised(node: Node) -> bool:
    """True when the cloud controller has given it a provider id and taken its taint off."""
    has_id = bool((node.get("spec") or {}).get("providerID"))
    return has_id and all(taint.get("key") != UNINITIALISED for taint in taints(node))


def kubelet_version(node: Node) -> str:
    return str(((node.get("status") or {}).get("nodeInfo") or {}).get("kubeletVersion", ""))


def with_control_plane_taint(node: Node, wanted: bool) -> list[dict[str, Any]] | None:
    """The node's taints with or without the control-plane taint, or None when nothing differs."""
    now = taints(node)
    has = any(t.get("key") == CONTROL_PLANE_TAINT and t.get("effect") == "NoSchedule" for t in now)
    if has == wanted:
        return None
    rest = [t for t in now if t.get("key") != CONTROL_PLANE_TAINT]
    return [*rest, {"key": CONTROL_PLANE_TAINT, "effect": "NoSchedule"}] if wanted else rest
