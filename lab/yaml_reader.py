"""YAML as the simulated programs read and write it: PyYAML's safe kind in C, many times as fast as in Python."""

from collections.abc import Iterator
from typing import Any

import yaml

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def read_yaml(text: str | bytes) -> Any:
    """The one document of a text. Raises yaml.YAMLError."""
    return yaml.load(text, Loader=_LOADER)  # noqa: S506 - safe


def read_yamls(text: str | bytes) -> Iterator[Any]:
    """All documents of a text, in order. Raises yaml.YAMLError where it comes to what it cannot read."""
    return yaml.load_all(text, Loader=_LOADER)


def write_yaml(document: Any) -> str:
    """One document, its keys in their order."""
    return str(yaml.dump(document, Dumper=_DUMPER))
