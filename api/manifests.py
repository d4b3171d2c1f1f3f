"""Reads a `Cluster` manifest out of a request, as JSON or YAML, into plain values that `domain.validation` judges.

A manifest comes from anywhere, so the reader is strict where others are kind: no aliases (a few lines of them unfold
to gigabytes), no key twice (two readers would see two manifests), one document, and a limit on its size.
"""

import json
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import yaml
from fastapi import Request

from api.problems import Malformed
from domain.errors import ErrorCode

LIMIT = 256 * 1024
"""Bytes. A manifest with every field and a hundred labels has some ten thousand."""

MANIFEST_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "A `Cluster` manifest (cluster.x-k8s.io/v1beta2).",
        "content": {
            "application/json": {"schema": {"type": "object", "additionalProperties": True}},
            "application/yaml": {"schema": {"type": "string"}},
        },
    }
}


@dataclass(frozen=True)
class ManifestBody:
    """The manifest as plain values, not judged yet, and its text."""

    document: object
    text: str


async def manifest_body(request: Request) -> ManifestBody:
    """The dependency that reads the body. Raises Malformed for what is no JSON or YAML at all."""
    raw = bytearray()
    async for piece in request.stream():
        raw += piece
        if len(raw) > LIMIT:
            raise Malformed(
                ErrorCode.TOO_LARGE,
                f"The manifest is larger than {LIMIT // 1024} KiB.",
                "Send one `Cluster` manifest and nothing else.",
                status=413,
            )
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _malformed(f"byte {error.start + 1} is not UTF-8") from None
    is_json = "json" in request.headers.get("Content-Type", "")
    return ManifestBody(_json(text) if is_json else _yaml(text), text)


def _json(text: str) -> object:
    try:
        return json.loads(text, object_pairs_hook=_no_doubles)
    except json.JSONDecodeError as error:
        raise _malformed(f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise _malformed(_first_line(error)) from None


def _no_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key[:60]!r} stands twice in one block")
        found[key] = value
    return found


class _Loader(yaml.SafeLoader):
    """YAML without aliases and double keys."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(
                problem="aliases (*name) are not read; write the value out", problem_mark=event.start_mark
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value.__class__ is str and key.value in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"the key {key.value[:60]!r} stands twice in one block", problem_mark=key.start_mark
                )
            if key.value.__class__ is str:
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def _yaml(text: str) -> object:
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise _malformed(f"{where}{error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError, RecursionError, OverflowError) as error:
        raise _malformed(_first_line(error)) from None


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def _malformed(why: str) -> Malformed:
    return Malformed(
        ErrorCode.MALFORMED,
        f"The manifest can be read neither as JSON nor as YAML: {why}.",
        "Correct it there; indentation and quotes are the usual causes.",
    )
