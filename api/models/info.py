"""What this installation is: read before sign-in by pages and command line."""

from datetime import datetime

from pydantic import Field

from api.models.shapes import Answer


class Links(Answer):
    """Where else to look. Absent when this installation has none."""

    engine: str | None = None
    """The Temporal UI."""
    documentation: str | None = None


class Info(Answer):
    name: str = "Trilithon"
    version: str
    lab: bool = Field(description="True where a simulated datacenter stands behind at least one site.")
    links: Links
    features: list[str] = Field(description="What this release acts on: names that pages switch parts on by.")
    now: datetime


class Health(Answer):
    """Whether requests can be served. `engine` false: changes are accepted and start when Temporal is back."""

    store: bool
    engine: bool


class Realm(Answer):
    """One way to sign in. `supported` false: `remedy` says what to use instead."""

    realm: str
    type: str
    comment: str = ""
    default: bool = False
    supported: bool = True
    remedy: str = ""


class Realms(Answer):
    """The realms of one site, and the sites one may choose from. `site` is null for the local administrator."""

    site: str | None
    sites: list[str]
    realms: list[Realm]
    unreachable: str = Field(default="", description="Why the site's own realms are missing, when it does not answer.")
