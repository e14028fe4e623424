"""First tables of the service."""

from secrets import randbelow, token_bytes
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = None

TIME = sa.DateTime(timezone=True)


def column(name: str, kind: Any, null: bool = False, key: bool = False) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=null and not key, primary_key=key)


def of_session() -> sa.Column[Any]:
    return sa.Column("session_id", sa.Text, sa.ForeignKey("session.id", ondelete="CASCADE"), nullable=False)


def index(name: str, table: str, *columns: str, unique: bool = False, where: str | None = None) -> None:
    condition: dict[str, Any] = (
        {} if where is None else {"sqlite_where": sa.text(where), "postgresql_where": sa.text(where)}
    )
    op.create_index(name, table, list(columns), unique=unique, **condition)


def upgrade() -> None:
    op.create_table(
        "category_model",
        column("id", sa.Text, key=True),
        column("category", sa.Text),
        column("folder", sa.Text),
        column("run_sha256", sa.Text),
        column("features", sa.JSON),
        column("gallery_size", sa.Integer),
        column("registered_at", TIME),
        column("active_from", TIME, null=True),
        column("retired_at", TIME, null=True),
    )
    active = "active_from IS NOT NULL AND retired_at IS NULL"
    index("one_active_model", "category_model", "category", unique=True, where=active)
    op.create_table(
        "product",
        column("category", sa.Text, key=True),
        column("id", sa.Text, key=True),
        column("title", sa.Text),
        column("price_minor", sa.BigInteger, null=True),
        column("currency", sa.Text, null=True),
        column("sizes", sa.JSON),
        column("in_stock", sa.Boolean, null=True),
        column("url", sa.Text, null=True),
        column("group_id", sa.Text, null=True),
        column("updated_at", TIME),
        column("revision", sa.BigInteger),
        column("deleted_at", TIME, null=True),
    )
    index("ix_product_revision", "product", "revision")
    op.create_table(
        "session",
        column("id", sa.Text, key=True),
        column("category", sa.Text),
        column("model", sa.Text),
        column("client", sa.Text, null=True),
        column("consent", sa.Text),
        column("consent_at", TIME),
        column("policy_version", sa.Text, null=True),
        column("arm", sa.Text, null=True),
        column("experiment", sa.Text, null=True),
        column("origin", sa.Text),
        column("token_sha256", sa.Text, null=True),
        column("idem_key", sa.Text, null=True),
        column("request_hmac", sa.Text, null=True),
        column("created_at", TIME),
        column("last_at", TIME),
        column("ended_at", TIME, null=True),
        sa.UniqueConstraint("idem_key"),
    )
    index("ix_session_client", "session", "client")
    index("ix_session_experiment", "session", "experiment")
    index("session_by_consent", "session", "consent", "last_at")
    op.create_table(
        "turn",
        column("query_id", sa.Text, key=True),
        of_session(),
        column("n", sa.Integer),
        column("kind", sa.Text),
        column("about", sa.Text, null=True),
        column("question", sa.Text, null=True),
        column("says", sa.Text, null=True),
        column("word_ids", sa.JSON),
        column("filters", sa.JSON),
        column("shown", sa.JSON),
        column("heard", sa.JSON),
        column("eligible", sa.Integer),
        column("took_ms", sa.Integer),
        column("idem_key", sa.Text, null=True),
        column("request_hmac", sa.Text, null=True),
        column("created_at", TIME),
        column("undone_at", TIME, null=True),
        sa.UniqueConstraint("session_id", "idem_key"),
    )
    index("one_live_turn", "turn", "session_id", "n", unique=True, where="undone_at IS NULL")
    index("turn_with_text", "turn", "created_at", where="says IS NOT NULL OR question IS NOT NULL")
    index("turn_with_key", "turn", "created_at", where="idem_key IS NOT NULL")
    op.create_table(
        "experiment",
        column("id", sa.Text, key=True),
        column("category", sa.Text),
        column("running", sa.Text),
        column("challenger", sa.Text),
        column("method", sa.Text),
        column("error", sa.Float),
        column("most", sa.Integer),
        column("started_at", TIME),
        column("ended_at", TIME, null=True),
        column("verdict", sa.Text, null=True),
    )
    index("one_running_experiment", "experiment", "category", unique=True, where="ended_at IS NULL")
    op.create_table(
        "event",
        column("event_id", sa.Text, key=True),
        column("query_id", sa.Text),
        of_session(),
        column("action", sa.Text),
        column("product_id", sa.Text, null=True),
        column("position", sa.Integer, null=True),
        column("value_minor", sa.BigInteger, null=True),
        column("client_at", TIME, null=True),
        column("server_at", TIME),
    )
    index("event_by_session", "event", "session_id")
    op.create_table(
        "picture",
        column("id", sa.Text, key=True),
        column("feature", sa.LargeBinary),
        column("attrs", sa.JSON),
        column("expires_at", TIME),
    )
    index("ix_picture_expires_at", "picture", "expires_at")
    op.create_table(
        "api_key",
        column("id", sa.Text, key=True),
        column("sha256", sa.Text),
        column("scopes", sa.JSON),
        column("limits", sa.JSON),
        column("revoked_at", TIME, null=True),
    )
    secret = op.create_table(
        "secret",
        sa.Column("epoch", sa.Integer, primary_key=True, autoincrement=False),
        column("value", sa.LargeBinary),
    )
    op.bulk_insert(secret, [{"epoch": 0, "value": token_bytes(32)}])
    op.create_table(
        "erasure",
        column("subject_hmac", sa.Text, key=True),
        column("at", TIME),
        column("done_at", TIME, null=True),
    )
    op.create_table(
        "export",
        column("id", sa.Text, key=True),
        column("folder", sa.Text),
        column("cut_at", TIME),
        column("rule", sa.JSON),
        column("sessions", sa.Integer),
        column("deleted_at", TIME, null=True),
    )
    op.create_table(
        "export_session",
        sa.Column("export_id", sa.Text, sa.ForeignKey("export.id", ondelete="CASCADE"), primary_key=True),
        column("subject_hmac", sa.Text, key=True),
        column("withdrawn_at", TIME, null=True),
        column("removed_at", TIME, null=True),
    )
    index("ix_export_session_subject_hmac", "export_session", "subject_hmac")
    if op.get_bind().dialect.name == "sqlite":  # a file is told from others by it (store/sqlite_file.py)
        op.execute(f"PRAGMA application_id = {1 + randbelow(2**31 - 1)}")
