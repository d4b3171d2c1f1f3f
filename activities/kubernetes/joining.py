"""kubeadm's join token: a door that is open only while machines join."""

import base64
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from temporalio import activity

from activities import journal
from activities.kubernetes.reach import ClusterReach
from bootstrap.bootstrap_token import secret_manifest, secret_path
from bootstrap.tokens import Tokens
from domain.clusters import Cluster, Mark
from domain.contracts import activities as names
from domain.contracts.activities import ClusterRef
from domain.machines import Machine
from store import Store

TOKEN_LIFE = timedelta(hours=2)
"""How long the token is valid from its last renewal: `kubeadm join` waits an hour for the first server."""
TOKEN_LEAST = TOKEN_LIFE / 2
"""A token with less than this left is renewed before another machine is powered on."""
OPEN_UNTIL = "joining-until"
"""Name, in the cluster's scope of the secret box, of the moment at which the door shuts by itself (ISO 8601)."""


class Joining:
    """Opens and shuts the door.

    Args:
        store: the store.
        reach: the way to each cluster's API servers.
        clock: the time.
    """

    def __init__(self, store: Store, reach: ClusterReach, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._reach = reach
        self._clock = clock

    @activity.defn(name=names.OPEN_JOINING)
    async def open_joining(self, ref: ClusterRef) -> None:
        """Makes the cluster accept its join token.

        Effect: Secret `kube-system/bootstrap-token-<id>`, valid for two hours.
        Key: the token's id, which is the cluster's own; server-side apply under our field manager.
        Done-when: the Secret holds this token and has at least an hour left.
        Final: none.
        """
        cluster, machines = await self._load(ref.cluster_id)
        token = await self._token(cluster)
        client = await self._reach.any(cluster, machines)
        now = self._clock()
        until = _valid_until(await client.find(secret_path(token)), token)
        if until < now + TOKEN_LEAST:
            until = (now + TOKEN_LIFE).replace(microsecond=0)
            await client.apply(secret_path(token), secret_manifest(token, until))
            await journal.log(f"{cluster.name}: machines can join until {until.isoformat()}")
        scope = f"cluster/{cluster.id}"
        if not await self._store.secrets.has(scope, OPEN_UNTIL) or (
            await self._store.secrets.get(scope, OPEN_UNTIL) != until.isoformat().encode()
        ):
            await self._store.secrets.put(scope, OPEN_UNTIL, until.isoformat().encode())
        await self._store.clusters.add_marks(cluster.id, Mark.JOINING_OPEN)

    @activity.defn(name=names.CLOSE_JOINING)
    async def close_joining(self, ref: ClusterRef) -> None:
        """Takes the join token away, so that nobody who has seen a machine's boot data can join.

        Effect: the Secret is gone, and the mark of the open door.
        Key: the token's id.
        Done-when: no such Secret exists.
        Final: none.
        """
        cluster, machines = await self._load(ref.cluster_id)
        path = secret_path(await self._token(cluster))
        client = await self._reach.any(cluster, machines)
        if await client.find(path) is not None:
            await client.delete(path)
            await journal.log(f"{cluster.name}: no machine can join any more")
        scope = f"cluster/{cluster.id}"
        if await self._store.secrets.has(scope, OPEN_UNTIL):
            await self._store.secrets.delete(scope, OPEN_UNTIL)
        await self._store.clusters.drop_marks(cluster.id, Mark.JOINING_OPEN)

    async def _token(self, cluster: Cluster) -> str:
        return Tokens.from_json(await self._store.secrets.get(f"cluster/{cluster.id}", "tokens")).bootstrap

    async def _load(self, cluster_id: str) -> tuple[Cluster, list[Machine]]:
        return await self._store.clusters.get(cluster_id), await self._store.machines.of_cluster(cluster_id)


def _valid_until(secret: dict[str, Any] | None, token: str) -> datetime:
    """Until when the Secret makes this token valid; long ago where it does not, or cannot be read."""
    never = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
    data = (secret or {}).get("data") or {}
    try:
        read = {key: base64.b64decode(data[key], validate=True).decode() for key in ("token-secret", "expiration")}
        until = datetime.fromisoformat(read["expiration"].replace("Z", "+00:00"))
    except (KeyError, ValueError):
        return never
    return until if token.endswith(f".{read['token-secret']}") and until.tzinfo is not None else never
