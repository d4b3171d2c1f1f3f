"""JSON patch (RFC 6902), merge patch (RFC 7386) and Kubernetes' strategic merge patch."""

from typing import Any

from lab.kube import lists
from lab.kube.lists import Path
from lab.kube.objects import Obj, clone


class PatchError(ValueError):
    """The patch cannot be applied to this object. `understood` is False when it is no patch at all."""

    def __init__(self, text: str, understood: bool = True) -> None:
        super().__init__(text)
        self.understood = understood


class PatchTestFailed(PatchError):
    """A `test` operation of a JSON patch did not hold."""


def apply_to(target: Obj, kind: str, body: Any) -> Obj:
    """The object after a patch of kind `json`, `merge` or `strategic`; raises PatchError."""
    if kind == "json":
        found: Obj = json_patch(target, body)
    elif not isinstance(body, dict):
        what = "array" if isinstance(body, list) else "value"
        text = f"error decoding patch: json: cannot unmarshal {what} into Go value of type map[string]interface {{}}"
        raise PatchError(text, understood=False)
    else:
        found = strategic(clone(target), body) if kind == "strategic" else merge(clone(target), body)
    return found


def merge(target: Any, patch: Any) -> Any:
    """A merge patch: maps are merged, null deletes, everything else replaces."""
    if not isinstance(patch, dict):
        return clone(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge(result.get(name), value)
    return result


# JSON patch


def _pointer(text: str) -> list[str]:
    if text == "":
        return []
    if not text.startswith("/"):
        raise PatchError(f"json pointer {text!r} does not start with /")
    return [part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/")]


def _position(items: list[Any], part: str, adding: bool) -> int:
    if part == "-" and adding:
        return len(items)
    if not part.isdigit() or int(part) > len(items) - (0 if adding else 1):
        raise PatchError(f"unable to access invalid index: {part}")
    return int(part)


def _walk(document: Any, parts: list[str]) -> Any:
    for part in parts:
        if isinstance(document, list):
            document = document[_position(document, part, False)]
        elif isinstance(document, dict) and part in document:
            document = document[part]
        else:
            raise PatchError(f"doc is missing path: /{'/'.join(parts)}: missing value")
    return document


def _add(document: Any, parts: list[str], value: Any) -> Any:
    if not parts:
        return value
    parent = _walk(document, parts[:-1])
    if isinstance(parent, list):
        parent.insert(_position(parent, parts[-1], True), value)
    elif isinstance(parent, dict):
        parent[parts[-1]] = value
    else:
        raise PatchError(f"cannot add below /{'/'.join(parts[:-1])}")
    return document


def _remove(document: Any, parts: list[str]) -> Any:
    if not parts:
        raise PatchError("cannot remove the whole document")
    parent = _walk(document, parts[:-1])
    if isinstance(parent, list):
        return parent.pop(_position(parent, parts[-1], False))
    if not isinstance(parent, dict) or parts[-1] not in parent:
        raise PatchError(f"remove operation does not apply: Unable to remove nonexistent key: {parts[-1]}")
    return parent.pop(parts[-1])


def json_patch(target: Obj, operations: Any) -> Any:
    """Applies the operations in order; raises PatchError (PatchTestFailed for a `test`) and then changes nothing."""
    if not isinstance(operations, list):
        text = "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"
        raise PatchError(text, understood=False)
    document: Any = clone(target)
    for item in operations:
        if not isinstance(item, dict) or "op" not in item or "path" not in item:
            raise PatchError("an operation needs op and path")
        op, parts = item["op"], _pointer(item["path"])
        if op == "add":
            document = _add(document, parts, clone(item.get("value")))
        elif op == "remove":
            _remove(document, parts)
        elif op == "replace":
            # A key that is missing is set, as the real server does; its parent must be there.
            if parts:
                parent = _walk(document, parts[:-1])
                if isinstance(parent, list):
                    parent[_position(parent, parts[-1], False)] = clone(item.get("value"))
                else:
                    parent[parts[-1]] = clone(item.get("value"))
            else:
                document = clone(item.get("value"))
        elif op in ("move", "copy"):
            origin = _pointer(item["from"])
            value = clone(_walk(document, origin))
            if op == "move":
                _remove(document, origin)
            document = _add(document, parts, value)
        elif op == "test":
            try:
                holds = _walk(document, parts) == item.get("value")
            except PatchError:
                holds = item.get("value") is None
            if not holds:
                raise PatchTestFailed(f"testing value {item['path']} failed")
        else:
            raise PatchError(f"Unexpected kind: {op}")
    return document


# strategic merge patch


def strategic(target: Any, patch: Any, path: Path = ()) -> Any:
    """A strategic merge patch: like a merge patch, but known lists are merged by their items' keys.

    Understands `$patch` (replace, delete, merge), `$deleteFromPrimitiveList/…`, `$setElementOrder/…` and
    `$retainKeys`.
    """
    if not isinstance(patch, dict):
        return clone(patch)
    mode = patch.get("$patch")
    if mode == "replace":
        return {name: clone(value) for name, value in patch.items() if name != "$patch"}
    if mode == "delete":
        return {}
    result = dict(target) if isinstance(target, dict) else {}
    if isinstance(keep := patch.get("$retainKeys"), list):
        result = {name: value for name, value in result.items() if name in keep}
    for name, value in patch.items():
        if name.startswith("$deleteFromPrimitiveList/"):
            field = name.split("/", 1)[1]
            result[field] = [item for item in result.get(field) or [] if item not in value]
        elif name.startswith("$"):
            continue
        elif value is None:
            result.pop(name, None)
        elif isinstance(value, list):
            result[name] = _strategic_list(result.get(name), value, (*path, name))
        else:
            result[name] = strategic(result.get(name), value, (*path, name))
    for name, value in patch.items():
        if name.startswith("$setElementOrder/"):
            field = name.split("/", 1)[1]
            if isinstance(result.get(field), list):
                result[field] = _ordered(result[field], value, (*path, field))
    return result


def _strategic_list(current: Any, patch: list[Any], path: Path) -> list[Any]:
    items: list[Any] = list(current) if isinstance(current, list) else []
    keys = lists.keys_of(path, strategic=True)
    if any(isinstance(item, dict) and item.get("$patch") == "replace" and len(item) == 1 for item in patch):
        return [clone(item) for item in patch if item != {"$patch": "replace"}]
    if lists.is_set(path):
        return items + [item for item in patch if item not in items]
    if not keys:
        return list(clone(patch))
    for item in patch:
        wanted = lists.item_key(item, keys)
        if not isinstance(item, dict) or None in wanted.values():
            raise PatchError(f"map: {item} does not contain declared merge key: {keys[0]}")
        position = lists.find_item(items, wanted, keys)
        if item.get("$patch") == "delete":
            if position >= 0:
                del items[position]
        elif position >= 0:
            items[position] = strategic(items[position], item, path)
        else:
            items.append(strategic({}, item, path))
    return items


def _ordered(items: list[Any], order: list[Any], path: Path) -> list[Any]:
    keys = lists.keys_of(path, strategic=True)
    wanted = [lists.item_key(item, keys) if keys else item for item in order]

    def rank(item: Any) -> int:
        key = lists.item_key(item, keys) if keys else item
        return wanted.index(key) if key in wanted else len(wanted)

    return sorted(items, key=rank)
