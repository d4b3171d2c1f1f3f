"""Alembic's migrations of the store. `store.schema.migrate` runs them; released ones are never edited."""
