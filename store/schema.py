"""Brings a database to the newest schema, with the migrations that ship inside this package."""

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, text

from store.database import WRITES, make_engine, typed_errors

if TYPE_CHECKING:
    from alembic.config import Config

_LOCK = 0x7261_6C69
"""Key of PostgreSQL's advisory lock: of several processes that start at once, one migrates and the others wait."""


# Alembic is imported by those who migrate: a tenth of a worker's start was spent on it.


def alembic_config(connection: Connection | None = None) -> "Config":
    """Alembic's configuration for our migrations, on an open connection if given (store/migrations/env.py)."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _upgrade(connection: Connection) -> None:
    from alembic import command

    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
    command.upgrade(alembic_config(connection), "head")


async def migrate(url: str, *, busy_seconds: float = 60.0) -> None:
    """Upgrades to the newest schema in one transaction; does nothing when it is there already.

    Raises StoreUnavailable when the database does not answer within `busy_seconds`.
    """
    engine = make_engine(url, busy_seconds)
    try:
        async with typed_errors(), engine.execution_options(**{WRITES: True}).begin() as connection:
            await connection.run_sync(_upgrade)
    finally:
        await engine.dispose()
