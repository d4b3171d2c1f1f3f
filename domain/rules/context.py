"""What rules need to know beyond the spec itself: the site, its neighbours, and the world's time zones."""

from collections.abc import Collection, Iterable
from ipaddress import ip_address
from urllib.parse import urlsplit

from domain.addresses import network_id
from domain.clusters import Cluster, Distribution
from domain.frozen import Frozen
from domain.sites import Site, Template


class Neighbour(Frozen):
    """Another living cluster in the same site, as far as its addresses matter.

    `name` is `namespace/name`, or None where the asking person may not see it: then it must not appear in a message.
    """

    id: str
    name: str | None
    network_id: str
    addresses: tuple[str, ...]
    endpoint: str


class SiteContext(Frozen):
    """The site that a cluster shall stand in, as its rules see it.

    Empty `bridges` or `storages` mean that the administrator named none, so any name is taken. `nodes` are the site's
    Proxmox VE nodes, None while they are not known. `time_zones` are the IANA names that the server knows.
    """

    site_id: str
    site_name: str = ""
    bridges: tuple[str, ...] = ()
    storages: tuple[str, ...] = ()
    templates: frozenset[tuple[Distribution, str]] = frozenset()
    endpoints: tuple[str, ...] = ()
    """Addresses or names of the site's API endpoints, without scheme and port."""
    neighbours: tuple[Neighbour, ...] = ()
    nodes: frozenset[str] | None = None
    time_zones: frozenset[str] = frozenset({"UTC"})
    own_addresses: frozenset[str] = frozenset()
    """Addresses that the cluster's machines hold now; empty for a new cluster."""

    @classmethod
    def of(
        cls,
        site: Site,
        templates: Iterable[Template],
        clusters: Iterable[Cluster],
        *,
        time_zones: Collection[str],
        visible: Collection[str] | None = None,
        nodes: Collection[str] | None = None,
        own: str | None = None,
        own_addresses: Collection[str] = (),
    ) -> "SiteContext":
        """The context from records.

        `clusters` are all living clusters (other sites' are passed over), `own` is the id of the cluster that is being
        changed, `visible` the ids of those that the person may see (None: all).
        """
        return cls(
            site_id=site.id,
            site_name=site.name,
            bridges=site.bridges,
            storages=site.storages,
            templates=frozenset((one.distribution, one.version) for one in templates if one.site_id == site.id),
            endpoints=tuple(filter(None, map(_host, site.endpoints))),
            neighbours=tuple(
                Neighbour(
                    id=cluster.id,
                    name=f"{cluster.namespace}/{cluster.name}" if visible is None or cluster.id in visible else None,
                    network_id=network_id(site.id, cluster.spec.network),
                    addresses=cluster.spec.network.addresses,
                    endpoint=cluster.spec.endpoint,
                )
                for cluster in clusters
                if cluster.site_id == site.id and cluster.id != own
            ),
            nodes=None if nodes is None else frozenset(nodes),
            time_zones=frozenset(time_zones),
            own_addresses=frozenset(own_addresses),
        )

    @property
    def loopback(self) -> bool:
        """True for a site that is reached over loopback, as the lab is: only there may nodes have such addresses."""
        return any(_is_loopback(endpoint) for endpoint in self.endpoints)


def _host(url: str) -> str:
    try:
        return urlsplit(url if "//" in url else f"//{url}").hostname or ""
    except ValueError:
        return ""


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
