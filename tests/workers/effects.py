"""Effects faked over the real store: what Proxmox VE and Kubernetes would have brought about is written as seen."""

import asyncio
from collections.abc import Callable
from typing import Any

from temporalio import activity

from activities import journal
from domain.contracts import activities as names
from domain.contracts.activities import ClusterRef, Handle, MachineRef, TaskOutcome, TaskRef
from domain.contracts.jobs import SiteInput
from domain.etcd import EtcdMember, EtcdView
from domain.machines import Phase
from store import Store
from tests.workflows.world import MARKS, PHASES, WAITS


class FakeEffects:
    """Every activity but `records.*`, over a store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.calls: list[tuple[str, str]] = []
        self._asked: set[tuple[str, str, str]] = set()
        self.holds: dict[str, asyncio.Event] = {}
        self.failures: dict[str, list[Exception]] = {}
        self._cloned: set[str] = set()

    def hold(self, name: str) -> asyncio.Event:
        return self.holds.setdefault(name, asyncio.Event())

    def ran(self, name: str) -> int:
        return sum(1 for called, _ in self.calls if called == name)

    def asked(self, name: str) -> int:
        """How often workflows asked for `name`; unlike `ran`, a second attempt on a slow machine does not count."""
        return sum(1 for called, *_ in self._asked if called == name)

    async def _pass(self, name: str, who: str) -> None:
        self.calls.append((name, who))
        info = activity.info()
        self._asked.add((name, str(info.workflow_run_id), info.activity_id))
        if name in self.holds:
            await self.holds[name].wait()
        if self.failures.get(name):
            raise self.failures[name].pop(0)
        await journal.log(f"{who or 'cluster'}: {name}")

    def _machine(self, name: str) -> Callable[..., Any]:
        @activity.defn(name=name)
        async def fake(ref: MachineRef) -> Handle | None:
            await self._pass(name, ref.name)
            if name == names.CLONE_MACHINE and ref.machine_id not in self._cloned:
                return Handle(done=False, upid=f"UPID:{ref.name}")
            machine = await self.store.machines.get(ref.machine_id)
            if name == names.STOP_MACHINE:
                await self.store.machines.advance(ref.machine_id, Phase.DELETING)
            elif name in PHASES and not machine.leaving and PHASES[name].reached(machine.phase):
                await self.store.machines.advance(ref.machine_id, PHASES[name])
            return None if name in WAITS else Handle(done=True)

        return fake

    def _cluster(self, name: str) -> Callable[..., Any]:
        @activity.defn(name=name)
        async def fake(ref: ClusterRef) -> Handle | None:
            await self._pass(name, "")
            if name in MARKS:
                await self.store.clusters.add_marks(ref.cluster_id, MARKS[name])
            return Handle(done=True) if name == names.DELETE_POOL else None

        return fake

    def activities(self) -> list[Callable[..., Any]]:
        machine = {
            names.CONFIGURE_MACHINE,
            names.UPLOAD_SEED,
            names.DETACH_SEED,
            names.AWAIT_READY,
            names.STOP_MACHINE,
            names.DESTROY_MACHINE,
            *PHASES,
        }
        cluster = {names.CLOUD_CONTROLLER_SECRET, *MARKS} - {names.MAKE_AUTHORITIES}

        @activity.defn(name=names.WAIT_TASK)
        async def wait_task(ref: TaskRef) -> TaskOutcome:
            await self._pass(names.WAIT_TASK, ref.upid)
            self._cloned.add(ref.machine_id)
            return TaskOutcome(ok=True, exit_status="OK")

        @activity.defn(name=names.LOOK_AT_ETCD)
        async def look_at_etcd(ref: ClusterRef) -> Handle:
            await self._pass(names.LOOK_AT_ETCD, "")
            machines = await self.store.machines.of_cluster(ref.cluster_id)
            ready = [one for one in machines if one.is_server and one.phase.reached(Phase.READY)]
            members = tuple(EtcdMember(id=one.id, name=one.name, healthy=True) for one in ready)
            view = EtcdView(
                members=members, leader=ready[0].id, servers=tuple(one.id for one in ready), job_id=ref.job_id
            )
            await self.store.clusters.set_etcd(ref.cluster_id, view)
            return Handle(done=True)

        @activity.defn(name=names.WATCH_SITE)
        async def watch_site(site: SiteInput) -> None:
            self.calls.append((names.WATCH_SITE, site.site_name))
            await asyncio.Event().wait()

        return [
            *(self._machine(name) for name in sorted(machine)),
            *(self._cluster(name) for name in sorted(cluster)),
            wait_task,
            look_at_etcd,
            watch_site,
        ]
