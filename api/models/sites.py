"""Sites: where clusters stand."""

from datetime import datetime
from enum import StrEnum

from pydantic import Field, SecretStr

from api.models.shapes import Answer, Asked, Command
from domain.clusters import Distribution

SITE_NAME = r"^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$"
POOL_NAME = r"^[A-Za-z][A-Za-z0-9._-]*(/[A-Za-z][A-Za-z0-9._-]*)?$"
"""At most two levels: the cluster's own pool is the third, and Proxmox VE has no fourth."""


class NewSite(Asked):
    """A Proxmox VE datacenter. Either `fingerprint` (SHA-256, hex with colons) or `ca` (PEM) pins whom we speak to."""

    name: str = Field(pattern=SITE_NAME)
    endpoints: list[str] = Field(min_length=1, examples=[["https://pve1.example.com:8006"]])
    fingerprint: str | None = None
    ca: str | None = None
    token_id: str = Field(examples=["trilithon@pve!platform"])
    token_secret: SecretStr
    workload_pool: str = Field(default="trilithon", pattern=POOL_NAME)
    template_pool: str = Field(default="trilithon-templates", pattern=POOL_NAME)
    bridges: list[str] = Field(min_length=1)
    storages: list[str] = Field(min_length=1)
    iso_storage: str
    vmid_first: int = Field(default=20000, ge=100, le=999_999_999)
    vmid_last: int = Field(default=29999, ge=100, le=999_999_999)
    artifact_url: str | None = None
    ha_allowed: bool = False
    region: str = ""
    lab: bool = False


class SiteChange(Asked):
    """New values; what is left out stays. `version` is the one that was read: a newer one means 409."""

    version: int
    endpoints: list[str] | None = None
    fingerprint: str | None = None
    ca: str | None = None
    workload_pool: str | None = Field(default=None, pattern=POOL_NAME)
    template_pool: str | None = Field(default=None, pattern=POOL_NAME)
    bridges: list[str] | None = None
    storages: list[str] | None = None
    iso_storage: str | None = None
    vmid_first: int | None = Field(default=None, ge=100, le=999_999_999)
    vmid_last: int | None = Field(default=None, ge=100, le=999_999_999)
    artifact_url: str | None = None
    ha_allowed: bool | None = None
    region: str | None = None


class TokenRotation(Asked):
    """The new secret, and the new token id where that changes too. Tried against the site before it is kept."""

    token_id: str | None = None
    token_secret: SecretStr


class Site(Answer):
    """A site as it is kept; the token's secret never leaves the secret box."""

    name: str
    endpoints: list[str]
    fingerprint: str | None
    ca: str | None
    token_id: str
    workload_pool: str
    template_pool: str
    bridges: list[str]
    storages: list[str]
    iso_storage: str
    vmid_first: int
    vmid_last: int
    artifact_url: str | None
    ha_allowed: bool
    region: str
    lab: bool
    version: int
    created_at: datetime | None
    clusters: int | None = Field(default=None, description="Clusters of it; null for those who may not administer it.")


class Severity(StrEnum):
    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


class Finding(Answer):
    """One thing that was looked at: what, how it is, and what mends it."""

    severity: Severity
    code: str
    subject: str
    message: str
    remedy: str = ""
    commands: list[Command] = Field(default_factory=list)


class MissingPrivilege(Answer):
    """A privilege that our account lacks, with the line that grants it."""

    privilege: str
    path: str
    needed_for: str = ""
    command: Command


class SiteReport(Answer):
    """What a read-only look at the site found. `ok` is false when clusters could not be made there."""

    site: str
    ok: bool
    at: datetime
    proxmox_version: str = ""
    nodes: list[str] = Field(default_factory=list)
    findings: list[Finding]
    missing: list[MissingPrivilege]


class SiteAdded(Answer):
    site: Site
    report: SiteReport


class NewTemplate(Asked):
    """A VM template made beforehand. `nodes` maps Proxmox VE nodes to the template's VM id there."""

    distribution: Distribution
    version: str
    nodes: dict[str, int] = Field(min_length=1)
    shared: bool = False
    has_programs: bool = True


class Template(Answer):
    site: str
    distribution: Distribution
    version: str
    nodes: dict[str, int]
    shared: bool
    has_programs: bool
    created_at: datetime | None


class TemplateList(Answer):
    items: list[Template]
    total: int


class SiteList(Answer):
    items: list[Site]
    total: int
