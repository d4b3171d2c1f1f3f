"""Who owns which field: `managedFields`, updates that move ownership, and server-side apply.

A field is named by a path of text elements: `f:spec` (field), `k:{"name":"web"}` (item of a list that is a map),
`v:"x"` (item of a list that is a set). A set of fields is a frozenset of such paths; `FieldsV1` JSON is their nested
form. Ownership is tracked on leaves (plain values, atomic lists, empty maps) and on list items (`.`).
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from lab.kube import lists
from lab.kube.lists import Path
from lab.kube.objects import Obj, canonical, clone, meta, now_text

FieldPath = tuple[str, ...]
Fields = frozenset[FieldPath]

_IDENTITY = {
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "selfLink",
    "managedFields",
    "deletionGracePeriodSeconds",
    "generateName",
}


class ApplyConflict(Exception):
    """Another manager owns a field that this apply wants to change. `fields` are (path text, manager)."""

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        super().__init__(f"{len(fields)} conflicts")
        self.fields = fields


def leaves(value: Any, at: FieldPath = (), names: Path = ()) -> dict[FieldPath, Any]:
    """The owned fields of a value with their values."""
    found: dict[FieldPath, Any] = {}
    if isinstance(value, dict):
        for name, inner in value.items():
            if not at and name in ("apiVersion", "kind"):
                continue
            if at == ("f:metadata",) and name in _IDENTITY:
                continue
            found.update(leaves(inner, (*at, f"f:{name}"), (*names, name)))
        if not value and at:
            found[at] = {}
        return found
    if isinstance(value, list) and (keys := lists.keys_of(names)):
        for item in value:
            key = (*at, "k:" + canonical(lists.item_key(item, keys)))
            found[(*key, ".")] = None
            found.update(leaves(item, key, names))
        return found
    if isinstance(value, list) and lists.is_set(names):
        return {(*at, "v:" + canonical(item)): item for item in value}
    if at:
        found[at] = value
    return found


def to_fields_v1(fields: Iterable[FieldPath]) -> Obj:
    root: Obj = {}
    for path in sorted(fields):
        node = root
        for part in path:
            node = node.setdefault(part, {})
    return root


def from_fields_v1(tree: Mapping[str, Any], at: FieldPath = ()) -> Fields:
    found: set[FieldPath] = set()
    for part, inner in tree.items():
        if part == "." and not inner and (not at or not at[-1].startswith("k:")):
            continue
        if inner:
            found |= from_fields_v1(inner, (*at, part))
        else:
            found.add((*at, part))
    return frozenset(found)


def path_text(path: FieldPath) -> str:
    """`.spec.containers[name="web"].image`, as the API's messages have it."""
    text = ""
    for part in path:
        if part.startswith("f:"):
            text += f".{part[2:]}"
        elif part.startswith("k:"):
            key = json.loads(part[2:])
            text += "[" + ",".join(f"{name}={json.dumps(value)}" for name, value in key.items()) + "]"
        elif part.startswith("v:"):
            text += f"[={part[2:]}]"
    return text


class Managers:
    """The managedFields of one object, as sets."""

    def __init__(self, obj: Mapping[str, Any] | None) -> None:
        self.entries: dict[tuple[str, str, str], tuple[Fields, str]] = {}
        for entry in meta(obj or {}).get("managedFields") or []:
            who = (entry.get("manager", ""), entry.get("operation", "Update"), entry.get("subresource", ""))
            self.entries[who] = (from_fields_v1(entry.get("fieldsV1") or {}), entry.get("time") or now_text())

    def fields(self, who: tuple[str, str, str]) -> Fields:
        return self.entries.get(who, (frozenset(), ""))[0]

    def set(self, who: tuple[str, str, str], fields: Fields) -> None:
        before = self.entries.get(who)
        if not fields:
            self.entries.pop(who, None)
        elif before is None or before[0] != fields:
            self.entries[who] = (fields, now_text())

    def release(self, fields: Iterable[FieldPath], keep: tuple[str, str, str]) -> None:
        """Takes the fields away from every manager but one."""
        gone = frozenset(fields)
        for who in list(self.entries):
            if who != keep:
                self.set(who, self.fields(who) - gone)

    def others(self, path: FieldPath, me: tuple[str, str, str], api_version: str) -> list[str]:
        """Texts that name the other managers of the field."""
        found = []
        for who, (fields, _) in self.entries.items():
            if who != me and path in fields:
                sub = f' with subresource "{who[2]}"' if who[2] else ""
                using = f" using {api_version}" if who[1] == "Update" else ""
                found.append(f'"{who[0]}"{sub}{using}')
        return found

    def write(self, obj: Obj) -> None:
        """Puts the entries into the object."""
        listed = []
        for (manager, operation, sub), (fields, time) in sorted(self.entries.items(), key=lambda item: item[1][1]):
            entry: Obj = {
                "manager": manager,
                "operation": operation,
                "apiVersion": obj.get("apiVersion"),
                "time": time,
                "fieldsType": "FieldsV1",
                "fieldsV1": to_fields_v1(fields),
            }
            if sub:
                entry["subresource"] = sub
            listed.append(entry)
        if listed:
            obj["metadata"]["managedFields"] = listed
        else:
            obj["metadata"].pop("managedFields", None)


