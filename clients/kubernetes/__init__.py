"""How we speak to the API server of a cluster: JSON over TLS with a client certificate that we signed.

Raw JSON by path keeps objects exactly as the server sent them. The official Python client was looked at and left: it
needs key files on disk, blocks, and validates answers against models that refuse partial objects
(docs/decisions/010-kubernetes-client.md).
"""

from clients.kubernetes.client import KubernetesClient
from clients.kubernetes.errors import ApiError, KubernetesError, TlsMismatch, Unreachable
from clients.kubernetes.identity import Identity

__all__ = ["ApiError", "Identity", "KubernetesClient", "KubernetesError", "TlsMismatch", "Unreachable"]
