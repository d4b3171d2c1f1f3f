"""Small functions on API objects, which are plain JSON dictionaries here."""

import copy
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

Obj = dict[str, Any]
"""One API object, or any JSON object inside of one."""

Key = tuple[str, str]
"""Namespace ("" for objects of the whole cluster) and name."""


def meta(obj: Mapping[str, Any]) -> Obj:
    """The object's metadata; an empty dictionary (not attached) when there is none."""
    found = obj.get("metadata")
    return found if isinstance(found, dict) else {}


def key_of(obj: Mapping[str, Any]) -> Key:
    """The key under which the store keeps the object."""
    data = meta(obj)
    return data.get("namespace") or "", data.get("name") or ""


def labels_of(obj: Mapping[str, Any]) -> dict[str, str]:
    return meta(obj).get("labels") or {}


def annotations_of(obj: Mapping[str, Any]) -> dict[str, str]:
    return meta(obj).get("annotations") or {}


def clone(value: Any) -> Any:
    """A deep copy."""
    return copy.deepcopy(value)


def canonical(value: Any) -> str:
    """JSON text that is equal exactly when the values are."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def now_text(moment: datetime | None = None) -> str:
    """A moment (default: now) as the API writes it, in UTC with whole seconds."""
    return (moment or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_text(moment: datetime | None = None) -> str:
    """A moment (default: now) with microseconds, as Leases write it."""
    return (moment or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_time(text: str | None) -> datetime | None:
    """Reads an API time; None when it is missing or not a time."""
    if not text:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def dig(value: Any, *path: str | int, default: Any = None) -> Any:
    """Follows keys and list positions; `default` when the path does not exist."""
    for part in path:
        if isinstance(part, int):
            if not isinstance(value, list) or not -len(value) <= part < len(value):
                return default
            value = value[part]
        elif isinstance(value, dict) and part in value:
            value = value[part]
        else:
            return default
    return value
