"""The API server's AuthenticationConfiguration.

Every API server starts with the file from day one, with no provider in it: adding a provider later is a change of a
file that the server watches, not of its flags (facts/kubernetes.md 0 and 2.11).
"""

import re

from bootstrap.yaml_text import yaml_text

_FIRST_V1_MINOR = 34
"""`apiserver.config.k8s.io/v1` exists from Kubernetes 1.34 on, v1beta1 from 1.30 (facts 4.1)."""


def authentication_configuration(version: str) -> str:
    """Renders the file for an API server of this version (`v1.36.5+k3s1`)."""
    group_version = "v1" if minor(version) >= _FIRST_V1_MINOR else "v1beta1"
    return yaml_text(
        {
            "apiVersion": f"apiserver.config.k8s.io/{group_version}",
            "kind": "AuthenticationConfiguration",
            "jwt": [],
        }
    )


def minor(version: str) -> int:
    """The minor number of a Kubernetes version of any distribution.

    Raises:
        ValueError: the text is not a version of Kubernetes 1.
    """
    match = re.match(r"v1\.(\d+)\.\d+", version)
    if match is None:
        raise ValueError(f"not a Kubernetes version: {version}")
    return int(match.group(1))
