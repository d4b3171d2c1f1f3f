"""Alembic's entry: runs the migrations on the connection that `store.schema.migrate` has opened."""

from alembic import context

from store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    # SQLite too: our BEGIN IMMEDIATE covers the whole upgrade, so that it happens wholly or not at all.
    transactional_ddl=True,
    render_as_batch=True,
)
context.run_migrations()
