"""Helm charts as we keep them."""

from datetime import datetime

from domain.frozen import Payload


class KeptChart(Payload):
    """One archive of the chart cache. `digest` is the SHA-256 of the archive (hex), `size` in bytes.

    `source` is the address it was downloaded from, or `upload`.
    """

    name: str
    version: str
    digest: str
    source: str
    size: int
    created_at: datetime
