"""A way to a cluster's API server: through its virtual IP, or by a server's own address (quality.md F20)."""

import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from bootstrap.authorities import CLOCK_SKEW, Authorities, admin_certificate
from clients.crossings import UNWATCHED, Crossing
from clients.kubernetes import Identity, KubernetesClient, KubernetesError, Unreachable
from domain.clusters import Cluster
from domain.machines import Machine, Phase
from store import Store

_CERTIFICATE_LIFE = timedelta(hours=8)
API_PORT = 6443


class ClusterReach:
    """Keeps one connection per API server address; our certificates are short-lived and never leave memory.

    Args:
        store: where the cluster's authorities lie, encrypted.
        clock: the time, for the certificates' dates.
        crossing: told of every mutating call (crash-point tests).
    """

    def __init__(self, store: Store, clock: Callable[[], datetime], crossing: Crossing = UNWATCHED) -> None:
        self._store = store
        self._clock = clock
        self._crossing = crossing
        self._identities: dict[str, tuple[datetime, Identity]] = {}
        self._clients: dict[tuple[str, str], KubernetesClient] = {}

    async def identity(self, cluster: Cluster) -> Identity:
        """Our own administrator certificate for this cluster, renewed at half its life."""
        now = self._clock()
        known = self._identities.get(cluster.id)
        if known is not None and known[0] > now:
            return known[1]
        authorities = Authorities.from_json(await self._store.secrets.get(f"cluster/{cluster.id}", "authorities"))
        pair = admin_certificate(
            authorities, "trilithon", rng=secrets, not_before=now - CLOCK_SKEW, not_after=now + _CERTIFICATE_LIFE
        )
        identity = Identity(
            ca=authorities.server.certificate.decode(), certificate=pair.certificate.decode(), key=pair.key.decode()
        )
        await self.forget(cluster.id)
        self._identities[cluster.id] = (now + _CERTIFICATE_LIFE / 2, identity)
        return identity

    async def at(self, cluster: Cluster, address: str) -> KubernetesClient:
        """The client for the API server at `address`; nothing is sent yet."""
        identity = await self.identity(cluster)
        key = (cluster.id, address)
        if key not in self._clients:
            self._clients[key] = KubernetesClient(f"https://{address}:{API_PORT}", identity, crossing=self._crossing)
        return self._clients[key]

    async def through_endpoint(self, cluster: Cluster) -> KubernetesClient:
        """The client for the virtual IP."""
        return await self.at(cluster, cluster.spec.endpoint)

    async def any(self, cluster: Cluster, machines: Sequence[Machine]) -> KubernetesClient:
        """The first API server that answers: the virtual IP, then each started server.

        Raises:
            Unreachable: none does; the text says what each attempt met.
        """
        servers = [m.address for m in machines if m.is_server and m.phase.reached(Phase.STARTED)]
        met = []
        for address in (cluster.spec.endpoint, *servers):
            client = await self.at(cluster, address)
            try:
                await client.livez()
            except KubernetesError as error:
                met.append(str(error))
            else:
                return client
        raise Unreachable("; ".join(met) or "no server has been started yet")

    async def forget(self, cluster_id: str) -> None:
        """Closes the cluster's connections and drops our certificate for it."""
        self._identities.pop(cluster_id, None)
        for key in [key for key in self._clients if key[0] == cluster_id]:
            with suppress(RuntimeError):
                await self._clients.pop(key).aclose()

    async def aclose(self) -> None:
        """Closes every cluster's connections."""
        for cluster_id in {cluster_id for cluster_id, _ in self._clients}:
            await self.forget(cluster_id)
