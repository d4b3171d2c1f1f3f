"""What changed between two specs, as data that pages, CLI and audit show alike."""

from collections.abc import Mapping, Sequence
from typing import Any

from domain.clusters import ClusterSpec

Change = dict[str, Any]
"""`{"path": "pools[md-0].replicas", "old": 3, "new": 5}`; None where the field is not there on that side."""


def spec_diff(old: ClusterSpec, new: ClusterSpec) -> list[Change]:
    """The differences in effective values, in the order of the spec's fields. Neither holds a secret."""
    return _diff("", old.model_dump(mode="json"), new.model_dump(mode="json"))


def _diff(path: str, old: Any, new: Any) -> list[Change]:
    if old == new:
        return []
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        keys = [*old, *(key for key in new if key not in old)]
        return [
            change
            for key in keys
            for change in _diff(f"{path}.{key}" if path else str(key), old.get(key), new.get(key))
        ]
    old_named, new_named = _by_name(old), _by_name(new)
    if old_named is not None and new_named is not None:
        names = [*old_named, *(name for name in new_named if name not in old_named)]
        changes = [
            change for name in names for change in _diff(f"{path}[{name}]", old_named.get(name), new_named.get(name))
        ]
        if changes:
            return changes
    return [{"path": path, "old": old, "new": new}]


def _by_name(value: Any) -> dict[str, Any] | None:
    """A list of named things (worker pools) as a mapping, so that inserting one does not change all that follow."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        return None
    if not all(isinstance(item, Mapping) and "name" in item for item in value):
        return None
    return {str(item["name"]): item for item in value}
