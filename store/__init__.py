"""The store: the truth about what is wanted and what exists (SQLite in WAL mode, or PostgreSQL).

`open_store` gives a `Store` whose attributes are repositories, one per noun. Everything is async; every write is one
transaction; times come from the injected clock and are timezone-aware UTC. Errors are typed (`store.errors`).
"""

from store.audit import AuditEntry
from store.charts import used_by
from store.clusters import ClusterOutline, Revision
from store.errors import (
    AlreadyExists,
    Conflict,
    InProgress,
    InUse,
    KeyUnusable,
    NoFreeAddress,
    NoFreeVmid,
    NotFound,
    SecretUnreadable,
    StoreError,
    StoreUnavailable,
)
from store.feed import Change
from store.idempotency import StoredAnswer
from store.keys import SecretKey
from store.local_users import scrypt_hash
from store.schema import migrate
from store.sessions import Session, session_id
from store.store import Store, open_store

__all__ = [
    "AlreadyExists",
    "AuditEntry",
    "Change",
    "ClusterOutline",
    "Conflict",
    "InProgress",
    "InUse",
    "KeyUnusable",
    "NoFreeAddress",
    "NoFreeVmid",
    "NotFound",
    "Revision",
    "SecretKey",
    "SecretUnreadable",
    "Session",
    "Store",
    "StoreError",
    "StoreUnavailable",
    "StoredAnswer",
    "migrate",
    "open_store",
    "scrypt_hash",
    "session_id",
    "used_by",
]
