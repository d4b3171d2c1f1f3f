"""Looking at etcd: real etcd servers for kubeadm, node objects for k3s and RKE2."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from temporalio.testing import ActivityEnvironment

from activities.kubernetes.etcd import EtcdActivities, EtcdLooks
from activities.kubernetes.reach import ClusterReach
from clients.kubernetes import Unreachable
from domain.clusters import Cluster, Cni, Distribution, Mark
from domain.conditions import Condition, ConditionType, Reason
from domain.contracts.activities import ClusterRef, Handle
from domain.etcd import EtcdSource
from domain.machines import Machine, Phase, drafts, identities
from store import SecretKey, Store, migrate, open_store
from tests.etcd_servers import Servers, free_addresses, servers
from tests.store.builders import site, spec


def now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    url = f"sqlite+aiosqlite:///{tmp_path}/store.db"
    await migrate(url)
    opened = open_store(url, SecretKey.generate(), clock=now)
    await opened.sites.add(site())
    yield opened
    await opened.close()


async def a_cluster(store: Store, addresses: list[str], **changes: Any) -> tuple[Cluster, list[Machine]]:
    """A cluster of servers alone at these addresses, Ready and in the order of their addresses."""
    given = spec()
    network = given.network.model_copy(
        update={"addresses": tuple(addresses), "prefix": 24, "gateway": f"{addresses[0].rpartition('.')[0]}.254"}
    )
    wanted = given.model_copy(update={"control_planes": len(addresses), "pools": (), "network": network, **changes})
    cluster = await store.clusters.create(wanted, "site-lab", "pat")
    made = await store.machines.reserve(cluster.id, drafts(wanted, cluster.id, [], identities(cluster.id, 0)))
    for machine in made:
        await store.machines.advance(machine.id, Phase.READY)
    await store.clusters.add_marks(cluster.id, Mark.API_ANSWERS)
    return cluster, sorted(await store.machines.of_cluster(cluster.id), key=lambda one: addresses.index(one.address))


async def condition(store: Store, cluster: Cluster) -> Condition:
    found = await store.clusters.get(cluster.id)
    return next(one for one in found.conditions if one.type is ConditionType.ETCD_HEALTHY)


def looks_at(store: Store) -> EtcdLooks:
    return EtcdLooks(store, ClusterReach(store, now), now)


async def ask(looks: EtcdLooks, cluster: Cluster, job_id: str = "run-1") -> Handle:
    ref = ClusterRef(job_id=job_id, cluster_id=cluster.id, site_id=cluster.site_id)
    handle: Handle = await ActivityEnvironment().run(EtcdActivities(looks).look_at_etcd, ref)
    return handle


class Running:
    """A kubeadm cluster in the store whose servers' etcd is real."""

    def __init__(self, etcd: Servers, store: Store, cluster: Cluster, machines: list[Machine]) -> None:
        self.etcd, self.store, self.cluster, self.machines = etcd, store, cluster, machines
        self.looks = looks_at(store)

    async def wait_for(self, reason: Reason, words: str) -> Condition:
        """Looks until the condition has this reason and says these words: etcd needs a moment to notice a death."""
        async with asyncio.timeout(30):
            while True:
                await ask(self.looks, self.cluster)
                told = await condition(self.store, self.cluster)
                if told.reason is reason and words in told.message:
                    return told


async def running(tmp_path: Path, store: Store, count: int, first: int) -> AsyncIterator[Running]:
    """`count` machines, of which `first` run etcd from the start. The members are called like the machines."""
    wanted = {"distribution": Distribution.KUBEADM, "version": "v1.36.3", "cni": Cni.CALICO}
    # The names of machines follow from the cluster's id, so the cluster is made before its etcd.
    addresses = free_addresses(count)
    cluster, machines = await a_cluster(store, addresses, **wanted)
    async with servers(tmp_path, [one.name for one in machines], first=first, addresses=addresses) as etcd:
        kept = etcd.authorities.to_json().encode()
        await store.secrets.put_new(f"cluster/{cluster.id}", "authorities", kept)
        yield Running(etcd, store, cluster, machines)


@pytest.fixture
async def three(tmp_path: Path, store: Store) -> AsyncIterator[Running]:
    async for made in running(tmp_path, store, 3, 3):
        yield made


@pytest.fixture
async def one_of_two(tmp_path: Path, store: Store) -> AsyncIterator[Running]:
    async for made in running(tmp_path, store, 2, 1):
        yield made


async def test_three_servers_are_seen_and_told_in_one_sentence(three: Running) -> None:
    assert await ask(three.looks, three.cluster) == Handle(done=True, pause=2.0)
    told = await condition(three.store, three.cluster)
    leader = await three.etcd.leader()
    assert (told.status, told.reason) == (True, Reason.READY)
    assert told.message.startswith(f"3 of 3 members healthy, leader {leader}, ")
    assert told.message.endswith(" of 2 GiB used")
    view = (await three.store.clusters.get(three.cluster.id)).etcd
    assert view is not None
    assert {one.name for one in view.members} == {one.name for one in three.machines}
    assert (view.source, view.job_id, view.silent) == (EtcdSource.GATEWAY, "run-1", "")
    assert set(view.servers) == {one.id for one in three.machines}


async def test_a_second_look_writes_nothing_and_a_look_by_the_way_keeps_the_jobs_name(three: Running) -> None:
    await ask(three.looks, three.cluster)
    before = await three.store.clusters.get(three.cluster.id)
    changes = await three.store.feed.changes_after(0)
    await ask(three.looks, three.cluster)
    assert await three.looks.round(three.cluster.site_id) is False
    assert await three.store.clusters.get(three.cluster.id) == before
    assert await three.store.feed.changes_after(0) == changes


