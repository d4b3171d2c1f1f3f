"""Every table of the store. Alembic's migrations build the same (tests/store/test_schema.py compares them).

Documents that only travel as a whole (a cluster's spec, a site) are JSON columns, so that a new field with a default
needs no migration; whatever is searched, sorted, locked or unique has a column of its own.
"""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    TypeDecorator,
    text,
)


class UtcDateTime(TypeDecorator[datetime]):
    """An aware UTC time. SQLite keeps no zone, so it is taken off there on the way in and put back on the way out."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a time without a zone must not enter the store")
        value = value.astimezone(UTC)
        return value.replace(tzinfo=None) if dialect.name == "sqlite" else value

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Words(TypeDecorator[str]):
    """Text for people, often from the outside world (a VM's console, a task's log).

    PostgreSQL refuses a NUL and both refuse half a surrogate pair; a log line must not fail a job for that.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        if value is None:
            return None
        return value.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")


Document = JSON
"""Plain JSON on PostgreSQL too: JSONB would forget the order in which labels were written; nothing looks inside."""
Sequenced = BigInteger().with_variant(Integer(), "sqlite")
"""SQLite counts up by itself only in a column whose type is exactly INTEGER."""

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _unique_where(name: str, condition: str, *columns: str) -> Index:
    where = text(condition)
    return Index(name, *columns, unique=True, sqlite_where=where, postgresql_where=where)


def _index_where(name: str, condition: str, *columns: str) -> Index:
    where = text(condition)
    return Index(name, *columns, sqlite_where=where, postgresql_where=where)


def _text(name: str, default: str = "", **more: Any) -> Column[str]:
    return Column(name, Words, nullable=False, server_default=text(f"'{default}'"), **more)


def _number(name: str, default: int = 0) -> Column[int]:
    return Column(name, Integer, nullable=False, server_default=text(str(default)))


counters = Table(
    "counters",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("value", BigInteger, nullable=False),
)
"""`epoch` (raised by a restore) and `feed` (the last change's number)."""

