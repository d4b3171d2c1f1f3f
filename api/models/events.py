"""Payloads of the two event streams (`text/event-stream`); the events' ids resume a stream that was cut."""

from datetime import datetime

from api.models.jobs import ClusterName
from api.models.shapes import Answer


class Change(Answer):
    """Something that a page shows has changed: read it again.

    `kind` is `cluster`, `machine`, `job`, `site`, `template` or `chart`.
    """

    seq: int
    kind: str
    id: str
    cluster: ClusterName | None = None
    site: str | None = None


class Reset(Answer):
    """The stream could not be resumed from that id: read everything again."""

    reason: str
    at: datetime
