"""A locked, silent or absent database is one typed error, and nothing half-written stays behind."""

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import text

from domain.clusters import Cluster, Mark
from domain.jobs import Job, JobKind
from store import SecretKey, Store, StoreUnavailable, migrate, open_store
from store.database import WRITES, make_engine
from tests.store.builders import draft, site
from tests.store.conftest import Clock
from tests.store.postgres import PostgresServer, free_port


async def test_a_held_lock_is_unavailable_and_then_passes(
    url: str, store: Store, cluster: Cluster, clock: Clock
) -> None:
    hasty = open_store(url, SecretKey.generate(), clock=clock, busy_seconds=0.2)
    engine = make_engine(url)
    async with engine.execution_options(**{WRITES: True}).begin() as connection:
        await connection.execute(text("UPDATE clusters SET attempt = attempt"))
        with pytest.raises(StoreUnavailable):
            await hasty.clusters.add_marks(cluster.id, Mark.POOL)
        assert await hasty.clusters.get(cluster.id) == cluster
    await engine.dispose()
    await hasty.clusters.add_marks(cluster.id, Mark.POOL)
    assert (await hasty.clusters.get(cluster.id)).marks == (Mark.POOL,)
    await hasty.close()


async def test_writers_behind_a_held_lock_give_up_together(
    url: str, store: Store, cluster: Cluster, clock: Clock
) -> None:
    hasty = open_store(url, SecretKey.generate(), clock=clock, busy_seconds=0.5)
    engine = make_engine(url)
    async with engine.execution_options(**{WRITES: True}).begin() as connection:
        await connection.execute(text("UPDATE clusters SET attempt = attempt"))
        # One after the other they would need 50 x 0.5 s.
        async with asyncio.timeout(10):
            tried = await asyncio.gather(
                *(hasty.clusters.add_marks(cluster.id, Mark.POOL) for _ in range(50)), return_exceptions=True
            )
    assert {type(error) for error in tried} == {StoreUnavailable}
    await engine.dispose()
    await hasty.close()


async def test_an_absent_database(backend: str, tmp_path: Path, clock: Clock) -> None:
    url = f"postgresql+asyncpg://trilithon@127.0.0.1:{free_port()}/none"
    if backend == "sqlite":
        url = f"sqlite+aiosqlite:///{tmp_path}/no/such/folder/store.db"
    store = open_store(url, SecretKey.generate(), clock=clock, busy_seconds=1)
    with pytest.raises(StoreUnavailable):
        await store.sites.list()
    with pytest.raises(StoreUnavailable):
        await store.sites.add(site())
    with pytest.raises(StoreUnavailable):
        await migrate(url, busy_seconds=1)
    await store.close()


def _family(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(int(child) for child in children)]


@contextmanager
def _stopped(server: PostgresServer) -> Iterator[None]:
    processes = _family(server.pid)
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in reversed(processes):
            os.kill(process, signal.SIGCONT)


@pytest.mark.parametrize("backend", ["postgresql"], indirect=True)  # SQLite has no server that could fall silent
async def test_a_silent_server(postgres: PostgresServer, url: str, cluster: Cluster, clock: Clock) -> None:
    hasty = open_store(url, SecretKey.generate(), clock=clock, busy_seconds=0.5)
    assert await hasty.clusters.get(cluster.id) == cluster
    with _stopped(postgres):
        async with asyncio.timeout(20):
            with pytest.raises(StoreUnavailable):
                await hasty.clusters.get(cluster.id)
            with pytest.raises(StoreUnavailable):
                await hasty.clusters.add_marks(cluster.id, Mark.POOL)
    await hasty.clusters.add_marks(cluster.id, Mark.POOL)
    assert (await hasty.clusters.get(cluster.id)).marks == (Mark.POOL,)
    await hasty.close()


async def test_a_mistake_of_ours_is_not_hidden(empty_url: str, clock: Clock) -> None:
    store = open_store(empty_url, SecretKey.generate(), clock=clock)
    with pytest.raises(Exception, match="sites") as error:
        await store.sites.list()
    assert not isinstance(error.value, StoreUnavailable)
    await store.close()


_WRITER = """
import asyncio, sys
from datetime import UTC, datetime
from domain.machines import MachineDraft, Role
from store import SecretKey, open_store

async def main(url, cluster_id, number):
    store = open_store(url, SecretKey.generate(), clock=lambda: datetime.now(UTC), busy_seconds=60)
    print("ready", flush=True)
    sys.stdin.readline()
    for n in range(10):
        name = f"w{number}-{n}"
        draft = MachineDraft(id=name, name=name, role=Role.WORKER, pool="md-0", version="v1", cores=1, memory_mib=1,
            disk_gib=1, mac=f"02:00:00:01:{number:02x}:{n:02x}", bios_uuid=name)
        (machine,) = await store.machines.reserve(cluster_id, [draft])
        await store.jobs.append_log("run-1", name)
        await store.machines.take("shared")
        print(machine.vmid, machine.address, flush=True)
    await store.close()

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


async def test_processes_share_one_database(store: Store, url: str, cluster: Cluster) -> None:
    await store.jobs.begin(Job(id="run-1", workflow_id="w", kind=JobKind.CREATE, cluster_id=cluster.id))
    await store.machines.reserve(cluster.id, [draft("shared").model_copy(update={"id": "shared"})])
    pipe = asyncio.subprocess.PIPE
    arguments = [sys.executable, "-c", _WRITER, url, cluster.id]
    writers = [
        await asyncio.create_subprocess_exec(*arguments, str(number), stdin=pipe, stdout=pipe) for number in range(2)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert await writer.stdout.readline() == b"ready\n"
    answers = await asyncio.gather(*(writer.communicate(b"go\n") for writer in writers))
    assert [writer.returncode for writer in writers] == [0, 0]
    given = [line.split() for out, _ in answers for line in out.decode().splitlines()]
    assert len({vmid for vmid, _ in given}) == len({address for _, address in given}) == 20
    assert [line.seq for line in await store.jobs.log_after("run-1")] == list(range(1, 21))
    assert (await store.machines.get("shared")).attempt == 20
    changes = await store.changes_after(0)
    assert [change.seq for change in changes] == list(range(1, len(changes) + 1))


async def test_a_cancelled_write_happens_wholly_or_not_at_all(store: Store, cluster: Cluster) -> None:
    """A worker is stopped anywhere: the next write must neither wait for ever nor find half a reservation."""
    for turns in range(0, 60, 3):
        writing = asyncio.create_task(store.machines.reserve(cluster.id, [draft(), draft()]))
        for _ in range(turns):
            await asyncio.sleep(0)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
    await store.machines.reserve(cluster.id, [draft()])
    machines = await store.machines.of_cluster(cluster.id)
    assert len(machines) % 2 == 1
    assert len({machine.address for machine in machines}) == len(machines)
    changes = await store.changes_after(0)
    assert len([change for change in changes if change.kind == "machine"]) == len(machines)


async def test_times_are_aware_and_in_utc(store: Store, cluster: Cluster, clock: Clock) -> None:
    assert cluster.created_at is not None
    assert cluster.created_at.tzinfo is UTC
    with pytest.raises(Exception, match="without a zone"):
        await store.clusters.record_attempt(cluster.id, datetime(2026, 1, 1))


async def test_the_epoch_goes_up(store: Store, another: Store) -> None:
    assert await store.epoch() == 1
    assert await another.raise_epoch() == 2
    assert await store.epoch() == 2
