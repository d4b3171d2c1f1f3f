"""The Secret that makes a bootstrap token valid in a kubeadm cluster.

The token's value is drawn with the cluster and rendered into boot data ahead. It opens nothing until this Secret stands
in the cluster: it is made just before the first power-on that needs it and taken away after the last machine joined.
"""

import re
from datetime import UTC, datetime

NAMESPACE = "kube-system"
_TOKEN = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
_GROUP = "system:bootstrappers:kubeadm:default-node-token"
"""The group to which `kubeadm init` gives the rights to join (facts 1.3)."""


def secret_path(token: str) -> str:
    """Path of the token's Secret in the Kubernetes API.

    Raises:
        ValueError: the text is not a bootstrap token.
    """
    identity, _ = _parts(token)
    return f"/api/v1/namespaces/{NAMESPACE}/secrets/bootstrap-token-{identity}"


def secret_manifest(token: str, expires: datetime) -> dict[str, object]:
    """The Secret itself, for a server-side apply at `secret_path`.

    Args:
        token: `Tokens.bootstrap`.
        expires: timezone-aware; from then on the cluster refuses the token and deletes the Secret. Apply it again with
            a later moment while machines still join: the same token goes on.

    Raises:
        ValueError: the text is not a bootstrap token, or the moment has no zone.
    """
    identity, secret = _parts(token)
    if expires.tzinfo is None:
        raise ValueError("the moment has no time zone")
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"bootstrap-token-{identity}", "namespace": NAMESPACE},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": {
            "token-id": identity,
            "token-secret": secret,
            "description": "Trilithon: machines that are joining now.",
            "expiration": expires.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "usage-bootstrap-authentication": "true",
            "usage-bootstrap-signing": "true",
            "auth-extra-groups": _GROUP,
        },
    }


def _parts(token: str) -> tuple[str, str]:
    match = _TOKEN.fullmatch(token)
    if match is None:
        # The text itself is a secret and stays out of the message.
        raise ValueError("not a bootstrap token: six and sixteen small letters or digits with a dot between are wanted")
    return match[1], match[2]
