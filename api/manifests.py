"""Reads a `Cluster` manifest out of a request, as JSON or YAML."""

from dataclasses import dataclass
from typing import Any

from fastapi import Request

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
    """The manifest as it was sent, not judged yet."""

    text: str


async def manifest_body(request: Request) -> ManifestBody:
    return ManifestBody((await request.body()).decode())
