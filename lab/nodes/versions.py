"""Versions of Kubernetes and its distributions."""

import re


def minor(version: str) -> int:
    """Minor number of a version like `v1.36.5+k3s1`, 0 when it is none."""
    match = re.match(r"v1\.(\d+)\.", version)
    return int(match[1]) if match else 0
