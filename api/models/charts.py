"""Charts in requests and answers."""

from datetime import datetime

from pydantic import Field

from api.models.shapes import Answer, Asked


class Chart(Answer):
    """One chart of the cache. `used` counts the clusters that need it, `used_by` names those that you may see."""

    name: str
    version: str
    digest: str = Field(description="SHA-256 of the archive.")
    source: str = Field(description="Where it was downloaded from, or `upload`.")
    size: int = Field(description="Bytes.")
    created_at: datetime
    used: int
    used_by: list[str]


class WantedChart(Answer):
    """A chart that this release is made for. `at_hand`: in the cache, or in the folder that was set up."""

    name: str
    version: str
    repository: str
    at_hand: bool


class ChartList(Answer):
    items: list[Chart]
    total: int
    wanted: list[WantedChart]


class ChartPull(Asked):
    """What to download. Version and repository are those that this release is made for, unless given."""

    name: str = Field(max_length=200)
    version: str | None = Field(default=None, max_length=64)
    repository: str | None = Field(default=None, max_length=500)
