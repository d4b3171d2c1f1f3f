"""A small world in memory that stands in for store, Proxmox VE and Kubernetes: activities faked by their wire names.

The planner is the real one. Each fake writes down that it ran; `hold` makes one wait, `fail` makes one fail.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError

from domain.clusters import Cluster, ClusterSpec, Distribution, Mark, NetworkSpec, Outcome, WorkerPool
from domain.contracts import activities as names
from domain.contracts.activities import (
    BeginJob,
    ClusterRef,
    FinishJob,
    Handle,
    JobState,
    MachineRef,
    PlanAnswer,
    PlanRequest,
    ReportJob,
    StepOrder,
    TaskOutcome,
    TaskRef,
)
from domain.etcd import EtcdMember, EtcdView
from domain.jobs import JobKind
from domain.machines import Machine, Phase, drafts, identities
from domain.plan import StepKind, plan

MARKS = {
    names.ENSURE_POOL: Mark.POOL,
    names.ENSURE_USER: Mark.USER,
    names.ENSURE_TOKEN: Mark.TOKEN,
    names.GRANT_RIGHTS: Mark.RIGHTS,
    names.MAKE_AUTHORITIES: Mark.AUTHORITIES,
    names.AWAIT_API: Mark.API_ANSWERS,
    names.INSTALL_CLOUD_CONTROLLER: Mark.CLOUD_CONTROLLER,
    names.SET_TAINTS: Mark.TAINTS,
    names.AWAIT_AVAILABLE: Mark.AVAILABLE,
    names.REVOKE_TOKEN: Mark.TOKEN_REVOKED,
    names.DELETE_USER: Mark.USER_DELETED,
    names.REVOKE_RIGHTS: Mark.RIGHTS_REVOKED,
    names.DELETE_POOL: Mark.POOL_DELETED,
}
PHASES = {
    names.PLACE_MACHINE: Phase.PLACED,
    names.CLONE_MACHINE: Phase.CLONED,
    names.RESIZE_DISK: Phase.CONFIGURED,
    names.ATTACH_SEED: Phase.SEEDED,
    names.START_MACHINE: Phase.STARTED,
    names.AWAIT_JOINED: Phase.JOINED,
    names.DELETE_SEED: Phase.READY,
}
WAITS = (names.AWAIT_API, names.AWAIT_JOINED, names.AWAIT_READY, names.AWAIT_AVAILABLE)


def spec(name: str = "prod", servers: int = 1, workers: int = 1) -> ClusterSpec:
    """A small valid cluster."""
    return ClusterSpec(
        name=name,
        distribution=Distribution.K3S,
        version="v1.36.5+k3s1",
        control_planes=servers,
        pools=(WorkerPool(name="md-0", replicas=workers),) if workers else (),
        endpoint="127.80.1.50",
        network=NetworkSpec(
            bridge="vmbr0",
            addresses=("127.80.1.51-127.80.1.69",),
            prefix=16,
            gateway="127.80.0.1",
            dns_servers=("127.80.0.1",),
        ),
        storage="shared",
    )


class World:
    """One cluster and what was done to it."""

    def __init__(self, cluster_spec: ClusterSpec | None = None, *, deleting: bool = False) -> None:
        self.cluster = Cluster(id="c1", namespace="clusters", name="prod", site_id="s1", spec=cluster_spec or spec())
        if deleting:
            self.request_deletion()
        self.machines: dict[str, Machine] = {}
        self.exists = True
        self.epoch = 1
        self.calls: list[tuple[str, str]] = []
        self.reports: list[ReportJob] = []
        self.finished: list[FinishJob] = []
        self.begun: list[BeginJob] = []
        self.holds: dict[str, asyncio.Event] = {}
        self.failures: dict[str, list[Exception]] = {}
        self.clones_waited: set[str] = set()
        self.refusals: list[Handle] = []
        self.etcd: EtcdView | None = None
        """What the planner is told of etcd; None: nobody looks (see `watch_etcd`)."""
        self.etcd_lacks: list[str] = []
        self.moved = asyncio.Condition()

    # --- what a test says ---

    def request_deletion(self) -> None:
        self.cluster = self.cluster.model_copy(
            update={"generation": self.cluster.generation + 1, "deletion_requested_at": "2026-01-01T00:00:00Z"}
        )

    def watch_etcd(self, *lacks: str) -> None:
        """From now on servers wait for a look at etcd; the first looks find that it lacks these things."""
        self.etcd, self.etcd_lacks = EtcdView(), list(lacks)

    def hold(self, activity_name: str) -> asyncio.Event:
        """Makes every run of an activity wait until the returned event is set."""
        return self.holds.setdefault(activity_name, asyncio.Event())

    def fail(self, activity_name: str, *errors: Exception) -> None:
        """Makes the next runs of an activity fail, one error each."""
        self.failures.setdefault(activity_name, []).extend(errors)

    async def until(self, met: Callable[[], bool], limit: float = 20.0) -> None:
        """Wait until something is true; looked at after every fake's run."""
        async with asyncio.timeout(limit), self.moved:
            await self.moved.wait_for(met)

    def ran(self, activity_name: str) -> int:
        return sum(1 for name, _ in self.calls if name == activity_name)

    def order(self) -> list[str]:
        return [f"{name} {who}".strip() for name, who in self.calls]

    # --- the fakes ---

    async def _pass(self, name: str, who: str) -> None:
        async with self.moved:
            self.calls.append((name, who))
            self.moved.notify_all()
        if name in self.holds:
            while not self.holds[name].is_set():
                activity.heartbeat()
                try:
                    await asyncio.wait_for(self.holds[name].wait(), 0.2)
                except TimeoutError:
                    continue
        if self.failures.get(name):
            raise self.failures[name].pop(0)

    def _state(self) -> JobState:
        c = self.cluster
        return JobState(generation=c.generation, deleting=c.deleting, exists=self.exists, epoch=self.epoch)

    async def _begin(self, begin: BeginJob) -> JobState:
        self.begun.append(begin)
        return self._state()

    async def _plan(self, request: PlanRequest) -> PlanAnswer:
        state = self._state()
        if not state.exists:
            return PlanAnswer(state=state, finished=request.kind is JobKind.DELETE)
        if state.epoch != request.epoch or state.deleting is not (request.kind is JobKind.DELETE):
            return PlanAnswer(state=state)
        found = plan(request.kind, self.cluster, list(self.machines.values()), set(request.busy), self.etcd)
        steps = tuple(
            StepOrder(
                kind=s.kind,
                machine_id=s.machine_id,
                name=s.name,
                summary=s.summary,
                permitted=s.kind is StepKind.CREATE_MACHINE
                and self.machines[s.machine_id].phase.reached(Phase.STARTED),
            )
            for s in found.steps
        )
        return PlanAnswer(state=state, steps=steps, finished=found.finished, waiting_for=found.waiting_for)

    async def _report(self, report: ReportJob) -> None:
        async with self.moved:
            self.reports.append(report)
            self.moved.notify_all()
        if names.REPORT_JOB in self.holds:
            await self.holds[names.REPORT_JOB].wait()

    async def _finish(self, finish: FinishJob) -> None:
        async with self.moved:
            self.finished.append(finish)
            done = finish.outcome is Outcome.DONE
            self.cluster = self.cluster.model_copy(
                update={
                    "outcome": finish.outcome,
                    "outcome_generation": finish.generation,
                    "settled_generation": finish.generation if done else self.cluster.settled_generation,
                }
            )
            self.moved.notify_all()

    async def _reserve(self, ref: ClusterRef) -> None:
        await self._pass(names.RESERVE_MACHINES, "")
        ever = list(self.machines.values())
        for number, draft in enumerate(drafts(self.cluster.spec, "c1", ever, identities("c1", len(ever)))):
            self.machines[draft.id] = Machine(
                **draft.model_dump(), cluster_id="c1", vmid=20000 + number, address=f"127.80.1.{51 + number}"
            )
        self._mark(Mark.MACHINES_RESERVED)

    async def _look_at_etcd(self, ref: ClusterRef) -> Handle:
        await self._pass(names.LOOK_AT_ETCD, "")
        if self.etcd_lacks:
            return Handle(done=False, waiting_for=self.etcd_lacks.pop(0), pause=0.1)
        ready = [one for one in self.machines.values() if one.is_server and one.phase is Phase.READY]
        members = tuple(EtcdMember(id=one.id, name=one.name, healthy=True) for one in ready)
        self.etcd = EtcdView(members=members, leader=members[0].id, servers=tuple(one.id for one in ready))
        return Handle(done=True)

    async def _release(self, ref: MachineRef) -> None:
        await self._pass(names.RELEASE_MACHINE, ref.name)
        self._advance(ref.machine_id, Phase.GONE)

    async def _forget(self, ref: ClusterRef) -> None:
        await self._pass(names.FORGET_CLUSTER, "")
        self.exists = False

    async def _wait_task(self, ref: TaskRef) -> TaskOutcome:
        await self._pass(names.WAIT_TASK, ref.upid)
        self.clones_waited.add(ref.machine_id)
        return TaskOutcome(ok=True, exit_status="OK")

    def _mark(self, mark: Mark) -> None:
        self.cluster = self.cluster.model_copy(update={"marks": (*self.cluster.marks, mark)})

    def _advance(self, machine_id: str, phase: Phase) -> None:
        machine = self.machines[machine_id]
        if phase.reached(machine.phase):
            self.machines[machine_id] = machine.model_copy(update={"phase": phase})

    def _machine_fake(self, name: str) -> Callable[..., Any]:
        @activity.defn(name=name)
        async def fake(ref: MachineRef) -> Handle | None:
            await self._pass(name, ref.name)
            if name == names.PLACE_MACHINE and self.refusals:
                return self.refusals.pop(0)
            if name == names.CLONE_MACHINE and ref.machine_id not in self.clones_waited:
                return Handle(done=False, upid=f"UPID:{ref.name}")
            deleting = self.machines[ref.machine_id].phase.reached(Phase.DELETING) or self.cluster.deleting
            if name in PHASES and not deleting:
                self._advance(ref.machine_id, PHASES[name])
            return None if name in WAITS else Handle(done=True)

        return fake

    def _cluster_fake(self, name: str) -> Callable[..., Any]:
        @activity.defn(name=name)
        async def fake(ref: ClusterRef) -> Handle | None:
            await self._pass(name, "")
            if name in MARKS:
                self._mark(MARKS[name])
            return Handle(done=True) if name == names.DELETE_POOL else None

        return fake

    def activities(self) -> list[Callable[..., Any]]:
        """Every fake, to be given to a worker."""
        machine = {
            names.CONFIGURE_MACHINE,
            names.UPLOAD_SEED,
            names.DETACH_SEED,
            names.AWAIT_READY,
            names.STOP_MACHINE,
            names.DESTROY_MACHINE,
            *PHASES,
        }
        cluster = {names.CLOUD_CONTROLLER_SECRET, *MARKS}
        named = {
            names.BEGIN_JOB: self._begin,
            names.PLAN: self._plan,
            names.REPORT_JOB: self._report,
            names.FINISH_JOB: self._finish,
            names.RESERVE_MACHINES: self._reserve,
            names.RELEASE_MACHINE: self._release,
            names.LOOK_AT_ETCD: self._look_at_etcd,
            names.FORGET_CLUSTER: self._forget,
            names.WAIT_TASK: self._wait_task,
        }
        return [
            *(self._machine_fake(name) for name in sorted(machine)),
            *(self._cluster_fake(name) for name in sorted(cluster)),
            *(_defined(name, body) for name, body in named.items()),
        ]


def _defined(name: str, body: Callable[..., Any]) -> Callable[..., Any]:
    """A bound method as an activity of its own."""
    hints = dict(body.__annotations__)
    argument = next(key for key in hints if key != "return")

    async def fake(arg: Any) -> Any:
        return await body(arg)

    fake.__annotations__ = {"arg": hints[argument], "return": hints["return"]}
    return activity.defn(name=name)(fake)


def final(message: str, type_: str = "TemplateMissing") -> ApplicationError:
    """An error that no repetition mends."""
    return ApplicationError(message, type=type_, non_retryable=True)