async def test_dead_members_are_named_with_why_and_nothing_is_raised(three: Running) -> None:
    names = [one.name for one in three.machines]
    assert await three.looks.round(three.cluster.site_id) is False
    three.etcd.kill(names[2])
    assert await three.looks.round(three.cluster.site_id, ill_only=True) is False, "as far as was seen, all is well"
    told = await three.wait_for(Reason.ETCD_DEGRADED, f"{names[2]} does not work: ")
    assert await three.looks.round(three.cluster.site_id, ill_only=True) is True
    assert told.message.startswith("2 of 3 members healthy")
    assert not (await ask(three.looks, three.cluster)).done
    three.etcd.kill(names[1])
    await three.wait_for(Reason.ETCD_NO_MAJORITY, f"{names[1]} does not work: ")
    three.etcd.kill(names[0])
    told = await three.wait_for(Reason.ETCD_UNREACHABLE, "does not answer")
    assert told.status is None


async def test_a_further_server_waits_for_the_learner_before_it(one_of_two: Running) -> None:
    first, second = (one.name for one in one_of_two.machines)
    here = one_of_two.etcd
    async with httpx.AsyncClient(verify=here.identity.context(), trust_env=False) as http:
        body = {"peerURLs": [here.peer_url(second)], "isLearner": True}
        (await http.post(f"https://{here.addresses[first]}:2379/v3/cluster/member/add", json=body)).raise_for_status()
    # Ready in the store, a learner without a name in etcd: it belongs to the machine by its address.
    answer = await ask(one_of_two.looks, one_of_two.cluster)
    assert not answer.done
    assert "does not vote" in answer.waiting_for
    here.start(second, [first, second], joining=True)
    async with here.client(first, step=0.5) as client:
        (learner,) = [one for one in await client.members() if one.learner]
        await client.promote(learner.id)
    await here.ready()
    assert (await ask(one_of_two.looks, one_of_two.cluster)).done
    assert (await condition(one_of_two.store, one_of_two.cluster)).status is True


class FakeApi:
    """The nodes of a k3s or RKE2 cluster."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.asked: list[dict[str, str]] = []
        self.away = ""

    async def get(self, path: str, **query: str) -> dict[str, Any]:
        self.asked.append(query)
        return {"items": self.nodes}

    async def any(self, cluster: Cluster, machines: Any) -> "FakeApi":
        if self.away:
            raise Unreachable(self.away)
        return self


def node(name: str, status: str, reason: str, *, ready: str = "True", annotations: Any = None) -> dict[str, Any]:
    said = [{"type": "Ready", "status": ready, "message": "the kubelet's words"}]
    if status:
        said.append({"type": "EtcdIsVoter", "status": status, "reason": reason, "message": f"why: {reason}"})
    return {"metadata": {"name": name, "annotations": annotations}, "status": {"conditions": said}}


@pytest.fixture
async def by_nodes(store: Store) -> tuple[FakeApi, EtcdLooks, Cluster, list[Machine]]:
    api = FakeApi()
    cluster, machines = await a_cluster(store, ["192.0.2.51", "192.0.2.52"])
    return api, EtcdLooks(store, api, now), cluster, machines  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (("True", "MemberNotLearner"), ""),
        (("False", "MemberIsLearner"), "does not vote in etcd yet"),
        (("False", "NotAMember"), "is not a member of etcd"),
        (("False", "Unhealthy"), "does not work: why: Unhealthy"),
        (("Unknown", "NodeStatusUnknown"), "does not work"),
        (("", ""), "has not said yet"),
    ],
)
async def test_k3s_and_rke2_are_read_from_their_nodes(by_nodes, second, why) -> None:
    api, looks, cluster, machines = by_nodes
    names = [one.name for one in machines]
    api.nodes = [node(names[0], "True", "MemberNotLearner"), node(names[1], *second)]
    answer = await ask(looks, cluster)
    assert answer.done is not bool(why)
    assert why in answer.waiting_for
    assert api.asked == [{"labelSelector": "node-role.kubernetes.io/etcd=true"}]


async def test_a_voter_whose_node_is_silent_is_ill(by_nodes, store: Store) -> None:
    api, looks, cluster, machines = by_nodes
    first, second = (one.name for one in machines)
    api.nodes = [node(first, "True", "MemberNotLearner"), node(second, "True", "MemberNotLearner", ready="Unknown")]
    await ask(looks, cluster)
    told = await condition(store, cluster)
    assert told.reason is Reason.ETCD_NO_MAJORITY
    assert f"{second} does not work: its node is not Ready: the kubelet's words" in told.message


async def test_a_member_that_was_removed_no_longer_counts(by_nodes, store: Store) -> None:
    api, looks, cluster, machines = by_nodes
    first, second = (one.name for one in machines)
    gone = {f"etcd.{cluster.spec.distribution}.cattle.io/removed-node-name": second}
    api.nodes = [node(first, "True", "MemberNotLearner"), node(second, "True", "MemberNotLearner", annotations=gone)]
    await ask(looks, cluster)
    assert (await condition(store, cluster)).message.startswith("1 of 1 members healthy; ")


async def test_an_api_that_is_away_makes_etcd_unknown(by_nodes, store: Store) -> None:
    api, looks, cluster, _ = by_nodes
    api.away = "nothing answers"
    assert (await ask(looks, cluster)).done, "all have joined: nothing is done to etcd any more"
    told = await condition(store, cluster)
    assert (told.status, told.reason) == (None, Reason.ETCD_UNREACHABLE)
    assert "nothing answers" in told.message
