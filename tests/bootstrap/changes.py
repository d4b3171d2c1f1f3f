"""Changes of boot data, as pure functions `BootData -> BootData`.

A file is named by the end of its path (`config.yaml`, `tls/server-ca.crt`), the three files of the data source by
their own names. A key is named as `keys` lists it: `a.b`, `list[name].b`, `Kind/a.b` where a file holds several
documents, `Section.Directive` in units, `*` where a file has no keys. A file or key that is not there is a KeyError.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import yaml

from bootstrap import BootData

Change = Callable[[BootData], BootData]
WHOLE = "*"
HEADER = "#cloud-config"
DATA_FILES = {"user-data": "user_data", "network-config": "network_config", "meta-data": "meta_data"}
_GONE = object()
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def drop(file: str, key: str) -> Change:
    """Takes a key away (the whole file for `*`)."""
    return edit(file, key, lambda old: _GONE)


def put(file: str, key: str, value: object) -> Change:
    """Gives an existing key another value."""
    return edit(file, key, lambda old: value)


def edit(file: str, key: str, new: Callable[[Any], object]) -> Change:
    """Gives an existing key a value made from the old one."""

    def change(data: BootData) -> BootData:
        if file in DATA_FILES:
            name = DATA_FILES[file]
            return replace(data, **{name: _edited_data_file(file, getattr(data, name), key, new)})
        document = _user_data(data)
        entry = _entry(document, file)
        if key == WHOLE:
            content = new(entry["content"])
            if content is _GONE:
                document["write_files"].remove(entry)
            else:
                entry["content"] = content
        else:
            entry["content"] = _edited(entry["path"], entry["content"], key, new)
        return _with(data, document)

    return change


def add_key(file: str, key: str, value: object) -> Change:
    """Adds a key to the top of a YAML file."""

    def change(data: BootData) -> BootData:
        document = _user_data(data)
        entry = _entry(document, file)
        entry["content"] = _dump({**_load(entry["content"]), key: value})
        return _with(data, document)

    return change


def add_file(path: str, content: str) -> Change:
    """Adds a file to those that cloud-init writes."""

    def change(data: BootData) -> BootData:
        document = _user_data(data)
        entry = {"path": path, "owner": "root:root", "permissions": "0600", "content": content}
        document["write_files"].append(entry)
        return _with(data, document)

    return change


def both(*changes: Change) -> Change:
    """One change after the other."""

    def change(data: BootData) -> BootData:
        for step in changes:
            data = step(data)
        return data

    return change


def value_of(data: BootData, file: str, key: str) -> Any:
    """Reads a key."""
    found: list[object] = []

    def keep(old: object) -> object:
        found.append(old)
        return old

    edit(file, key, keep)(data)
    return found[0]


def paths(data: BootData) -> list[str]:
    """Paths of all files that cloud-init writes."""
    return [entry["path"] for entry in _user_data(data)["write_files"]]


def keys(data: BootData) -> Iterator[tuple[str, str]]:
    """Every key of every rendered file, as (file, key); files that cloud-init writes by their whole path."""
    yield "user-data", HEADER
    for name in _user_data(data):
        yield "user-data", name
    for file in ("network-config", "meta-data"):
        for key, _, _ in _leaves(_load(getattr(data, DATA_FILES[file]))):
            yield file, key
    for entry in _user_data(data)["write_files"]:
        for key in _keys_of(entry["path"], entry["content"]):
            yield entry["path"], key


def _load(text: str) -> Any:
    return yaml.load(text, _LOADER)  # noqa: S506 - the safe loader, or its twin in C


def _dump(document: object) -> str:
    return str(yaml.dump(document, Dumper=_DUMPER, sort_keys=False))


def _load_all(text: str) -> Iterator[Any]:
    yield from yaml.load_all(text, _LOADER)


def _user_data(data: BootData) -> dict[str, Any]:
    document: dict[str, Any] = _load(data.user_data)
    return document


def _with(data: BootData, document: dict[str, Any]) -> BootData:
    return replace(data, user_data=f"{HEADER}\n{_dump(document)}")


def _entry(document: dict[str, Any], file: str) -> dict[str, Any]:
    found = [entry for entry in document["write_files"] if f"/{entry['path']}".endswith(f"/{file}")]
    if len(found) != 1:
        raise KeyError(f"{file}: {len(found)} files of this name")
    entry: dict[str, Any] = found[0]
    return entry


def _edited_data_file(file: str, text: str, key: str, new: Callable[[Any], object]) -> str:
    if key == WHOLE:
        content = new(text)
        return "" if content is _GONE else str(content)
    if key == HEADER:
        first, rest = text.split("\n", 1)
        header = new(first)
        return rest if header is _GONE else f"{header}\n{rest}"
    if file == "user-data":
        document = _load(text)
        _set(document, key, new)
        return f"{HEADER}\n{_dump(document)}"
    return _edited_yaml(text, key, new)


def _is_yaml(path: str) -> bool:
    return path.endswith(".yaml") or path == "/etc/trilithon/kube-vip.conf"


def _has_lines(path: str) -> bool:
    return path.endswith((".service", ".env")) or "NetworkManager" in path or "sysctl.d" in path


def _keys_of(path: str, text: str) -> Iterator[str]:
    if _is_yaml(path):
        documents = list(_load_all(text))
        for document in documents:
            prefix = f"{document['kind']}/" if len(documents) > 1 else ""
            for key, _, _ in _leaves(document):
                yield prefix + key
    elif _has_lines(path):
        yield from dict.fromkeys(key for key, _ in _lines(text) if key)
    else:
        yield WHOLE


def _edited(path: str, text: str, key: str, new: Callable[[Any], object]) -> str:
    if _is_yaml(path):
        return _edited_yaml(text, key, new)
    if _has_lines(path):
        return _edited_lines(text, key, new)
    raise KeyError(f"{path} has no keys")


def _edited_yaml(text: str, key: str, new: Callable[[Any], object]) -> str:
    documents = list(_load_all(text))
    for document in documents:
        prefix = f"{document['kind']}/" if len(documents) > 1 else ""
        for name, parent, place in _leaves(document):
            if prefix + name == key:
                _set(parent, place, new)
                return "---\n".join(_dump(document) for document in documents)
    raise KeyError(key)


def _set(parent: Any, place: Any, new: Callable[[Any], object]) -> None:
    value = new(parent[place])
    if value is _GONE:
        del parent[place]
    elif isinstance(parent, list) and isinstance(parent[place], dict) and "name" in parent[place]:
        parent[place] = {"name": parent[place]["name"], "value": value}
    else:
        parent[place] = value


def _leaves(node: Any, prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Lists (key, parent, place): scalars, lists of scalars, and whole entries of a container's environment."""
    places: list[tuple[str, Any]]
    if isinstance(node, dict):
        places = [(f"{prefix}.{name}" if prefix else str(name), name) for name in node]
    else:
        places = [
            (f"{prefix}[{item.get('name', index)}]" if isinstance(item, dict) else f"{prefix}[{index}]", index)
            for index, item in enumerate(node)
        ]
    for key, place in places:
        child = node[place]
        of_scalars = isinstance(child, list) and not any(isinstance(item, dict) for item in child)
        if prefix.endswith("env") or of_scalars or not isinstance(child, dict | list):
            yield key, node, place
        else:
            yield from _leaves(child, key)


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Lists (key, line); the key is empty for lines that set nothing."""
    section = ""
    for line in text.splitlines():
        if line.startswith("["):
            section = f"{line.strip('[]')}."
        name, equals, _ = line.partition("=")
        yield (section + name.strip() if equals else ""), line


def _edited_lines(text: str, key: str, new: Callable[[Any], object]) -> str:
    if key not in (found for found, _ in _lines(text)):
        raise KeyError(key)
    out: list[str] = []
    for found, line in _lines(text):
        if found != key:
            out.append(line)
            continue
        name, _, old = line.partition("=")
        value = new(old.strip())
        if value is not _GONE:
            out.append(f"{name}={value}")
    return "\n".join(out) + "\n"
