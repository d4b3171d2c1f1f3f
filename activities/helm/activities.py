"""The activities that bring Helm releases about."""

from temporalio import activity
from temporalio.exceptions import ApplicationError

import activities.journal as journal
from activities.kubernetes.cloud_config import CHART, NAMESPACE, RELEASE, chart_values
from activities.kubernetes.reach import API_PORT, ClusterReach
from bootstrap.authorities import KeyPair, kubeconfig
from clients.charts import ChartFolder, ChartMissing, Helm
from clients.crossings import UNWATCHED, Crossing
from clients.kubernetes import KubernetesClient
from domain.clusters import Cluster, Mark
from domain.contracts import activities as names
from domain.contracts.activities import ClusterRef
from store import Store

_DEPLOYED = "deployed"
HELM_LIMIT = 60.0
"""Seconds for one Helm call; a release that needs longer to settle is waited for by looking at its objects."""


class HelmActivities:
    """Releases in the clusters of this worker's sites.

    Args:
        store: the store.
        reach: the way to each cluster's API servers.
        charts: the folder of charts.
        crossing: told of every mutating call (crash-point tests).
    """

    def __init__(self, store: Store, reach: ClusterReach, charts: ChartFolder, crossing: Crossing = UNWATCHED) -> None:
        self._store = store
        self._reach = reach
        self._charts = charts
        self._crossing = crossing

    @activity.defn(name=names.INSTALL_CLOUD_CONTROLLER)
    async def install_cloud_controller(self, ref: ClusterRef) -> None:
        """Installs the Proxmox VE cloud controller manager from its chart.

        Effect: the release `proxmox-cloud-controller-manager` in `kube-system`.
        Key: the release's name; a digest of chart and values is its label.
        Done-when: the newest revision is deployed with this chart and these values.
        Final: the chart is not in the chart folder.
        """
        cluster = await self._store.clusters.get(ref.cluster_id)
        machines = await self._store.machines.of_cluster(cluster.id)
        try:
            chart = self._charts.find(CHART)
        except ChartMissing as error:
            raise ApplicationError(str(error), type="ChartMissing", non_retryable=True) from None
        client = await self._reach.any(cluster, machines)
        helm = Helm(await self._kubeconfig(cluster, client), limit=HELM_LIMIT, crossing=self._crossing)
        release = await helm.ensure(RELEASE, NAMESPACE, str(chart.path), chart_values(), version=chart.version)
        if release.status != _DEPLOYED:
            raise ApplicationError(f"The release {RELEASE} is {release.status}", type="ReleaseFailed")
        await journal.log(f"{RELEASE}: revision {release.revision} of {release.chart} is deployed")
        await self._store.clusters.add_marks(cluster.id, Mark.CLOUD_CONTROLLER)

    async def _kubeconfig(self, cluster: Cluster, client: KubernetesClient) -> str:
        """A kubeconfig for the API server that answers now; it lives in this process's memory and in Helm's."""
        identity = await self._reach.identity(cluster)
        return kubeconfig(
            client.server if client.server else f"https://{cluster.spec.endpoint}:{API_PORT}",
            identity.ca.encode(),
            KeyPair(identity.certificate.encode(), identity.key.encode()),
            cluster=cluster.name,
            user="trilithon",
        )