sites = Table(
    "sites",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("name", Text, nullable=False),
    Column("body", Document, nullable=False),
    Column("version", Integer, nullable=False),
    Column("vmid_next", Integer, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("removed_at", UtcDateTime),
    _unique_where("uq_sites_name_kept", "removed_at IS NULL", "name"),
)
"""The row also serves as the lock under which VM ids, addresses and places of its machines are given out."""

templates = Table(
    "templates",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("site_id", ForeignKey("sites.id"), nullable=False),
    Column("distribution", String(32), nullable=False),
    Column("version", String(64), nullable=False),
    Column("body", Document, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Index("ix_templates_site_id_distribution_version", "site_id", "distribution", "version"),
)

clusters = Table(
    "clusters",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("namespace", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("pool_name", Text, nullable=False),
    Column("site_id", ForeignKey("sites.id"), nullable=False),
    Column("spec", Document, nullable=False),
    Column("generation", Integer, nullable=False),
    _number("settled_generation"),
    Column("outcome", String(16)),
    _number("outcome_generation"),
    _number("attempt"),
    Column("next_attempt_at", UtcDateTime),
    Column("deletion_requested_at", UtcDateTime),
    Column("status", String(16), nullable=False),
    Column("conditions", Document, nullable=False),
    Column("marks", Document, nullable=False),
    Column("etcd", Document),
    Column("created_at", UtcDateTime, nullable=False),
    _text("created_by"),
    Column("version", Integer, nullable=False),
    Column("deleted_at", UtcDateTime),
    _unique_where("uq_clusters_name_living", "deleted_at IS NULL", "namespace", "name"),
    _index_where("ix_clusters_pool_name_living", "deleted_at IS NULL", "pool_name", "id"),
    _index_where("ix_clusters_site_living", "deleted_at IS NULL", "site_id", "pool_name"),
    _index_where("ix_clusters_status_living", "deleted_at IS NULL", "status", "pool_name"),
    _index_where("ix_clusters_unsettled", "deleted_at IS NULL AND generation > settled_generation", "next_attempt_at"),
)

revisions = Table(
    "revisions",
    metadata,
    Column("cluster_id", ForeignKey("clusters.id"), nullable=False),
    Column("number", Integer, nullable=False),
    _text("author"),
    Column("at", UtcDateTime, nullable=False),
    Column("spec", Document, nullable=False),
    Column("diff", Document, nullable=False),
    PrimaryKeyConstraint("cluster_id", "number"),
)

machines = Table(
    "machines",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("cluster_id", ForeignKey("clusters.id"), nullable=False),
    Column("site_id", ForeignKey("sites.id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("role", String(16), nullable=False),
    Column("pool", Text, nullable=False),
    Column("phase", String(16), nullable=False),
    Column("initialiser", Boolean, nullable=False),
    Column("version", String(64), nullable=False),
    Column("cores", Integer, nullable=False),
    Column("memory_mib", Integer, nullable=False),
    Column("disk_gib", Integer, nullable=False),
    Column("vmid", Integer, nullable=False),
    Column("address", String(64), nullable=False),
    Column("mac", String(17), nullable=False),
    Column("bios_uuid", String(36), nullable=False),
    Column("node", Text),
    Column("template_vmid", Integer),
    _number("attempt"),
    _text("message"),
    Column("created_at", UtcDateTime, nullable=False),
    Column("phase_at", UtcDateTime, nullable=False),
    Column("gone_at", UtcDateTime),
    _unique_where("uq_machines_vmid_living", "gone_at IS NULL", "site_id", "vmid"),
    _unique_where("uq_machines_name_living", "gone_at IS NULL", "cluster_id", "name"),
    _unique_where("uq_machines_mac_living", "gone_at IS NULL", "mac"),
    _unique_where("uq_machines_initialiser_living", "initialiser AND gone_at IS NULL", "cluster_id"),
    Index("ix_machines_cluster_id", "cluster_id"),
)

addresses = Table(
    "addresses",
    metadata,
    Column("network_id", Text, nullable=False),
    Column("address", String(64), nullable=False),
    Column("cluster_id", ForeignKey("clusters.id"), nullable=False),
    Column("machine_id", ForeignKey("machines.id")),
    Column("released_at", UtcDateTime),
    PrimaryKeyConstraint("network_id", "address"),
    Index("ix_addresses_cluster_id", "cluster_id"),
    Index("ix_addresses_machine_id", "machine_id"),
)
"""Who holds an address. Without a machine it is a cluster's virtual IP. A released row remembers its last holder."""

jobs = Table(
    "jobs",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("workflow_id", Text, nullable=False),
    Column("kind", String(32), nullable=False),
    Column("cluster_id", String(64)),
    Column("site_id", String(64)),
    _number("generation"),
    Column("phase", String(20), nullable=False),
    _text("waiting_for"),
    Column("waiting_since", UtcDateTime),
    _text("error"),
    _text("requested_by"),
    Column("started_at", UtcDateTime, nullable=False),
    Column("ended_at", UtcDateTime),
    _number("log_seq"),
    Index("ix_jobs_cluster_id_started_at", "cluster_id", "started_at"),
    Index("ix_jobs_started_at", "started_at"),
    _index_where("ix_jobs_open", "ended_at IS NULL", "started_at"),
)

steps = Table(
    "steps",
    metadata,
    Column("job_id", ForeignKey("jobs.id"), nullable=False),
    Column("id", Text, nullable=False),
    Column("kind", Text, nullable=False),
    _text("summary"),
    Column("machine_id", String(64)),
    Column("state", String(16), nullable=False),
    _number("attempt", 1),
    _text("error"),
    _text("upid"),
    Column("started_at", UtcDateTime, nullable=False),
    Column("ended_at", UtcDateTime),
    PrimaryKeyConstraint("job_id", "id"),
)

log_lines = Table(
    "log_lines",
    metadata,
    Column("job_id", ForeignKey("jobs.id"), nullable=False),
    Column("seq", Integer, nullable=False),
    Column("at", UtcDateTime, nullable=False),
    _text("step_id"),
    Column("level", String(16), nullable=False),
    Column("text", Words, nullable=False),
    PrimaryKeyConstraint("job_id", "seq"),
)

secrets = Table(
    "secrets",
    metadata,
    Column("scope", String(255), nullable=False),
    Column("name", String(255), nullable=False),
    Column("key_id", String(16), nullable=False),
    Column("nonce", LargeBinary, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    PrimaryKeyConstraint("scope", "name"),
)

audit = Table(
    "audit",
    metadata,
    Column("seq", Sequenced, primary_key=True, autoincrement=True),
    Column("at", UtcDateTime, nullable=False),
    Column("actor", Text, nullable=False),
    Column("acting_as", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("object", Text, nullable=False),
    Column("result", Text, nullable=False),
    Column("detail", Document, nullable=False),
    _text("source"),
    Index("ix_audit_actor_seq", "actor", "seq"),
    Index("ix_audit_object_seq", "object", "seq"),
    sqlite_autoincrement=True,
)

sessions = Table(
    "sessions",
    metadata,
    Column("id", String(128), primary_key=True),
    Column("site_id", String(64)),
    Column("user", Text, nullable=False),
    Column("csrf", String(128), nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("seen_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False),
    Column("local", Boolean, nullable=False),
    Index("ix_sessions_expires_at", "expires_at"),
)

local_users = Table(
    "local_users",
    metadata,
    Column("name", String(255), primary_key=True),
    Column("scrypt_hash", Text, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
)

idempotency = Table(
    "idempotency",
    metadata,
    Column("owner", String(255), nullable=False),
    Column("key", String(255), nullable=False),
    Column("request_hash", String(128), nullable=False),
    Column("status", Integer),
    Column("body", Text),
    Column("at", UtcDateTime, nullable=False),
    PrimaryKeyConstraint("owner", "key"),
    Index("ix_idempotency_at", "at"),
)

charts = Table(
    "charts",
    metadata,
    Column("name", String(255), nullable=False),
    Column("version", String(64), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("source", Text, nullable=False),
    Column("size", Integer, nullable=False),
    Column("content", LargeBinary, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    PrimaryKeyConstraint("name", "version"),
)

turns = Table(
    "turns",
    metadata,
    Column("name", String(255), primary_key=True),
    Column("holder", String(255), nullable=False),
    Column("beat", Integer, nullable=False),
)

changes = Table(
    "changes",
    metadata,
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", String(16), nullable=False),
    Column("id", String(64), nullable=False),
    Column("cluster_id", String(64)),
    Column("site_id", String(64)),
)
