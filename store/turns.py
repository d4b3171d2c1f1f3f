"""Turns: one row for each thing that only one attempt may work at, whatever process it runs in.

A row that is there is held. Its number goes up while its holder lives; whoever waits takes the row over by
compare-and-set once the number stands still. No times are stored: the clocks of two workers may differ by more than
any life that a turn could have.
"""

from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from domain.frozen import Frozen
from store import tables
from store.database import Database

_t = tables.turns


class HeldTurn(Frozen):
    """A turn as it was seen: who holds it, and how often the holder has said so."""

    holder: str
    beat: int


class Turns:
    """Repository of turns."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, name: str) -> HeldTurn | None:
        """Who holds it now; None when it is free."""
        async with self._database.read() as connection:
            row = (await connection.execute(select(_t.c.holder, _t.c.beat).where(_t.c.name == name))).one_or_none()
            return None if row is None else HeldTurn(holder=row.holder, beat=row.beat)

    async def take(self, name: str, holder: str, over: HeldTurn | None) -> bool:
        """Takes a free turn, or the one that was seen as `over` and has not changed since. False: another was first."""
        try:
            async with self._database.write() as writing:
                if over is None:
                    await writing.connection.execute(insert(_t).values(name=name, holder=holder, beat=0))
                    return True
                taken = await writing.connection.execute(
                    update(_t)
                    .where(_t.c.name == name, _t.c.holder == over.holder, _t.c.beat == over.beat)
                    .values(holder=holder, beat=0)
                    .returning(_t.c.name)
                )
                return taken.one_or_none() is not None
        except IntegrityError:
            return False

    async def beat(self, name: str, holder: str) -> bool:
        """Says that the holder lives. False: it holds the turn no longer."""
        async with self._database.write() as writing:
            held = await writing.connection.execute(
                update(_t)
                .where(_t.c.name == name, _t.c.holder == holder)
                .values(beat=_t.c.beat + 1)
                .returning(_t.c.name)
            )
            return held.one_or_none() is not None

    async def leave(self, name: str, holder: str) -> None:
        """Gives the turn back, if the holder still has it."""
        async with self._database.write() as writing:
            await writing.connection.execute(delete(_t).where(_t.c.name == name, _t.c.holder == holder))
