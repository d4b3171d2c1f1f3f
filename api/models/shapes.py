"""The base of every request and answer, and the page of a list."""

from datetime import datetime
from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

Row = TypeVar("Row")


class Answer(BaseModel):
    """Base of every answer."""

    model_config = ConfigDict(frozen=True)


class Asked(BaseModel):
    """Base of every request body: an unknown field is a mistake and is named, never dropped silently."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Page(Answer, Generic[Row]):
    """One page of a list that the server filtered and sorted.

    `total` counts what the person may see and the filter lets through. `unfiltered_total` counts what the person may
    see at all, so that a page can tell 'none yet' from 'none that matches'.
    """

    items: list[Row]
    total: int
    unfiltered_total: int | None = None
    offset: int = 0
    limit: int = 50
    as_of: datetime


class Missing(Answer):
    """A right that the person lacks: the Proxmox VE privilege and the path it is asked on."""

    privilege: str
    path: str


class Allowed(Answer):
    """Whether an act is open to the person, and if not, why: a missing right or the thing's state."""

    allowed: bool
    missing: Missing | None = None
    reason: str = ""


class Command(Answer):
    """A line that a person may run, ready to copy, and where."""

    where: str = Field(examples=["a Proxmox VE node, as root"])
    line: str
