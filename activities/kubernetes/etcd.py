"""Looks at a cluster's etcd: the gateway of each server (kubeadm), or what k3s and RKE2 write on their nodes."""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from temporalio import activity

from activities.kubernetes import nodes as node_facts
from activities.kubernetes.reach import ClusterReach
from bootstrap.authorities import CLOCK_SKEW, Authorities, etcd_client_certificate
from clients.etcd import CLIENT_PORT, Alarm, EtcdClient, EtcdError, Member, Status
from clients.kubernetes import Identity, KubernetesError
from domain.clusters import Cluster, Distribution, Mark
from domain.conditions import ConditionType
from domain.contracts import activities as names
from domain.contracts.activities import ClusterRef, Handle
from domain.etcd import EtcdAlarm, EtcdMember, EtcdSource, EtcdView, etcd_condition, member_of
from domain.machines import Machine, Phase
from domain.plan import etcd_refusal
from store import NotFound, Store

_CERTIFICATE_LIFE = timedelta(hours=8)
_AT_ONCE = 4
"""Clusters that a round looks at together: no more connections are open than these clusters have servers."""
_AGAIN = 2.0
"""Seconds until the next look while a server waits for its turn; the pauses grow (workflows/effects.py)."""

ETCD_NODES = "node-role.kubernetes.io/etcd=true"
IS_VOTER = "EtcdIsVoter"

_log = structlog.get_logger()


@dataclass(frozen=True)
class _Heard:
    """What one server said; `trouble` is why it is not well, and without `status` it said nothing."""

    machine: Machine
    members: tuple[Member, ...] = ()
    status: Status | None = None
    alarms: tuple[Alarm, ...] = ()
    trouble: str = ""


