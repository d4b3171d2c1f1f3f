"""The store as workflows see it: the job's record, the plan, and what is reserved before the first outside effect."""

import secrets
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.kubernetes.joining import OPEN_UNTIL, TOKEN_LEAST
from bootstrap import authorities, tokens
from domain.clusters import Cluster, ClusterStatus, Mark, Outcome
from domain.conditions import Condition, ConditionType, Reason
from domain.contracts import activities as names
from domain.contracts.activities import (
    BeginJob,
    ClusterRef,
    FinishJob,
    JobState,
    MachineRef,
    PlanAnswer,
    PlanRequest,
    ReportJob,
    StepOrder,
)
from domain.etcd import EtcdView
from domain.jobs import Job, JobKind, JobPhase
from domain.machines import Machine, Phase, drafts, identities
from domain.plan import StepKind, plan
from store import Conflict, NoFreeAddress, NoFreeVmid, NotFound, Store

_DRAWS, _DRAW_APART = 4, 1000
"""How often machines are drafted anew when a drawn MAC is in use, and how far apart the draws' numbers lie."""


class RecordActivities:
    """Activities that touch nothing but the store.

    Args:
        store: the store.
        clock: the time.
    """

    def __init__(self, store: Store, clock: Callable[[], datetime]) -> None:
        self._store = store
        self._clock = clock

    @activity.defn(name=names.BEGIN_JOB)
    async def begin_job(self, begin: BeginJob) -> JobState:
        """Opens the job's record and says what the cluster looks like now.

        Effect: a row in jobs; condition JobPending becomes false.
        Key: the job's id, which is the workflow's run id.
        Done-when: the row exists.
        Final: never.
        """
        state = await self._state(begin.cluster_id)
        job = Job(
            id=begin.job_id,
            workflow_id=begin.workflow_id,
            kind=begin.kind,
            cluster_id=begin.cluster_id or None,
            site_id=begin.site_id or None,
            generation=state.generation,
            requested_by=await self._author(begin.cluster_id),
            started_at=self._clock(),
        )
        await self._store.jobs.begin(job)
        if begin.cluster_id and state.exists:
            cluster = await self._store.clusters.get(begin.cluster_id)
            if any(condition.type is ConditionType.JOB_PENDING for condition in cluster.conditions):
                await self._condition(cluster, ConditionType.JOB_PENDING, False, Reason.IN_PROGRESS)
        return state

    @activity.defn(name=names.PLAN)
    async def plan(self, request: PlanRequest) -> PlanAnswer:
        """Asks the planner for the next steps and keeps the cluster's status and conditions true.

        Effect: status and conditions of the cluster's row, where they differ.
        Key: the cluster; the planner is pure.
        Done-when: always looks afresh, since the rows may have changed.
        Final: never.
        """
        state = await self._state(request.cluster_id)
        if not state.exists:
            return PlanAnswer(state=state, finished=request.kind is JobKind.DELETE)
        if state.epoch != request.epoch or state.deleting is not (request.kind is JobKind.DELETE):
            return PlanAnswer(state=state, waiting_for="the job that the cluster now wants")
        cluster = await self._store.clusters.get(request.cluster_id)
        machines = await self._store.machines.of_cluster(cluster.id)
        etcd = _seen_by(request.job_id, cluster)
        found = plan(request.kind, await self._with_shut_door(cluster), machines, set(request.busy), etcd)
        by_id = {machine.id: machine for machine in machines}
        await self._keep_honest(cluster, machines, found.finished, found.waiting_for)
        return PlanAnswer(
            state=state,
            steps=tuple(
                StepOrder(
                    kind=step.kind,
                    machine_id=step.machine_id,
                    name=step.name,
                    summary=step.summary,
                    permitted=step.kind is StepKind.CREATE_MACHINE and _powered(by_id[step.machine_id]),
                )
                for step in found.steps
            ),
            finished=found.finished,
            waiting_for=found.waiting_for,
        )

    @activity.defn(name=names.REPORT_JOB)
    async def report_job(self, report: ReportJob) -> None:
        """Writes what the job does between steps: its phase, what it waits for, why it is parked.

        Effect: phase, waiting_for and error of the job's row; status Failed and a reason while it is parked.
        Key: the job's id.
        Done-when: the row says the same.
        Final: never.
        """
        # The cluster first: whoever waits for the job's phase then finds the cluster saying the same.
        with suppress(NotFound):
            await self._report_on(await self._store.clusters.get(report.cluster_id), report)
        await self._store.jobs.set_phase(
            report.job_id, report.phase, waiting_for=report.waiting_for, error=report.error
        )

    @activity.defn(name=names.FINISH_JOB)
    async def finish_job(self, finish: FinishJob) -> None:
        """Writes the job's outcome and settles the generation it worked on.

        Effect: the job's row is closed; the cluster's outcome, settled generation, status and conditions.
        Key: the job's id and the generation.
        Done-when: the row is closed and the generation settled.
        Final: never.
        """
        phase = {
            Outcome.DONE: JobPhase.DONE,
            Outcome.ABORTED: JobPhase.ABORTED,
            Outcome.SUPERSEDED: JobPhase.SUPERSEDED,
        }[finish.outcome]
        if finish.cluster_id:
            try:
                cluster = await self._store.clusters.get(finish.cluster_id)
            except NotFound:
                cluster = None
            if finish.generation:
                await self._store.clusters.settle(finish.cluster_id, finish.generation, finish.outcome)
            if cluster is not None and finish.outcome is Outcome.ABORTED and finish.generation == cluster.generation:
                await self._status(cluster, ClusterStatus.FAILED)
                await self._progress(cluster, Reason.ABORTED, finish.error)
        await self._store.jobs.finish(finish.job_id, phase, finish.error)

    @activity.defn(name=names.MAKE_AUTHORITIES)
    async def make_authorities(self, ref: ClusterRef) -> None:
        """Makes the cluster's certificate authorities and join tokens.

        Effect: two secrets in the box, `authorities` and `tokens`.
        Key: the cluster; an authority that exists is never replaced, since machines may carry it already.
        Done-when: both secrets exist.
        Final: never.
        """
        cluster = await self._cluster(ref)
        scope = f"cluster/{cluster.id}"
        if not await self._store.secrets.has(scope, "authorities"):
            begin = self._clock() - authorities.CLOCK_SKEW
            made = authorities.make(secrets, begin, begin + authorities.AUTHORITY_LIFE, cluster.spec.distribution)
            await self._store.secrets.put_new(scope, "authorities", made.to_json().encode())
        if not await self._store.secrets.has(scope, "tokens"):
            await self._store.secrets.put_new(scope, "tokens", tokens.make(secrets).to_json().encode())
        await self._store.clusters.add_marks(cluster.id, Mark.AUTHORITIES)

    @activity.defn(name=names.RESERVE_MACHINES)
    async def reserve_machines(self, ref: ClusterRef) -> None:
        """Reserves name, MAC, VM id and address of every machine that the spec wants and that does not exist yet.

        Effect: rows in machines, with reservations of VM ids and addresses.
        Key: the cluster and the machine's name; two attempts draft the same names (domain.machines.identities).
        Done-when: no machine is missing.
        Final: InvalidSpec when the cluster's addresses or the site's VM ids do not suffice.
        """
        cluster = await self._cluster(ref)
        ever = await self._store.machines.of_cluster(cluster.id, history=True)
        # A MAC is drawn from 24 bits, so that one may be in use: the next draw is again the same for every attempt.
        for draw in range(_DRAWS):
            wanted = drafts(cluster.spec, cluster.id, ever, identities(cluster.id, len(ever) + draw * _DRAW_APART))
            if not wanted:
                break
            try:
                await self._store.machines.reserve(cluster.id, wanted)
                break
            except (NoFreeAddress, NoFreeVmid) as error:
                raise ApplicationError(str(error), type="InvalidSpec", non_retryable=True) from error
            except Conflict:
                if draw == _DRAWS - 1:
                    raise
        await self._store.clusters.add_marks(cluster.id, Mark.MACHINES_RESERVED)

    @activity.defn(name=names.RELEASE_MACHINE)
    async def release_machine(self, ref: MachineRef) -> None:
        """Frees what a machine had reserved, after its VM was proved absent.

        Effect: the machine is Gone; its VM id and address are free.
        Key: the machine's id.
        Done-when: the machine is Gone, or not recorded.
        Final: never.
        """
        try:
            machine = await self._store.machines.get(ref.machine_id)
        except NotFound:
            return
        if machine.phase is not Phase.GONE:
            await self._store.machines.release(ref.machine_id)

    @activity.defn(name=names.FORGET_CLUSTER)
    async def forget_cluster(self, ref: ClusterRef) -> None:
        """Ends the cluster's life: its keys and reservations go, its history stays.

        Effect: the cluster is no longer listed, its name is free, its secrets and its virtual IP are gone.
        Key: the cluster's id.
        Done-when: the cluster is not recorded among the living.
        Final: never; a machine that is not gone keeps it waiting.
        """
        try:
            await self._store.clusters.get(ref.cluster_id)
        except NotFound:
            return
        await self._store.clusters.forget(ref.cluster_id)

    async def _with_shut_door(self, cluster: Cluster) -> Cluster:
        """The cluster without the mark of an open door where that is about to shut by itself: it is opened again.

        A job may be parked for days between two machines.
        """
        if Mark.JOINING_OPEN not in cluster.marks:
            return cluster
        try:
            kept = await self._store.secrets.get(f"cluster/{cluster.id}", OPEN_UNTIL)
            until = datetime.fromisoformat(kept.decode())
        except NotFound:
            until = self._clock()
        if until >= self._clock() + TOKEN_LEAST:
            return cluster
        left = tuple(mark for mark in cluster.marks if mark is not Mark.JOINING_OPEN)
        return cluster.model_copy(update={"marks": left})

    async def _report_on(self, cluster: Cluster, report: ReportJob) -> None:
        if report.phase is JobPhase.AWAITING_DECISION:
            await self._status(cluster, ClusterStatus.FAILED)
            await self._progress(cluster, Reason.AWAITING_DECISION, report.error)
        else:
            await self._status(cluster, _busy_status(cluster))
            reason = Reason.WAITING if report.waiting_for else Reason.IN_PROGRESS
            await self._progress(cluster, reason, report.waiting_for)

    async def _author(self, cluster_id: str) -> str:
        """Who made the change that a job works on: the author of the cluster's newest revision."""
        revisions = await self._store.clusters.revisions(cluster_id) if cluster_id else []
        return revisions[-1].author if revisions else ""

    async def _cluster(self, ref: ClusterRef) -> Cluster:
        try:
            return await self._store.clusters.get(ref.cluster_id)
        except NotFound as error:
            raise ApplicationError(str(error), type="EpochChanged", non_retryable=True) from error

    async def _state(self, cluster_id: str) -> JobState:
        epoch = await self._store.epoch()
        if not cluster_id:
            return JobState(epoch=epoch)
        try:
            cluster = await self._store.clusters.get(cluster_id)
        except NotFound:
            return JobState(exists=False, epoch=epoch)
        return JobState(generation=cluster.generation, deleting=cluster.deleting, epoch=epoch)

    async def _keep_honest(self, cluster: Cluster, machines: list[Machine], finished: bool, waiting_for: str) -> None:
        """Status and conditions as the rows themselves prove them; nothing is written where nothing differs."""
        if cluster.deleting:
            await self._status(cluster, ClusterStatus.DELETING)
            if not _told_by_job(cluster):
                await self._condition(cluster, ConditionType.DELETING, True, Reason.IN_PROGRESS, waiting_for)
            return
        if finished:
            await self._status(cluster, ClusterStatus.AVAILABLE)
            await self._condition(cluster, ConditionType.AVAILABLE, True, Reason.READY)
        elif cluster.status is not ClusterStatus.FAILED:
            await self._status(cluster, _busy_status(cluster))
        await self._pool_condition(cluster, ConditionType.CONTROL_PLANE_READY, [m for m in machines if m.is_server])
        workers = [m for m in machines if not m.is_server]
        if workers or cluster.spec.workers:
            await self._pool_condition(cluster, ConditionType.WORKERS_READY, workers)

    async def _pool_condition(self, cluster: Cluster, type_: ConditionType, machines: list[Machine]) -> None:
        unready = [m.name for m in machines if not m.phase.reached(Phase.READY)]
        if machines and not unready:
            await self._condition(cluster, type_, True, Reason.READY)
            return
        message = f"{len(machines) - len(unready)} of {len(machines)} Ready" if machines else "not reserved yet"
        await self._condition(cluster, type_, False, Reason.NODES_NOT_READY, message)

    async def _progress(self, cluster: Cluster, reason: Reason, message: str) -> None:
        """What the job says of itself goes to the condition that the cluster's owner looks at."""
        if cluster.deleting:
            await self._condition(cluster, ConditionType.DELETING, True, reason, message)
        elif Mark.AVAILABLE not in cluster.marks:
            await self._condition(cluster, ConditionType.AVAILABLE, False, reason, message)

    async def _condition(
        self, cluster: Cluster, type_: ConditionType, status: bool, reason: Reason, message: str = ""
    ) -> None:
        condition = Condition(type=type_, status=status, reason=reason, message=message)
        before = next((item for item in cluster.conditions if item.type is type_), None)
        # Looked at here already, so that a plan that changes nothing opens no write transaction.
        if before is None or before.model_copy(update={"last_transition": None}) != condition:
            await self._store.clusters.set_condition(cluster.id, condition)

    async def _status(self, cluster: Cluster, status: ClusterStatus) -> None:
        if cluster.status is not status:
            await self._store.clusters.set_status(cluster.id, status)


def _seen_by(job_id: str, cluster: Cluster) -> EtcdView:
    """What this job has seen of etcd. An earlier job's look proves nothing about today."""
    return cluster.etcd if cluster.etcd is not None and cluster.etcd.job_id == job_id else EtcdView()


def _powered(machine: Machine) -> bool:
    return machine.phase.reached(Phase.STARTED) and not machine.leaving


def _told_by_job(cluster: Cluster) -> bool:
    """True while the job itself says what its deletion waits for: it knows the node's name, the plan does not."""
    said = (Reason.WAITING, Reason.AWAITING_DECISION)
    return any(c.type is ConditionType.DELETING and c.reason in said for c in cluster.conditions)


def _busy_status(cluster: Cluster) -> ClusterStatus:
    if cluster.deleting:
        return ClusterStatus.DELETING
    return ClusterStatus.RECONCILING if Mark.AVAILABLE in cluster.marks else ClusterStatus.PROVISIONING
