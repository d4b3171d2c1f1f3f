"""The first schema.

Types are spelled out, not taken from store.tables: a migration stays what it was when the tables move on.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "audit",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("acting_as", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("object", sa.Text(), nullable=False),
        sa.Column("result", sa.Text(), nullable=False),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.Column("source", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_audit"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_audit_actor_seq", "audit", ["actor", "seq"])
    op.create_index("ix_audit_object_seq", "audit", ["object", "seq"])

    op.create_table(
        "changes",
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("cluster_id", sa.String(length=64)),
        sa.Column("site_id", sa.String(length=64)),
        sa.PrimaryKeyConstraint("seq", name="pk_changes"),
    )
    op.create_table(
        "counters",
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_counters"),
    )
    op.create_table(
        "idempotency",
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("request_hash", sa.String(length=128), nullable=False),
        sa.Column("status", sa.Integer()),
        sa.Column("body", sa.Text()),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("owner", "key", name="pk_idempotency"),
    )
    op.create_index("ix_idempotency_at", "idempotency", ["at"])

    op.create_table(
        "jobs",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("workflow_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("cluster_id", sa.String(length=64)),
        sa.Column("site_id", sa.String(length=64)),
        sa.Column("generation", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("phase", sa.String(length=20), nullable=False),
        sa.Column("waiting_for", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("waiting_since", sa.DateTime(timezone=True)),
        sa.Column("error", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("requested_by", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True)),
        sa.Column("log_seq", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
    )
    op.create_index("ix_jobs_cluster_id_started_at", "jobs", ["cluster_id", "started_at"])
    op.create_index(
        "ix_jobs_open",
        "jobs",
        ["started_at"],
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.create_index("ix_jobs_started_at", "jobs", ["started_at"])

    op.create_table(
        "local_users",
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("scrypt_hash", sa.Text(), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_local_users"),
    )
    op.create_table(
        "secrets",
        sa.Column("scope", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("key_id", sa.String(length=16), nullable=False),
        sa.Column("nonce", sa.LargeBinary(), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("scope", "name", name="pk_secrets"),
    )
    op.create_table(
        "sessions",
        sa.Column("id", sa.String(length=128), nullable=False),
        sa.Column("site_id", sa.String(length=64)),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("csrf", sa.String(length=128), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("local", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_sessions"),
    )
    op.create_index("ix_sessions_expires_at", "sessions", ["expires_at"])

    op.create_table(
        "sites",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("vmid_next", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("removed_at", sa.DateTime(timezone=True)),
        sa.PrimaryKeyConstraint("id", name="pk_sites"),
    )
    op.create_index(
        "uq_sites_name_kept",
        "sites",
        ["name"],
        unique=True,
        sqlite_where=sa.text("removed_at IS NULL"),
        postgresql_where=sa.text("removed_at IS NULL"),
    )

    op.create_table(
        "clusters",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("namespace", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("pool_name", sa.Text(), nullable=False),
        sa.Column("site_id", sa.String(length=64), nullable=False),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("settled_generation", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("outcome", sa.String(length=16)),
        sa.Column("outcome_generation", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("attempt", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("next_attempt_at", sa.DateTime(timezone=True)),
        sa.Column("deletion_requested_at", sa.DateTime(timezone=True)),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("conditions", sa.JSON(), nullable=False),
        sa.Column("marks", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_by", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("deleted_at", sa.DateTime(timezone=True)),
        sa.ForeignKeyConstraint(["site_id"], ["sites.id"], name="fk_clusters_site_id_sites"),
        sa.PrimaryKeyConstraint("id", name="pk_clusters"),
    )
    op.create_index(
        "ix_clusters_pool_name_living",
        "clusters",
        ["pool_name", "id"],
        sqlite_where=sa.text("deleted_at IS NULL"),
        postgresql_where=sa.text("deleted_at IS NULL"),
    )
    op.create_index(
        "ix_clusters_site_living",
        "clusters",
        ["site_id", "pool_name"],
        sqlite_where=sa.text("deleted_at IS NULL"),
        postgresql_where=sa.text("deleted_at IS NULL"),
    )
    op.create_index(
        "ix_clusters_status_living",
        "clusters",
        ["status", "pool_name"],
        sqlite_where=sa.text("deleted_at IS NULL"),
        postgresql_where=sa.text("deleted_at IS NULL"),
    )
    op.create_index(
        "ix_clusters_unsettled",
        "clusters",
        ["next_attempt_at"],
        sqlite_where=sa.text("deleted_at IS NULL AND generation > settled_generation"),
        postgresql_where=sa.text("deleted_at IS NULL AND generation > settled_generation"),
    )
    op.create_index(
        "uq_clusters_name_living",
        "clusters",
        ["namespace", "name"],
        unique=True,
        sqlite_where=sa.text("deleted_at IS NULL"),
        postgresql_where=sa.text("deleted_at IS NULL"),
    )

    op.create_table(
        "log_lines",
        sa.Column("job_id", sa.String(length=64), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("step_id", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("level", sa.String(length=16), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_log_lines_job_id_jobs"),
        sa.PrimaryKeyConstraint("job_id", "seq", name="pk_log_lines"),
    )
    op.create_table(
        "steps",
        sa.Column("job_id", sa.String(length=64), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("summary", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("machine_id", sa.String(length=64)),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("attempt", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.Column("error", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("upid", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True)),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_steps_job_id_jobs"),
        sa.PrimaryKeyConstraint("job_id", "id", name="pk_steps"),
    )
    op.create_table(
        "templates",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("site_id", sa.String(length=64), nullable=False),
        sa.Column("distribution", sa.String(length=32), nullable=False),
        sa.Column("version", sa.String(length=64), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["site_id"], ["sites.id"], name="fk_templates_site_id_sites"),
        sa.PrimaryKeyConstraint("id", name="pk_templates"),
    )
    op.create_index("ix_templates_site_id_distribution_version", "templates", ["site_id", "distribution", "version"])

    op.create_table(
        "machines",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("cluster_id", sa.String(length=64), nullable=False),
        sa.Column("site_id", sa.String(length=64), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("pool", sa.Text(), nullable=False),
        sa.Column("phase", sa.String(length=16), nullable=False),
        sa.Column("initialiser", sa.Boolean(), nullable=False),
        sa.Column("version", sa.String(length=64), nullable=False),
        sa.Column("cores", sa.Integer(), nullable=False),
        sa.Column("memory_mib", sa.Integer(), nullable=False),
        sa.Column("disk_gib", sa.Integer(), nullable=False),
        sa.Column("vmid", sa.Integer(), nullable=False),
        sa.Column("address", sa.String(length=64), nullable=False),
        sa.Column("mac", sa.String(length=17), nullable=False),
        sa.Column("bios_uuid", sa.String(length=36), nullable=False),
        sa.Column("node", sa.Text()),
        sa.Column("template_vmid", sa.Integer()),
        sa.Column("attempt", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("message", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("phase_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("gone_at", sa.DateTime(timezone=True)),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name="fk_machines_cluster_id_clusters"),
        sa.ForeignKeyConstraint(["site_id"], ["sites.id"], name="fk_machines_site_id_sites"),
        sa.PrimaryKeyConstraint("id", name="pk_machines"),
    )
    op.create_index(
        "uq_machines_initialiser_living",
        "machines",
        ["cluster_id"],
        unique=True,
        sqlite_where=sa.text("initialiser AND gone_at IS NULL"),
        postgresql_where=sa.text("initialiser AND gone_at IS NULL"),
    )
    op.create_index("ix_machines_cluster_id", "machines", ["cluster_id"])
    op.create_index(
        "uq_machines_mac_living",
        "machines",
        ["mac"],
        unique=True,
        sqlite_where=sa.text("gone_at IS NULL"),
        postgresql_where=sa.text("gone_at IS NULL"),
    )
    op.create_index(
        "uq_machines_name_living",
        "machines",
        ["cluster_id", "name"],
        unique=True,
        sqlite_where=sa.text("gone_at IS NULL"),
        postgresql_where=sa.text("gone_at IS NULL"),
    )
    op.create_index(
        "uq_machines_vmid_living",
        "machines",
        ["site_id", "vmid"],
        unique=True,
        sqlite_where=sa.text("gone_at IS NULL"),
        postgresql_where=sa.text("gone_at IS NULL"),
    )

    op.create_table(
        "revisions",
        sa.Column("cluster_id", sa.String(length=64), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("author", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("diff", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name="fk_revisions_cluster_id_clusters"),
        sa.PrimaryKeyConstraint("cluster_id", "number", name="pk_revisions"),
    )
    op.create_table(
        "addresses",
        sa.Column("network_id", sa.Text(), nullable=False),
        sa.Column("address", sa.String(length=64), nullable=False),
        sa.Column("cluster_id", sa.String(length=64), nullable=False),
        sa.Column("machine_id", sa.String(length=64)),
        sa.Column("released_at", sa.DateTime(timezone=True)),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name="fk_addresses_cluster_id_clusters"),
        sa.ForeignKeyConstraint(["machine_id"], ["machines.id"], name="fk_addresses_machine_id_machines"),
        sa.PrimaryKeyConstraint("network_id", "address", name="pk_addresses"),
    )
    op.create_index("ix_addresses_cluster_id", "addresses", ["cluster_id"])
    op.create_index("ix_addresses_machine_id", "addresses", ["machine_id"])
    op.bulk_insert(
        sa.table("counters", sa.column("name", sa.String), sa.column("value", sa.BigInteger)),
        [{"name": "epoch", "value": 1}, {"name": "feed", "value": 0}],
    )
    _protect_audit()


def _protect_audit() -> None:
    """The database refuses to change or delete a row of the audit."""
    if op.get_context().dialect.name == "sqlite":
        for act in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER audit_no_{act.lower()} BEFORE {act} ON audit "
                "BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END"
            )
        return
    op.execute(
        "CREATE FUNCTION audit_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'the audit is append-only'; END $$"
    )
    op.execute(
        "CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE ON audit "
        "FOR EACH ROW EXECUTE FUNCTION audit_append_only()"
    )
