"""The activities on a cluster's own API: waits for nodes, taints, the cloud controller's Secret."""

import asyncio
import base64
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities import journal
from activities.kubernetes import nodes as node_facts
from activities.kubernetes.cloud_config import CONFIG_KEY, NAMESPACE, SECRET, cloud_config
from activities.kubernetes.evidence import gather
from activities.kubernetes.joining import Joining
from activities.kubernetes.reach import ClusterReach
from activities.kubernetes.workloads import release_unready
from clients.kubernetes import KubernetesClient, KubernetesError
from clients.proxmox import ApiToken, ProxmoxClient, ProxmoxError, Refused
from domain.clusters import Cluster, ClusterStatus, Mark
from domain.conditions import Condition, ConditionType, Reason
from domain.contracts import activities as names
from domain.contracts.activities import ClusterRef, ClusterWait, JoinWait
from domain.diagnosis import Evidence, diagnose
from domain.machines import Machine, Phase
from domain.releases import Part, releases, releases_of
from domain.sites import Site
from store import Store

_ASK_MACHINE_EVERY = 5.0
"""Seconds between two questions to a machine that has not joined; its agent runs commands for each."""
_LOOK_EVERY = 0.5


class KubernetesActivities(Joining):
    """Effects and waits on the clusters of this worker's sites.

    Args:
        store: the store.
        reach: the way to each cluster's API servers.
        connect: a client for a site, with the platform's token.
        connect_as: a client for a site with another token (the cluster's own, which we test ourselves).
        clock: the time.
    """

    def __init__(
        self,
        store: Store,
        reach: ClusterReach,
        connect: Callable[[Site], Awaitable[ProxmoxClient]],
        connect_as: Callable[[Site, ApiToken], ProxmoxClient],
        clock: Callable[[], datetime],
    ) -> None:
        super().__init__(store, reach, clock)
        self._connect = connect
        self._connect_as = connect_as

    @activity.defn(name=names.AWAIT_API)
    async def await_api(self, wait: ClusterWait) -> None:
        """Waits until the first server's API answers on its own address.

        Effect: none outside; marks the cluster's API as answering.
        Key: the cluster.
        Done-when: `/livez` answers over TLS with the cluster's own authority.
        Final: the time limit has passed (the text says what the probe and the machine say).
        """
        cluster, machines = await self._load(wait.cluster_id)
        first = next(machine for machine in machines if machine.initialiser)
        client = await self._reach.at(cluster, first.address)

        async def look() -> str | None:
            try:
                await client.livez()
            except KubernetesError as error:
                return str(error)
            return None

        await self._until(look, wait.limit, cluster, first)
        await self._store.clusters.add_marks(cluster.id, Mark.API_ANSWERS)

    @activity.defn(name=names.AWAIT_JOINED)
    async def await_joined(self, wait: JoinWait) -> None:
        """Waits until the machine's node has registered with its cluster.

        Effect: none outside; the machine's phase becomes Joined.
        Key: the machine.
        Done-when: a Node of the machine's name exists.
        Final: the time limit has passed, or the machine itself says something that waiting does not mend.
        """
        cluster, machines = await self._load(wait.cluster_id)
        machine = _one(machines, wait.machine_id)

        async def look() -> str | None:
            try:
                client = await self._reach.any(cluster, machines)
                found = await client.find(f"{node_facts.NODES}/{machine.name}")
            except KubernetesError as error:
                return str(error)
            return None if found is not None else ""

        await self._until(look, wait.limit, cluster, machine)
        await self._store.machines.advance(machine.id, Phase.JOINED)
        await self._store.machines.note(machine.id, "")

    @activity.defn(name=names.AWAIT_READY)
    async def await_ready(self, wait: JoinWait) -> None:
        """Waits until the machine's node is Ready and initialised by the cloud controller.

        Effect: none outside; conditions say what it waits for.
        Key: the machine.
        Done-when: Ready is true, a provider id is set and the uninitialised taint is gone.
        Final: the time limit has passed.
        """
        cluster, machines = await self._load(wait.cluster_id)
        machine = _one(machines, wait.machine_id)
        tested = 0.0

        async def look() -> str | None:
            nonlocal tested
            try:
                client = await self._reach.any(cluster, machines)
                node = await client.find(f"{node_facts.NODES}/{machine.name}")
            except KubernetesError as error:
                return str(error)
            if node is None:
                return f"node {machine.name} is not registered"
            if not node_facts.ready(node):
                why = f"node {machine.name} is not Ready: {node_facts.not_ready_because(node)}"
                network = await self._network_trouble(cluster, client)
                return await self._silence_told(cluster, machine) or f"{why} {network}".rstrip()
            if not node_facts.initialised(node):
                now = asyncio.get_running_loop().time()
                if now - tested > _ASK_MACHINE_EVERY:
                    tested = now
                    await self._test_token(cluster, machines)
                return await self._why_uninitialised(cluster, machine)
            return None

        await self._until(look, wait.limit, cluster, machine, ask_machine=False)
        await self._store.machines.note(machine.id, "")

    @activity.defn(name=names.SET_TAINTS)
    async def set_taints(self, ref: ClusterRef) -> None:
        """Keeps workloads off the servers when there are workers, and lets them run there when there are none.

        Effect: the control-plane taint on every server's Node (F-049).
        Key: the Node and its resourceVersion.
        Done-when: every server's Node has, or has not, the taint.
        Final: none; a refused write is tried again.
        """
        cluster, machines = await self._load(ref.cluster_id)
        client = await self._reach.any(cluster, machines)
        wanted = cluster.spec.workers > 0
        for machine in machines:
            if not machine.is_server:
                continue
            node = await client.get(f"{node_facts.NODES}/{machine.name}")
            changed = node_facts.with_control_plane_taint(node, wanted)
            if changed is not None:
                version = node["metadata"]["resourceVersion"]
                body = {"metadata": {"resourceVersion": version}, "spec": {"taints": changed or None}}
                await client.patch(f"{node_facts.NODES}/{machine.name}", body)
                await journal.log(f"{machine.name}: control-plane taint {'set' if wanted else 'taken off'}")
        await self._store.clusters.add_marks(cluster.id, Mark.TAINTS)

    @activity.defn(name=names.CLOUD_CONTROLLER_SECRET)
    async def cloud_controller_secret(self, ref: ClusterRef) -> None:
        """Gives the cloud controller its configuration, with the cluster's own token.

        Effect: Secret `kube-system/proxmox-cloud-controller-manager`.
        Key: the Secret's name; server-side apply under our field manager.
        Done-when: the Secret holds exactly this configuration.
        Final: none.
        """
        cluster, machines = await self._load(ref.cluster_id)
        site = await self._store.sites.get(cluster.site_id)
        wanted = cloud_config(site, await self._cluster_token(cluster))
        client = await self._reach.any(cluster, machines)
        path = f"/api/v1/namespaces/{NAMESPACE}/secrets/{SECRET}"
        if _configuration(await client.find(path)) == wanted:
            return
        await client.apply(
            path,
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": SECRET, "namespace": NAMESPACE},
                "type": "Opaque",
                "stringData": {CONFIG_KEY: wanted},
            },
        )

    @activity.defn(name=names.AWAIT_AVAILABLE)
    async def await_available(self, wait: ClusterWait) -> None:
        """Waits until the cluster is Available, through its virtual IP.

        Effect: none outside; conditions, status and the Available mark.
        Key: the cluster.
        Done-when: the API answers at the virtual IP, every wanted node is Ready, initialised and at its version, and
            the DaemonSets of what we installed are ready on all of them.
        Final: the time limit has passed.
        """
        cluster, machines = await self._load(wait.cluster_id)

        async def look() -> str | None:
            try:
                client = await self._reach.through_endpoint(cluster)
                listed = (await client.get(node_facts.NODES))["items"]
            except KubernetesError as error:
                return f"the API at the virtual IP: {error}"
            known = {node_facts.name(node): node for node in listed}
            for machine in machines:
                node = known.get(machine.name)
                if node is None:
                    return f"node {machine.name} is not registered"
                if not node_facts.ready(node):
                    return f"node {machine.name} is not Ready: {node_facts.not_ready_because(node)}"
                if not node_facts.initialised(node):
                    return f"node {machine.name} is not initialised by the cloud controller"
                if node_facts.kubelet_version(node) != machine.version:
                    return f"node {machine.name} runs {node_facts.kubelet_version(node)}, wanted {machine.version}"
            try:
                return await release_unready(client, releases(cluster.spec)) or None
            except KubernetesError as error:
                return f"the add-ons cannot be looked at: {error}"

        await self._until(look, wait.limit, cluster, None, ask_machine=False)
        kinds = [
            ConditionType.CONTROL_PLANE_READY,
            ConditionType.WORKERS_READY,
            ConditionType.POD_NETWORK_READY,
            ConditionType.CLOUD_CONTROLLER_READY,
            ConditionType.AVAILABLE,
        ]
        if cluster.spec.kube_proxy_replacement:
            kinds.append(ConditionType.KUBE_PROXY_REPLACEMENT_READY)
        for kind in kinds:
            await self._store.clusters.set_condition(cluster.id, Condition(type=kind, status=True, reason=Reason.READY))
        await self._store.clusters.set_status(cluster.id, ClusterStatus.AVAILABLE)
        await self._store.clusters.add_marks(cluster.id, Mark.AVAILABLE)

    async def _until(
        self,
        look: Callable[[], Awaitable[str | None]],
        limit: float,
        cluster: Cluster,
        machine: Machine | None,
        *,
        ask_machine: bool = True,
    ) -> None:
        """Looks until `look` returns None; an answer text is why not yet. Notes what is waited for where it shows.

        Raises:
            ApplicationError: `JoinFailed` when the machine says that waiting is no use, `TimedOut` at the limit.
        """
        loop = asyncio.get_running_loop()
        begun = activity.info().scheduled_time
        asked, why, noted = loop.time(), "", ""
        told: Evidence | None = None
        while True:
            met = await look()
            if met is None:
                return
            waited = (self._clock() - begun).total_seconds()
            why = met or why
            if ask_machine and machine is not None and (loop.time() - asked > _ASK_MACHINE_EVERY or waited > limit):
                asked = loop.time()
                told = await self._evidence(cluster, machine, met, told)
                finding = diagnose(told, waited)
                why = finding.text
                if finding.final:
                    await self._store.machines.note(machine.id, why)
                    raise ApplicationError(f"{machine.name} cannot join. {why}", type="JoinFailed", non_retryable=True)
            if why and why != noted:
                noted = why
                if machine is not None:
                    await self._store.machines.note(machine.id, why)
                journal.heartbeat(why)
            if waited > limit:
                about = machine.name if machine is not None else cluster.name
                raise ApplicationError(
                    f"{about}: still not there after {waited:.0f} s. {why}", type="TimedOut", non_retryable=True
                )
            await asyncio.sleep(_LOOK_EVERY)

    async def _evidence(self, cluster: Cluster, machine: Machine, met: str, before: Evidence | None) -> Evidence:
        silent = await self._silent_virtual_ip(cluster, machine)
        return await self._asked(cluster, machine, met, silent, before)

    async def _asked(
        self, cluster: Cluster, machine: Machine, met: str, silent: str, before: Evidence | None = None
    ) -> Evidence:
        """What the machine itself says, now."""
        site = await self._store.sites.get(cluster.site_id)
        current = await self._store.machines.get(machine.id)
        return await gather(await self._connect(site), current, cluster.spec.distribution, met, silent, before)

    async def _silence_told(self, cluster: Cluster, machine: Machine) -> str:
        """Why the virtual IP is silent. Its kubelet asks its own API server, so a server can register without it; the
        pod network's programs, and every other machine, cannot do without."""
        silent = await self._silent_virtual_ip(cluster, machine)
        return diagnose(await self._asked(cluster, machine, "", silent), 0).text if silent else ""

    async def _silent_virtual_ip(self, cluster: Cluster, machine: Machine) -> str:
        """What a probe of the virtual IP meets while this server's own API answers; empty where that is not so."""
        if not machine.is_server:
            return ""
        try:
            await (await self._reach.at(cluster, machine.address)).livez()
        except KubernetesError:
            return ""
        try:
            await (await self._reach.through_endpoint(cluster)).livez()
        except KubernetesError as error:
            return str(error)
        return ""

    async def _network_trouble(self, cluster: Cluster, client: KubernetesClient) -> str:
        """Why the pod network that we installed is not ready; kept as its condition. Empty where nothing is wrong."""
        ours = releases_of(cluster.spec, Part.POD_NETWORK)
        try:
            text = await release_unready(client, ours)
        except KubernetesError:
            return ""
        if ours:
            # Ready with no text: each node's own pod runs, and its kubelet has not noticed yet.
            condition = Condition(
                type=ConditionType.POD_NETWORK_READY,
                status=not text,
                reason=Reason.WAITING if text else Reason.READY,
                message=text,
            )
            await self._store.clusters.set_condition(cluster.id, condition)
        return text

    async def _test_token(self, cluster: Cluster, machines: Sequence[Machine]) -> None:
        """Tests the cluster's own token: nothing in the Kubernetes API ever tells that it is wrong.

        It must list every machine of the cluster (facts/proxmox-addons.md B); the finding becomes a condition.
        """
        site = await self._store.sites.get(cluster.site_id)
        reason, message = Reason.UNINITIALISED, "The cloud controller has not initialised every node yet."
        client = self._connect_as(site, await self._cluster_token(cluster))
        try:
            rows = await client.get("/cluster/resources", type="vm")
            seen = {int(row["vmid"]) for row in rows}
            hidden = [m.name for m in machines if m.phase.reached(Phase.STARTED) and m.vmid not in seen]
            if hidden:
                reason = Reason.TOKEN_REFUSED
                message = (
                    f"The cluster's token does not see {', '.join(hidden)}: it needs VM.Audit on the cluster's pool, "
                    "and nodes stay uninitialised until it has it."
                )
        except Refused:
            reason = Reason.TOKEN_REFUSED
            message = (
                "Proxmox VE refuses the cluster's own token, so its cloud controller cannot initialise nodes. "
                "Was it deleted or changed by hand? Abort the job and delete the cluster, or restore the token."
            )
        except ProxmoxError as error:
            message = f"The cluster's token cannot be tested: {error}"
        finally:
            with contextlib.suppress(ProxmoxError):
                await client.aclose()
        await self._store.clusters.set_condition(
            cluster.id,
            Condition(type=ConditionType.CLOUD_CONTROLLER_READY, status=False, reason=reason, message=message),
        )

    async def _why_uninitialised(self, cluster: Cluster, machine: Machine) -> str:
        current = await self._store.clusters.get(cluster.id)
        told = [c.message for c in current.conditions if c.type is ConditionType.CLOUD_CONTROLLER_READY and c.message]
        return f"node {machine.name} is Ready and not initialised. {told[0] if told else ''}".rstrip()

    async def _cluster_token(self, cluster: Cluster) -> ApiToken:
        raw = (await self._store.secrets.get(f"cluster/{cluster.id}", "proxmox-token")).decode()
        token_id, _, secret = raw.partition("=")
        return ApiToken(token_id, secret)


def _configuration(secret: dict[str, Any] | None) -> str | None:
    """The configuration that a Secret holds, None where there is none that can be read."""
    try:
        coded = ((secret or {}).get("data") or {})[CONFIG_KEY]
        return base64.b64decode(coded, validate=True).decode()
    except (KeyError, ValueError):
        return None


def _one(machines: Sequence[Machine], machine_id: str) -> Machine:
    for machine in machines:
        if machine.id == machine_id:
            return machine
    raise ApplicationError("The machine is no longer recorded.", type="NotOurs", non_retryable=True)
