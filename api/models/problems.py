"""What an answer says when it is not a success (RFC 9457, `application/problem+json`)."""

from pydantic import Field

from api.models.shapes import Answer, Missing
from domain.errors import ErrorCode


class Violation(Answer):
    """One rule that a value breaks. All broken rules come at once."""

    path: str = Field(examples=["spec.topology.controlPlane.replicas"])
    code: str
    message: str
    remedy: str = ""


class Problem(Answer):
    """A refusal or failure: what happened to what, and what can be done about it.

    `code` is stable, for programs; `detail` and `remedy` are for people. `reference` is given for faults of ours: the
    same id stands in the server's log.
    """

    type: str = "about:blank"
    title: str
    status: int
    code: ErrorCode
    detail: str
    remedy: str = ""
    violations: list[Violation] = Field(default_factory=list)
    missing: Missing | None = None
    """The privilege that is lacking, where that is the cause."""
    raw: str = ""
    """The outside system's own words, where there are some."""
    reference: str | None = None