def note_update(old: Mapping[str, Any] | None, new: Obj, manager: str, subresource: str = "") -> None:
    """Writes into `new` who owns what after an update (or create) by `manager`."""
    # An explicit empty list resets ownership.
    reset = old is not None and new["metadata"].get("managedFields") == []
    managers = Managers(None if reset else old)
    before, after = leaves(old or {}), leaves(new)
    who = (manager, "Update", subresource)
    changed = {path for path, value in after.items() if path not in before or before[path] != value}
    gone = before.keys() - after.keys()
    managers.release(changed | gone, who)
    managers.set(who, (managers.fields(who) | changed) - gone)
    managers.write(new)


def apply(live: Obj | None, config: Obj, manager: str, force: bool, subresource: str = "") -> Obj:
    """Server-side apply: the merged object with its managedFields.

    Raises ApplyConflict, naming every field that another manager holds with another value, unless `force` is set.
    """
    managers = Managers(live)
    who = (manager, "Apply", subresource)
    wanted = leaves(config)
    present = leaves(live or {})
    taken: list[tuple[str, str]] = []
    contested: set[FieldPath] = set()
    for path, value in wanted.items():
        if path[-1] == "." or (path in present and present[path] == value):
            continue
        for other in managers.others(path, who, str(config.get("apiVersion"))):
            taken.append((path_text(path), other))
            contested.add(path)
    if taken and not force:
        raise ApplyConflict(taken)
    managers.release(contested, who)
    dropped = managers.fields(who) - wanted.keys()
    held = {path for entry, (fields, _) in managers.entries.items() if entry != who for path in fields}
    merged: Obj = _merge(clone(live) if live else {}, config, ())
    for path in sorted(dropped - held, key=len, reverse=True):
        _drop(merged, path, held)
    managers.set(who, frozenset(wanted))
    managers.write(merged)
    return merged


def _merge(target: Any, config: Any, names: Path) -> Any:
    if isinstance(config, dict):
        result = target if isinstance(target, dict) else {}
        for name, value in config.items():
            if value is None:
                continue
            result[name] = _merge(result.get(name), value, (*names, name))
        return result
    if isinstance(config, list):
        keys = lists.keys_of(names)
        items = target if isinstance(target, list) else []
        if keys:
            for item in config:
                position = lists.find_item(items, lists.item_key(item, keys), keys)
                if position < 0:
                    items.append(clone(item))
                else:
                    items[position] = _merge(items[position], item, names)
            return items
        if lists.is_set(names):
            return items + [item for item in config if item not in items]
    return clone(config)


def _drop(obj: Any, path: FieldPath, held: set[FieldPath]) -> None:
    """Removes one field that nobody owns any more; the item that it was the last field of goes with it."""
    trail: list[tuple[Any, Any]] = []
    for part in path:
        if part.startswith("f:"):
            if not isinstance(obj, dict) or part[2:] not in obj:
                return
            trail.append((obj, part[2:]))
            obj = obj[part[2:]]
        elif part.startswith("k:"):
            key = json.loads(part[2:])
            position = lists.find_item(obj, key, tuple(key)) if isinstance(obj, list) else -1
            if position < 0:
                return
            trail.append((obj, position))
            obj = obj[position]
        elif part.startswith("v:"):
            value = json.loads(part[2:])
            if not isinstance(obj, list) or value not in obj:
                return
            trail.append((obj, obj.index(value)))
    if path[-1] == ".":
        prefix = path[:-1]
        if any(other[: len(prefix)] == prefix for other in held):
            return
    if trail:
        holder, name = trail[-1]
        del holder[name]
        while len(trail) > 1 and not holder and isinstance(holder, dict):
            trail.pop()
            holder, name = trail[-1]
            if isinstance(holder, list):
                break
            del holder[name]
