"""The store: the truth about what is wanted and what exists (SQLite in WAL mode, or PostgreSQL)."""