class EtcdLooks:
    """Looks at etcd and writes what differs: the cluster's view of it and the condition EtcdHealthy.

    Connections live for one look: a handshake a minute costs less than connections to every server of every cluster.

    Args:
        store: the store.
        reach: the way to the clusters' API servers.
        clock: the time, for our certificates' dates.
        port: etcd's client port.
    """

    def __init__(
        self, store: Store, reach: ClusterReach, clock: Callable[[], datetime], port: int = CLIENT_PORT
    ) -> None:
        self._store = store
        self._reach = reach
        self._clock = clock
        self._port = port
        self._identities: dict[str, tuple[datetime, Identity]] = {}

    async def look(self, cluster_id: str, job_id: str = "") -> tuple[EtcdView, list[Machine]]:
        """One look at one cluster; what differs is written. Never raises for an etcd that is away.

        Args:
            cluster_id: the cluster.
            job_id: the job that wants to know; empty for a look by the way, which leaves the last job's name.

        Raises:
            NotFound: the cluster is gone.
        """
        cluster = await self._store.clusters.get(cluster_id)
        machines = [one for one in await self._store.machines.of_cluster(cluster_id) if one.is_server]
        if cluster.spec.distribution is Distribution.KUBEADM:
            seen = await self._by_gateway(cluster, machines)
        else:
            seen = await self._by_nodes(cluster, machines)
        ready = tuple(sorted(one.id for one in machines if one.phase is Phase.READY))
        before = cluster.etcd
        view = seen.model_copy(update={"servers": ready, "job_id": job_id or (before.job_id if before else "")})
        view = view.calm(before)
        # The condition first: whoever sees the view finds the condition saying the same.
        await self._tell(cluster, view, machines)
        if view != before:
            await self._store.clusters.set_etcd(cluster_id, view)
        return view, machines

    async def round(self, site_id: str, ill_only: bool = False) -> bool:
        """One look at every cluster of a site whose API has answered; a few at a time.

        Args:
            site_id: the site.
            ill_only: only clusters whose etcd was not whole at the last look.

        Returns:
            True when the etcd of one of them is not whole.
        """
        turn, ill = asyncio.Semaphore(_AT_ONCE), False

        async def one(cluster: Cluster) -> None:
            nonlocal ill
            async with turn:
                with suppress(NotFound):
                    view, machines = await self.look(cluster.id)
                    ill = ill or etcd_condition(view, machines).status is not True

        clusters = [
            cluster
            for cluster in await self._store.clusters.all_living()
            if cluster.site_id == site_id
            and not cluster.deleting
            and Mark.API_ANSWERS in cluster.marks
            and not (ill_only and _is_whole(cluster))
        ]
        if not ill_only:
            for known in set(self._identities) - {cluster.id for cluster in clusters}:
                self._identities.pop(known)
        for cluster, failed in zip(
            clusters, await asyncio.gather(*map(one, clusters), return_exceptions=True), strict=True
        ):
            if isinstance(failed, Exception):
                _log.warning("etcd was not looked at", cluster=cluster.name, error=str(failed))
        return ill

    async def _tell(self, cluster: Cluster, view: EtcdView, machines: Sequence[Machine]) -> None:
        condition = etcd_condition(view, machines)
        before = next((item for item in cluster.conditions if item.type is condition.type), None)
        if before is None or before.model_copy(update={"last_transition": None}) != condition:
            await self._store.clusters.set_condition(cluster.id, condition)

    # --- kubeadm ---

    async def _by_gateway(self, cluster: Cluster, machines: Sequence[Machine]) -> EtcdView:
        asked = [one for one in machines if one.phase.reached(Phase.STARTED) and not one.leaving]
        if not asked:
            return EtcdView(silent="no server has been started yet")
        identity = await self._identity(cluster)
        heard = await asyncio.gather(*(self._ask(machine, identity) for machine in asked))
        return _put_together(heard)

    async def _ask(self, machine: Machine, identity: Identity) -> _Heard:
        members: tuple[Member, ...] = ()
        status: Status | None = None
        alarms: tuple[Alarm, ...] = ()
        try:
            async with EtcdClient(machine.address, identity, port=self._port) as client:
                members = tuple(await client.members())
                status = await client.status()
                if status.errors:  # asking for alarms is a proposal to all members, so it is not done for nothing
                    alarms = tuple(await client.alarms())
                health = await client.health()
        except EtcdError as error:
            return _Heard(machine, members, status, alarms, trouble=str(error))
        return _Heard(machine, members, status, alarms, trouble="" if health.good else health.reason or "no reason")

    async def _identity(self, cluster: Cluster) -> Identity:
        now = self._clock()
        known = self._identities.get(cluster.id)
        if known is not None and known[0] > now:
            return known[1]
        authorities = Authorities.from_json(await self._store.secrets.get(f"cluster/{cluster.id}", "authorities"))
        pair = etcd_client_certificate(
            authorities, "trilithon", rng=secrets, not_before=now - CLOCK_SKEW, not_after=now + _CERTIFICATE_LIFE
        )
        identity = Identity(
            ca=authorities.etcd_server.certificate.decode(),
            certificate=pair.certificate.decode(),
            key=pair.key.decode(),
        )
        self._identities[cluster.id] = (now + _CERTIFICATE_LIFE / 2, identity)
        return identity

    # --- k3s and RKE2 ---

    async def _by_nodes(self, cluster: Cluster, machines: Sequence[Machine]) -> EtcdView:
        """Their gateway does not listen on the node's address; the leader's server writes who votes on the nodes."""
        try:
            client = await self._reach.any(cluster, machines)
            nodes = (await client.get(node_facts.NODES, labelSelector=ETCD_NODES))["items"]
        except KubernetesError as error:
            return EtcdView(source=EtcdSource.NODES, silent=str(error))
        removed = f"etcd.{cluster.spec.distribution}.cattle.io/removed-node-name"
        members = [
            found
            for node in nodes
            if removed not in (node["metadata"].get("annotations") or {})
            and (found := _member_of_node(node)) is not None
        ]
        silent = "" if members else "no node says that it belongs to etcd"
        return EtcdView(source=EtcdSource.NODES, members=tuple(members), silent=silent)


