"""Which lists of the API are maps or sets, by the name of the field that holds them.

The real server reads this from each type's schema. The few names below are the ones that our objects use; a list that
is not named here is atomic: whoever writes it owns the whole of it.
"""

from typing import Any

from lab.kube.objects import Obj

Path = tuple[str, ...]
"""Field names from the root of the object, list items left out."""

_MAPS: dict[str, tuple[str, ...]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "ephemeralContainers": ("name",),
    "volumes": ("name",),
    "env": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "conditions": ("type",),
    "imagePullSecrets": ("name",),
    "hostAliases": ("ip",),
    "ownerReferences": ("uid",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "webhooks": ("name",),
    "secrets": ("name",),
    "managedFields": (),
}
_SETS = {"finalizers", "podCIDRs"}
_DEFAULTS: dict[str, str] = {"protocol": "TCP"}


def keys_of(path: Path, strategic: bool = False) -> tuple[str, ...]:
    """The fields that tell the items of the list at `path` apart; empty for a list that is no map.

    `strategic` asks for the strategic merge patch's view, which knows a few lists more and one key where server-side
    apply has two.
    """
    name = path[-1] if path else ""
    if path[:1] in (("data",), ("stringData",)) or "annotations" in path or "labels" in path:
        return ()
    if name == "ports":
        inside = "containers" in path or "initContainers" in path
        first = "containerPort" if inside else "port"
        return (first,) if strategic else (first, "protocol")
    if strategic and name == "addresses" and path[:1] == ("status",):
        return ("type",)
    if strategic and name == "taints":
        return ("key",)
    return _MAPS.get(name, ())


def is_set(path: Path) -> bool:
    """True when the list holds plain values, each owned by itself."""
    return bool(path) and path[-1] in _SETS


def item_key(item: Any, keys: tuple[str, ...]) -> Obj:
    """The values of the key fields of a list item, defaults filled in."""
    if not isinstance(item, dict):
        return {}
    return {key: item.get(key, _DEFAULTS.get(key)) for key in keys}


def find_item(items: list[Any], wanted: Obj, keys: tuple[str, ...]) -> int:
    """Position of the item with that key, -1 when there is none."""
    for position, item in enumerate(items):
        if item_key(item, keys) == wanted:
            return position
    return -1
