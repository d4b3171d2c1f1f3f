"""The activities that bring Helm releases about."""

from temporalio import activity

from activities.helm.releasing import Releasing
from domain.clusters import Mark
from domain.conditions import Condition, ConditionType, Reason
from domain.contracts import activities as names
from domain.contracts.activities import ClusterRef
from domain.releases import Part, releases_of
from store import Store

_MARKS = {Part.POD_NETWORK: Mark.POD_NETWORK, Part.CLOUD_CONTROLLER: Mark.CLOUD_CONTROLLER}


class HelmActivities:
    """Releases in the clusters of this worker's sites.

    Args:
        store: the store.
        releasing: how a release is brought about.
    """

    def __init__(self, store: Store, releasing: Releasing) -> None:
        self._store = store
        self._releasing = releasing

    @activity.defn(name=names.INSTALL_POD_NETWORK)
    async def install_pod_network(self, ref: ClusterRef) -> None:
        """Installs the pod network that the spec chooses, where the distribution does not bring it.

        Effect: the releases of `domain.releases.pod_network`.
        Key: each release's name; a digest of chart and values is its label.
        Done-when: the newest revisions are deployed with these charts and values.
        Final: a chart is neither in the cache nor in the chart folder, or Helm refuses chart or values.
        """
        if Mark.POD_NETWORK not in (await self._store.clusters.get(ref.cluster_id)).marks:
            message = "The pod network is being installed."
            condition = Condition(
                type=ConditionType.POD_NETWORK_READY, status=False, reason=Reason.WAITING, message=message
            )
            await self._store.clusters.set_condition(ref.cluster_id, condition)
        await self._install(ref, Part.POD_NETWORK)

    @activity.defn(name=names.INSTALL_CLOUD_CONTROLLER)
    async def install_cloud_controller(self, ref: ClusterRef) -> None:
        """Installs the Proxmox VE cloud controller manager from its chart.

        Effect: the release `proxmox-cloud-controller-manager` in `kube-system`.
        Key: the release's name; a digest of chart and values is its label.
        Done-when: the newest revision is deployed with this chart and these values.
        Final: the chart is neither in the cache nor in the chart folder, or Helm refuses chart or values.
        """
        await self._install(ref, Part.CLOUD_CONTROLLER)

    async def _install(self, ref: ClusterRef, part: Part) -> None:
        cluster = await self._store.clusters.get(ref.cluster_id)
        machines = await self._store.machines.of_cluster(cluster.id)
        for release in releases_of(cluster.spec, part):
            await self._releasing.ensure_release(cluster, machines, release)
        await self._store.clusters.add_marks(cluster.id, _MARKS[part])
