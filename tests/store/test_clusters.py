"""Clusters: names, generations, versions, the outbox."""

import asyncio

from domain.clusters import Cluster
from store import AlreadyExists, Store
from tests.store.builders import site, spec


async def test_create_and_read_back(store: Store) -> None:
    await store.sites.add(site())
    made = await store.clusters.create(spec(), "site-lab", "ada@pve")
    assert await store.clusters.get(made.id) == made
    assert await store.clusters.find("clusters", "prod") == made
    assert made.spec.model_fields_set == spec().model_fields_set


async def test_fifty_creates_of_one_name_make_one(store: Store) -> None:
    await store.sites.add(site())
    made = await asyncio.gather(
        *(store.clusters.create(spec(number=n), "site-lab", "ada@pve") for n in range(50)), return_exceptions=True
    )
    (winner,) = [cluster for cluster in made if isinstance(cluster, Cluster)]
    losers = [error for error in made if isinstance(error, AlreadyExists)]
    assert len(losers) == 49
    assert {error.existing_id for error in losers} == {winner.id}
    _, total = await store.clusters.page()
    assert total == 1
