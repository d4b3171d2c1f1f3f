"""The audit: who did what, as whom, to what, and how it ended. Rows are added, never changed.

The database itself refuses to change or delete a row (triggers of the first migration).
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import func, insert, select

from domain.frozen import Payload
from store import tables
from store.database import Database

_t = tables.audit


class AuditEntry(Payload):
    """`actor` is the person (or `system`), `acting_as` the account that was used in the outside world."""

    seq: int
    at: datetime
    actor: str
    acting_as: str
    action: str
    object: str
    result: str
    detail: dict[str, Any]
    source: str


class Audit:
    """The audit's repository."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def record(
        self,
        actor: str,
        acting_as: str,
        action: str,
        object: str,
        result: str,
        detail: Mapping[str, Any] | None = None,
        source: str = "",
    ) -> None:
        """Adds one entry. `source` is where the request came from; `detail` must hold no secret."""
        async with self._database.write() as writing:
            await writing.connection.execute(
                insert(_t).values(
                    at=writing.now,
                    actor=actor,
                    acting_as=acting_as,
                    action=action,
                    object=object,
                    result=result,
                    detail=dict(detail or {}),
                    source=source,
                )
            )

    async def page(
        self,
        *,
        actor: str | None = None,
        action: str | None = None,
        object: str | None = None,
        offset: int = 0,
        limit: int = 50,
    ) -> tuple[list[AuditEntry], int]:
        """One page of entries, the latest first, and how many match in all."""
        wanted = {_t.c.actor: actor, _t.c.action: action, _t.c.object: object}
        where = [column == value for column, value in wanted.items() if value is not None]
        query = select(_t).where(*where).order_by(_t.c.seq.desc()).offset(offset).limit(limit)
        async with self._database.read() as connection:
            total = (await connection.execute(select(func.count()).select_from(_t).where(*where))).scalar_one()
            rows = (await connection.execute(query)).all()
        return [AuditEntry.model_validate(dict(row._mapping)) for row in rows], total
