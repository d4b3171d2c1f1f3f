"""kube-apiserver's own refusals of what it is told, alike in every distribution."""

from typing import Any

import yaml

from lab.kube.objects import dig
from lab.nodes.disk import File
from lab.yaml_reader import read_yaml


def authentication_refusal(file: File | None, path: str, minor: int) -> str:
    """Why an API server ends over its authentication configuration, "" when it does not (facts 2.11).

    Args:
        file: what stands at the path, as the API server sees it.
        path: the path that it was told.
        minor: its minor version.
    """
    if file is None:
        return f"failed to read authentication configuration: open {path}: no such file or directory"
    try:
        content = read_yaml(file.text)
    except yaml.YAMLError as error:
        return f"failed to decode authentication configuration: {error}"
    if not isinstance(content, dict):
        return "couldn't get version/kind"
    versions = ["apiserver.config.k8s.io/v1beta1"] if minor >= 30 else []
    if minor >= 34:
        versions.append("apiserver.config.k8s.io/v1")
    if content.get("kind") != "AuthenticationConfiguration" or content.get("apiVersion") not in versions:
        return (
            "failed to decode authentication configuration: no kind "
            f"{content.get('kind')!r} is registered for version {content.get('apiVersion')!r}"
        )
    if unknown := sorted(set(content) - {"apiVersion", "kind", "jwt", "anonymous"}):
        return f'strict decoding error: unknown field "{unknown[0]}"'
    return _issuers_refusal(content.get("jwt") or [])


def _issuers_refusal(issuers: Any) -> str:
    if not isinstance(issuers, list):
        return "cannot unmarshal into AuthenticationConfiguration.jwt"
    for position, item in enumerate(issuers):
        url = str(dig(item, "issuer", "url", default=""))
        if not url.startswith("https://"):
            return f'jwt[{position}].issuer.url: Invalid value: "{url}": URL scheme must be https'
    return ""
