"""The migrations build exactly the tables that the repositories use."""

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, inspect

from store import migrate
from store.database import make_engine
from store.tables import metadata


def _differences(connection: Connection) -> list[object]:
    context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
    return list(compare_metadata(context, metadata))


def _indexes(connection: Connection) -> dict[str, set[tuple[object, ...]]]:
    inspector = inspect(connection)
    return {
        table: {(i["name"], tuple(i["column_names"]), bool(i["unique"])) for i in inspector.get_indexes(table)}
        for table in inspector.get_table_names()
    }


async def test_metadata_and_migrations_agree(empty_url: str) -> None:
    await migrate(empty_url)
    engine = make_engine(empty_url)
    async with engine.connect() as connection:
        assert await connection.run_sync(_differences) == []
    await engine.dispose()


async def test_a_second_upgrade_changes_nothing(empty_url: str) -> None:
    await migrate(empty_url)
    engine = make_engine(empty_url)
    async with engine.connect() as connection:
        before = await connection.run_sync(_indexes)
    await migrate(empty_url)
    async with engine.connect() as connection:
        assert await connection.run_sync(_indexes) == before
    await engine.dispose()
