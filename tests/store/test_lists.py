"""Lists cost a fixed number of queries, however long they are (their speed is measured in tests/perf)."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import event

from store import Store
from tests.store.builders import draft, site, spec


@contextmanager
def _statements(store: Store) -> Iterator[list[str]]:
    seen: list[str] = []

    def remember(_connection: object, _cursor: object, statement: str, *_more: object) -> None:
        seen.append(statement)

    engine = store.sites._database._engine.sync_engine
    event.listen(engine, "before_cursor_execute", remember)
    try:
        yield seen
    finally:
        event.remove(engine, "before_cursor_execute", remember)


async def test_a_page_costs_two_queries_and_its_machines_one(store: Store) -> None:
    await store.sites.add(site())
    for n in range(30):
        cluster = await store.clusters.create(spec(f"c{n:02}", number=n), "site-lab", "ada")
        await store.machines.reserve(cluster.id, [draft()])
    with _statements(store) as seen:
        clusters, total = await store.clusters.page(site_id="site-lab", text="c", limit=20)
    assert (len(clusters), total, len(seen)) == (20, 30, 2)
    with _statements(store) as seen:
        machines = await store.machines.of_clusters([cluster.id for cluster in clusters])
    assert (sum(map(len, machines.values())), len(seen)) == (20, 1)


async def test_a_reservation_costs_the_same_for_one_and_for_fifty(store: Store) -> None:
    await store.sites.add(site())
    cluster = await store.clusters.create(spec(), "site-lab", "ada")
    costs = []
    for count in (1, 50):
        with _statements(store) as seen:
            await store.machines.reserve(cluster.id, [draft() for _ in range(count)])
        costs.append(len(seen))
    assert costs[0] == costs[1]
