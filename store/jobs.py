"""Jobs, their steps and their log: what the job page shows when every worker is down."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, func, insert, select, update

from domain.jobs import Job, JobKind, JobPhase, LogLine, Step, StepState
from store import tables
from store.database import Database, Writing
from store.errors import NotFound

_t = tables.jobs
_steps = tables.steps
_lines = tables.log_lines
_COLUMNS = [column for column in _t.c if column.name != "log_seq"]
_WAITS = {JobPhase.WAITING, JobPhase.AWAITING_DECISION}
_STEP_ENDS = {StepState.DONE, StepState.FAILED, StepState.CANCELLED}


class Jobs:
    """Repository of jobs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, job: Job) -> Job:
        """Opens a job's record; a repeated call gives the record as it stands."""
        async with self._database.write() as writing:
            row = await self._find(writing, job.id)
            if row is not None:
                return _job(row)
            job = job.model_copy(update={"started_at": job.started_at or writing.now})
            await writing.connection.execute(insert(_t).values(**_plain(job)))
            self._changed(writing, job)
            return job

    async def get(self, job_id: str) -> Job:
        """Raises NotFound."""
        async with self._database.read() as connection:
            row = (await connection.execute(select(*_COLUMNS).where(_t.c.id == job_id))).one_or_none()
        if row is None:
            raise NotFound("job", job_id)
        return _job(row)

    async def of_cluster(self, cluster_id: str) -> list[Job]:
        """Every job of a cluster, the latest first."""
        return await self._many(select(*_COLUMNS).where(_t.c.cluster_id == cluster_id))

    async def open_jobs(self) -> list[Job]:
        """Jobs without an outcome, the latest first."""
        return await self._many(select(*_COLUMNS).where(_t.c.ended_at.is_(None)))

    async def page(
        self,
        *,
        cluster_ids: Collection[str] | None = None,
        site_id: str | None = None,
        kinds: Collection[JobKind] | None = None,
        phases: Collection[JobPhase] | None = None,
        offset: int = 0,
        limit: int = 50,
    ) -> tuple[list[Job], int]:
        """One page of jobs, the latest first, and how many match in all."""
        where: list[ColumnElement[bool]] = []
        if cluster_ids is not None:
            where.append(_t.c.cluster_id.in_(list(cluster_ids)))
        if site_id is not None:
            where.append(_t.c.site_id == site_id)
        if kinds is not None:
            where.append(_t.c.kind.in_([kind.value for kind in kinds]))
        if phases is not None:
            where.append(_t.c.phase.in_([phase.value for phase in phases]))
        query = select(*_COLUMNS).where(*where).order_by(_t.c.started_at.desc(), _t.c.id)
        async with self._database.read() as connection:
            total = (await connection.execute(select(func.count()).select_from(_t).where(*where))).scalar_one()
            rows = (await connection.execute(query.offset(offset).limit(limit))).all() if total else []
        return [_job(row) for row in rows], total

    async def set_phase(self, job_id: str, phase: JobPhase, waiting_for: str = "", error: str = "") -> None:
        """Writes what an open job does; an ended one stays as it ended.

        `waiting_since` is when this very wait began: the same words again do not move it.
        """
        async with self._database.write() as writing:
            row = await self._lock(writing, job_id)
            if row.ended_at is not None:
                return
            since: datetime | None = None
            if phase in _WAITS:
                goes_on = row.phase == phase.value and row.waiting_for == waiting_for
                since = row.waiting_since if goes_on else writing.now
            await self._set(writing, row, phase=phase.value, waiting_for=waiting_for, waiting_since=since, error=error)

    async def finish(self, job_id: str, phase: JobPhase, error: str = "") -> None:
        """Writes a job's end. The first end stays: a late second word changes nothing."""
        async with self._database.write() as writing:
            row = await self._lock(writing, job_id)
            if row.ended_at is None:
                await self._set(
                    writing,
                    row,
                    phase=phase.value,
                    error=error,
                    waiting_for="",
                    waiting_since=None,
                    ended_at=writing.now,
                )

    async def upsert_step(self, step: Step) -> Step:
        """Writes a step as it is now; its start stays that of its first attempt.

        A step without times begins now, and ends now when its state is an end. An UPID that is known stays known.
        """
        async with self._database.write() as writing:
            job = await self._lock(writing, step.job_id)
            before = (
                await writing.connection.execute(
                    select(_steps).where(_steps.c.job_id == step.job_id, _steps.c.id == step.id)
                )
            ).one_or_none()
            ended = (step.ended_at or writing.now) if step.state in _STEP_ENDS else None
            if before is None:
                step = step.model_copy(update={"started_at": step.started_at or writing.now, "ended_at": ended})
                await writing.connection.execute(insert(_steps).values(**_plain(step)))
            else:
                if ended is not None and before.ended_at is not None and before.state == step.state.value:
                    ended = before.ended_at
                step = step.model_copy(
                    update={"started_at": before.started_at, "ended_at": ended, "upid": step.upid or before.upid}
                )
                if step == Step.model_validate(dict(before._mapping)):
                    return step
                await writing.connection.execute(
                    update(_steps).where(_steps.c.job_id == step.job_id, _steps.c.id == step.id).values(**_plain(step))
                )
            writing.changed("step", step.job_id, cluster_id=job.cluster_id, site_id=job.site_id)
            return step

    async def steps(self, job_id: str) -> list[Step]:
        """The steps of a job in the order in which they began."""
        query = select(_steps).where(_steps.c.job_id == job_id).order_by(_steps.c.started_at, _steps.c.id)
        async with self._database.read() as connection:
            return [Step.model_validate(dict(row._mapping)) for row in await connection.execute(query)]

    async def append_log(self, job_id: str, text: str, *, step_id: str = "", level: str = "info") -> LogLine:
        """Appends one line; its number follows the last one without a gap, whoever else writes. Raises NotFound.

        The number comes from the job's row, whose lock is held until the line is committed.
        """
        async with self._database.write() as writing:
            counted = (
                await writing.connection.execute(
                    update(_t)
                    .where(_t.c.id == job_id)
                    .values(log_seq=_t.c.log_seq + 1)
                    .returning(_t.c.log_seq, _t.c.cluster_id, _t.c.site_id)
                )
            ).one_or_none()
            if counted is None:
                raise NotFound("job", job_id)
            line = LogLine(job_id=job_id, seq=counted.log_seq, at=writing.now, step_id=step_id, level=level, text=text)
            await writing.connection.execute(insert(_lines).values(**_plain(line)))
            writing.changed("log", job_id, cluster_id=counted.cluster_id, site_id=counted.site_id)
            return line

    async def log_after(self, job_id: str, seq: int = 0, limit: int = 500) -> list[LogLine]:
        """The lines after number `seq`, at most `limit`."""
        query = select(_lines).where(_lines.c.job_id == job_id, _lines.c.seq > seq).order_by(_lines.c.seq).limit(limit)
        async with self._database.read() as connection:
            return [LogLine.model_validate(dict(row._mapping)) for row in await connection.execute(query)]

    async def _many(self, query: Any) -> list[Job]:
        async with self._database.read() as connection:
            rows = await connection.execute(query.order_by(_t.c.started_at.desc(), _t.c.id))
            return [_job(row) for row in rows]

    async def _find(self, writing: Writing, job_id: str) -> Row[Any] | None:
        query = select(*_COLUMNS).where(_t.c.id == job_id).with_for_update(key_share=True)
        return (await writing.connection.execute(query)).one_or_none()

    async def _lock(self, writing: Writing, job_id: str) -> Row[Any]:
        row = await self._find(writing, job_id)
        if row is None:
            raise NotFound("job", job_id)
        return row

    async def _set(self, writing: Writing, row: Row[Any], **values: Any) -> None:
        differing = {name: value for name, value in values.items() if getattr(row, name) != value}
        if differing:
            await writing.connection.execute(update(_t).where(_t.c.id == row.id).values(**differing))
            writing.changed("job", row.id, cluster_id=row.cluster_id, site_id=row.site_id)

    def _changed(self, writing: Writing, job: Job) -> None:
        writing.changed("job", job.id, cluster_id=job.cluster_id, site_id=job.site_id)


def _plain(value: Job | Step | LogLine) -> dict[str, Any]:
    """Column values: enums as their text, times as they are."""
    return {
        name: field.value if isinstance(field, JobKind | JobPhase | StepState) else field
        for name, field in value.model_dump().items()
    }


def _job(row: Row[Any]) -> Job:
    return Job.model_validate(dict(row._mapping))
