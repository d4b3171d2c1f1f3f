"""The server's manifests folder: what the deploy controller applies at start."""

from typing import Any

import yaml

from lab.kube.api import Call, KubeApi, Patch
from lab.kube.refusals import Refusal
from lab.kube.resources import Target
from lab.nodes.disk import File
from lab.yaml_reader import read_yamls


def apply_folder(api: KubeApi, files: dict[str, File], skipped: list[str]) -> list[str]:
    """Applies every manifest; returns one line for each that could not be applied."""
    problems: list[str] = []
    for name, file in files.items():
        if not name.endswith((".yaml", ".yml", ".json")) or name.rsplit(".", 1)[0] in skipped:
            continue
        try:
            documents = [item for item in read_yamls(file.text) if item]
        except yaml.YAMLError as error:
            problems.append(f"Failed to process config: failed to process {name}: {str(error).splitlines()[0]}")
            continue
        for document in documents:
            try:
                _apply(api, document)
            except Refusal as refusal:
                problems.append(f"Failed to process config: failed to process {name}: {refusal.message}")
            except (KeyError, TypeError, AttributeError) as error:
                problems.append(f"Failed to process config: failed to process {name}: {error!r}")
    return problems


def _apply(api: KubeApi, document: dict[str, Any]) -> None:
    resource = api.registry.of_kind(document["apiVersion"], document["kind"])
    if resource is None:
        raise KeyError(f"no matches for kind {document['kind']} in version {document['apiVersion']}")
    data = document["metadata"]
    namespace = (data.get("namespace") or "default") if resource.namespaced else ""
    target = Target(resource, namespace, data["name"])
    api.patch(target, Patch("apply", document, force=True), Call(manager="deploy"))
