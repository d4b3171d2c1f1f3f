"""kubeadm's join token is there while machines join, is renewed in time, and is gone afterwards."""

import base64
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from temporalio.testing import ActivityEnvironment

from activities.kubernetes.joining import OPEN_UNTIL, TOKEN_LIFE, Joining
from activities.kubernetes.reach import ClusterReach
from bootstrap import tokens
from bootstrap.bootstrap_token import secret_path
from clients.kubernetes import Identity, KubernetesClient
from domain.clusters import Cni, Distribution, Mark
from domain.contracts.activities import ClusterRef
from domain.sites import Site
from store import SecretKey, Store, migrate, open_store
from tests.bootstrap.examples import SeededRandomness
from tests.contract.backend import Double
from tests.domain.builders import spec

TOKENS = tokens.make(SeededRandomness("joining"))


@dataclass
class World:
    store: Store
    client: KubernetesClient
    ref: ClusterRef
    now: datetime = datetime(2026, 12, 1, tzinfo=UTC)

    async def any(self, cluster: object, machines: object) -> KubernetesClient:
        """As the way to the cluster's API."""
        return self.client

    async def run(self, name: str) -> None:
        joining = Joining(self.store, cast(ClusterReach, self), lambda: self.now)
        await ActivityEnvironment().run(getattr(joining, name), self.ref)

    async def secret(self) -> dict[str, Any] | None:
        return await self.client.find(secret_path(TOKENS.bootstrap))

    async def marked(self) -> bool:
        return Mark.JOINING_OPEN in (await self.store.clusters.get(self.ref.cluster_id)).marks


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    double = Double()
    await double.start()
    both = double.clients.issue("trilithon", ("system:masters",)).decode()
    border = both.index("-----BEGIN PRIVATE KEY")
    client = KubernetesClient(double.url, Identity(double.server_ca.decode(), both[:border], both[border:]))
    url = f"sqlite+aiosqlite:///{tmp_path}/store.db"
    await migrate(url)
    store = open_store(url, SecretKey.generate(), clock=lambda: datetime.now(UTC))
    site = Site(
        id="site-1", name="lab", endpoints=("https://192.0.2.1:8006",), token_id="a@pve!b", workload_pool="w",
        template_pool="t", bridges=("vmbr0",), storages=("shared",), iso_storage="iso",
    )  # fmt: skip
    await store.sites.add(site)
    wanted = spec(1, (1,), distribution=Distribution.KUBEADM, version="v1.36.3", cni=Cni.CILIUM)
    cluster = await store.clusters.create(wanted, site.id, "ada@pve")
    await store.secrets.put(f"cluster/{cluster.id}", "tokens", TOKENS.to_json().encode())
    yield World(store, client, ClusterRef(job_id="", cluster_id=cluster.id, site_id=site.id))
    await client.aclose()
    await store.close()
    await double.stop()


def ends(secret: dict[str, Any] | None) -> datetime:
    assert secret is not None
    return datetime.fromisoformat(base64.b64decode(secret["data"]["expiration"]).decode().replace("Z", "+00:00"))


async def test_the_door_opens_stays_and_shuts(world: World) -> None:
    await world.run("open_joining")
    first = await world.secret()
    assert ends(first) == world.now + TOKEN_LIFE
    assert await world.marked()
    kept = await world.store.secrets.get(f"cluster/{world.ref.cluster_id}", OPEN_UNTIL)
    assert datetime.fromisoformat(kept.decode()) == ends(first)
    await world.run("open_joining")
    assert await world.secret() == first
    for _ in range(2):
        await world.run("close_joining")
        assert await world.secret() is None
        assert not await world.marked()


async def test_a_token_that_soon_ends_is_renewed(world: World) -> None:
    await world.run("open_joining")
    world.now += TOKEN_LIFE - timedelta(minutes=30)
    await world.run("open_joining")
    assert ends(await world.secret()) == world.now + TOKEN_LIFE


async def test_a_secret_that_is_not_ours_is_put_right(world: World) -> None:
    await world.run("open_joining")
    data = {"token-secret": base64.b64encode(b"0123456789abcdef").decode()}
    await world.client.patch(secret_path(TOKENS.bootstrap), {"data": data})
    await world.run("open_joining")
    found = await world.secret()
    assert found is not None
    assert TOKENS.bootstrap.endswith(base64.b64decode(found["data"]["token-secret"]).decode())
