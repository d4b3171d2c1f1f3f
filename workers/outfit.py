"""Builds every activity with the clients it speaks through: the one place where rooms are put together."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from activities.helm import ChartShelf, HelmActivities, Releasing, Turns
from activities.kubernetes import KubernetesActivities
from activities.kubernetes.etcd import EtcdActivities, EtcdLooks
from activities.kubernetes.reach import ClusterReach
from activities.proxmox import ProxmoxActivities, SiteClients
from activities.records import RecordActivities
from clients.charts import ChartFolder
from clients.crossings import Crossing
from clients.proxmox import ApiToken, ProxmoxClient, Trust, connect
from domain.sites import Site
from store import Store
from workers.registry import Activity, collect


class Outfit:
    """The activities of one worker process and the connections that they share.

    Args:
        store: the store.
        clock: the time.
        charts: the folder of Helm charts.
        crossing: told of every changing outside call (crash-point tests).
    """

    def __init__(self, store: Store, clock: Callable[[], datetime], charts: Path, crossing: Crossing) -> None:
        self._sites = SiteClients(store, lambda site, secret: connect(site, secret, crossing=crossing))
        self._reach = ClusterReach(store, clock, crossing)

        def connect_as(site: Site, token: ApiToken) -> ProxmoxClient:
            trust = Trust(fingerprint=site.fingerprint, ca=site.ca)
            return ProxmoxClient(site.endpoints, token, trust, crossing=crossing)

        etcd = EtcdLooks(store, self._reach, clock)
        self._groups: tuple[object, ...] = (
            RecordActivities(store, clock),
            ProxmoxActivities(store, self._sites, etcd.round),
            KubernetesActivities(store, self._reach, self._sites.of, connect_as, clock),
            EtcdActivities(etcd),
            HelmActivities(
                store, Releasing(self._reach, ChartShelf(store, ChartFolder(charts)), Turns(store), crossing)
            ),
        )

    def activities(self) -> list[Activity]:
        """Every activity, in the order of their wire names."""
        return collect(*self._groups)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._sites.aclose()
        await self._reach.aclose()
