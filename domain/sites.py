"""A site: one Proxmox VE datacenter, as its administrator set it up for us."""

from datetime import datetime

from domain.clusters import Distribution
from domain.frozen import Payload


class Site(Payload):
    """Where clusters stand. The API token's secret is in the secret box (`site/<id>/token`), never here.

    `endpoints` are base URLs (`https://host:8006`), tried in order. `fingerprint` (SHA-256 of the certificate, hex
    with colons) or `ca` (PEM) pins whom we speak to. `vmid_first..vmid_last` is our own range of VM ids.
    `artifact_url` is where nodes fetch a distribution's programs that their template does not hold.
    """

    id: str
    name: str
    endpoints: tuple[str, ...]
    fingerprint: str | None = None
    ca: str | None = None
    token_id: str
    workload_pool: str
    template_pool: str
    bridges: tuple[str, ...] = ()
    storages: tuple[str, ...] = ()
    iso_storage: str
    vmid_first: int = 20000
    vmid_last: int = 29999
    artifact_url: str | None = None
    ha_allowed: bool = False
    region: str = ""
    lab: bool = False
    version: int = 1
    created_at: datetime | None = None


class Template(Payload):
    """A VM template registered with a site.

    `nodes` maps a Proxmox VE node to the template's VM id there: one entry on shared storage (`shared` is true and
    any node can clone it), one per node on local storage, where machines are placed only where one stands.
    `has_programs` is false when the distribution's programs are fetched at first boot.
    """

    id: str
    site_id: str
    distribution: Distribution
    version: str
    nodes: dict[str, int]
    shared: bool = False
    has_programs: bool = True
    created_at: datetime | None = None
