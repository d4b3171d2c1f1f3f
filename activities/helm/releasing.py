"""The one way in which a release is brought about in a cluster, whatever it is for."""

import asyncio
from collections.abc import Sequence

from temporalio.exceptions import ApplicationError

import activities.journal as journal
from activities.helm.shelf import ChartAbsent, ChartShelf
from activities.helm.turns import Turns
from activities.kubernetes.reach import API_PORT, ClusterReach
from activities.kubernetes.workloads import WORKLOADS, unready
from bootstrap.authorities import KeyPair, kubeconfig
from clients.charts import Helm, HelmError, ReleaseObject
from clients.crossings import UNWATCHED, Crossing
from clients.kubernetes import KubernetesClient, KubernetesError
from domain.clusters import Cluster
from domain.machines import Machine
from domain.releases import Release

_DEPLOYED = "deployed"
_DEFINITION = "CustomResourceDefinition"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_CHART_NOTE = "trilithon-chart"
"""Annotation of a definition that we applied: the chart that it came from, so that the same is not applied again."""
_ESTABLISHED_EVERY, _ESTABLISHED_LOOKS = 0.2, 50
HELM_LIMIT = 60.0
"""Seconds for one Helm call; a release that needs longer to settle is waited for by looking at its objects."""


class Releasing:
    """Releases in clusters, one at a time for each.

    Args:
        reach: the way to each cluster's API servers.
        shelf: where charts are found.
        turns: keep attempts at one release apart.
        crossing: told of every mutating call (crash-point tests).
        limit: seconds for one Helm call.
    """

    def __init__(
        self,
        reach: ClusterReach,
        shelf: ChartShelf,
        turns: Turns,
        crossing: Crossing = UNWATCHED,
        *,
        limit: float = HELM_LIMIT,
    ) -> None:
        self._reach = reach
        self._shelf = shelf
        self._crossing = crossing
        self._limit = limit
        self._turns = turns

    async def ensure_release(self, cluster: Cluster, machines: Sequence[Machine], release: Release) -> None:
        """Installs or upgrades the release so that the cluster has it as it is described.

        Waits for its turn at the release: one attempt at a time, in whatever process. Helm's subprocess ends when this
        process dies, or is silent, or has lost its turn.

        Raises:
            ApplicationError: `ChartMissing` and `ReleaseRefused` are final; `ReleaseFailed` is tried again, and says
                which object is the trouble as far as the cluster tells.
        """
        async with self._turns.take(f"release/{cluster.id}/{release.name}", release.name) as turn:
            try:
                chart = await self._shelf.find(release.chart)
            except ChartAbsent as error:
                raise ApplicationError(str(error), type="ChartMissing", non_retryable=True) from None
            client = await self._reach.any(cluster, machines)
            helm = Helm(
                await self._kubeconfig(cluster, client), limit=self._limit, crossing=self._crossing, held=turn.held
            )
            try:
                if release.definitions:
                    await self._define(client, await helm.render(release.name, release.namespace, chart, {}), release)
                else:
                    await self._release(helm, chart, release)
            except HelmError as error:
                why = await _trouble(client, release, error.objects)
                raise ApplicationError(
                    f"The release {release.name} ({release.chart.label}) failed: {error}{why}",
                    type="ReleaseRefused" if error.final else "ReleaseFailed",
                    non_retryable=error.final,
                ) from None

    async def _release(self, helm: Helm, chart: str, release: Release) -> None:
        done = await helm.ensure(release.name, release.namespace, chart, release.values, version=release.chart.version)
        if done.status != _DEPLOYED:
            raise HelmError(f"it is {done.status}")
        await journal.log(f"{release.name}: revision {done.revision} of {release.chart.label} is deployed")

    async def _define(self, client: KubernetesClient, objects: list[dict[str, object]], release: Release) -> None:
        """Applies the chart's definitions and waits until the API serves them."""
        names = []
        for definition in objects:
            metadata = dict(definition.get("metadata") or {})  # type: ignore[call-overload]
            if definition.get("kind") != _DEFINITION:
                raise HelmError(
                    f"{release.chart.name} holds {definition.get('kind')}, not definitions only", final=True
                )
            path = f"{_DEFINITIONS}/{metadata['name']}"
            names.append(path)
            known = await client.find(path)
            if ((known or {}).get("metadata", {}).get("annotations") or {}).get(_CHART_NOTE) == release.chart.label:
                continue
            metadata["annotations"] = {**(metadata.get("annotations") or {}), _CHART_NOTE: release.chart.label}
            await client.apply(path, {**definition, "metadata": metadata})
        for _ in range(_ESTABLISHED_LOOKS):
            if all([_established(await client.get(path)) for path in names]):
                break
            await asyncio.sleep(_ESTABLISHED_EVERY)
        await journal.log(f"{release.name}: {len(names)} definitions of {release.chart.label} are served")

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


def _established(definition: dict[str, object]) -> bool:
    conditions = dict(definition.get("status") or {}).get("conditions") or []  # type: ignore[call-overload]
    return any(one.get("type") == "Established" and one.get("status") == "True" for one in conditions)


async def _trouble(client: KubernetesClient, release: Release, objects: Sequence[ReleaseObject]) -> str:
    """What the release's own objects say, to be put after the error; empty where they say nothing."""
    found = [(one.kind, one.namespace or release.namespace, one.name) for one in objects if one.kind in WORKLOADS]
    try:
        said = [text for one in found if (text := await unready(client, *one))]
        return "".join([f"; {text}" for text in said])
    except KubernetesError as error:
        return f"; its objects cannot be read: {error}"