class EtcdActivities:
    """kubernetes.look_at_etcd."""

    def __init__(self, looks: EtcdLooks) -> None:
        self._looks = looks

    @activity.defn(name=names.LOOK_AT_ETCD)
    async def look_at_etcd(self, ref: ClusterRef) -> Handle:
        """Looks whether etcd bears what the cluster's job wants to do next.

        Effect: none outside; the cluster's view of etcd and the condition EtcdHealthy, where they differ.
        Key: the cluster.
        Done-when: always looks afresh; done when a further server may join, or when all have joined and vote.
        Final: never; until then the answer says what etcd lacks.
        """
        view, machines = await self._looks.look(ref.cluster_id, ref.job_id)
        why = etcd_refusal(view, machines)
        return Handle(done=not why, waiting_for=why, pause=_AGAIN)


def _is_whole(cluster: Cluster) -> bool:
    return any(row.type is ConditionType.ETCD_HEALTHY and row.status is True for row in cluster.conditions)


def _put_together(heard: Sequence[_Heard]) -> EtcdView:
    """One view of what each server said. The leader's list of members counts, else that of one that is well."""
    speaking = [one for one in heard if one.status is not None]
    if not speaking:
        return EtcdView(silent="; ".join(one.trouble for one in heard))
    well = [one for one in speaking if not one.trouble]
    leader = next((one.status.leader for one in [*well, *speaking] if one.status and one.status.leader), "")
    best = next((one for one in speaking if one.status and one.status.member_id == leader), (well or speaking)[0])
    members = tuple(
        EtcdMember(id=one.id, name=one.name, peer_urls=one.peer_urls, learner=one.learner) for one in best.members
    )
    view = EtcdView(
        members=members,
        leader=leader,
        alarms=tuple(
            EtcdAlarm(member_id=one.member_id, kind=one.kind)
            for one in dict.fromkeys(alarm for server in speaking for alarm in server.alarms)
        ),
        disagreeing=tuple(one.machine.name for one in speaking if _belongs(one) != _belongs(best)),
        size=max(one.status.size for one in speaking if one.status),
        size_in_use=max(one.status.size_in_use for one in speaking if one.status),
        quota=min(one.status.quota for one in speaking if one.status),
        version=best.status.version if best.status else "",
    )
    troubles = {member.id: one.trouble for one in heard if (member := member_of(view, one.machine)) is not None}
    judged = tuple(
        one.model_copy(update={"healthy": not troubles[one.id], "trouble": troubles[one.id]})
        if one.id in troubles
        else one
        for one in members
    )
    return view.model_copy(update={"members": judged})


def _belongs(heard: _Heard) -> frozenset[tuple[str, bool]]:
    return frozenset((one.id, one.learner) for one in heard.members)


def _member_of_node(node: node_facts.Node) -> EtcdMember | None:
    """The member that a node of k3s or RKE2 runs, by its condition EtcdIsVoter; None where it runs none."""
    name = node_facts.name(node)
    said = next(
        (one for one in (node.get("status") or {}).get("conditions") or [] if one.get("type") == IS_VOTER), None
    )
    if said is None:
        return EtcdMember(id=name, name=name, healthy=False, trouble=f"{name} has not said yet whether it votes")
    if said.get("reason") == "NotAMember":
        return None
    if said.get("status") == "True":
        ready = node_facts.ready(node)
        trouble = "" if ready else f"its node is not Ready: {node_facts.not_ready_because(node)}"
        return EtcdMember(id=name, name=name, healthy=ready, trouble=trouble)
    learner = said.get("reason") == "MemberIsLearner"
    return EtcdMember(
        id=name, name=name, learner=learner, healthy=learner or False, trouble=str(said.get("message") or "unknown")
    )
