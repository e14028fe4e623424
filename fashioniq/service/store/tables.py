"""Tables of the database. A change here needs a new migration in `migrations/versions/`."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    text,
)


class Time(TypeDecorator[datetime]):
    """Time in UTC; SQLite has no time zones."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


METADATA = MetaData()


def _needed(name: str, kind: Any, *more: Any, **options: Any) -> Column[Any]:
    return Column(name, kind, *more, nullable=False, **options)


def _of_session() -> Column[Any]:
    return Column("session_id", Text, ForeignKey("session.id", ondelete="CASCADE"), nullable=False)


def _index_where(name: str, *columns: str, where: str, unique: bool = False) -> Index:
    return Index(name, *columns, unique=unique, sqlite_where=text(where), postgresql_where=text(where))


category_model = Table(
    "category_model",
    METADATA,
    Column("id", Text, primary_key=True),
    _needed("category", Text),
    _needed("folder", Text),
    _needed("run_sha256", Text),
    _needed("features", JSON),
    _needed("gallery_size", Integer),
    _needed("registered_at", Time),
    Column("active_from", Time),
    Column("retired_at", Time),
    _index_where(
        "one_active_model", "category", where="active_from IS NOT NULL AND retired_at IS NULL", unique=True
    ),
)
product = Table(
    "product",
    METADATA,
    Column("category", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    _needed("title", Text),
    Column("price_minor", BigInteger),
    Column("currency", Text),
    _needed("sizes", JSON),
    Column("in_stock", Boolean),
    Column("url", Text),
    Column("group_id", Text),
    _needed("updated_at", Time),
    _needed("revision", BigInteger, index=True),
    Column("deleted_at", Time),
)
session = Table(
    "session",
    METADATA,
    Column("id", Text, primary_key=True),
    _needed("category", Text),
    _needed("model", Text),
    Column("client", Text, index=True),
    _needed("consent", Text),
    _needed("consent_at", Time),
    Column("policy_version", Text),
    Column("arm", Text),
    Column("experiment", Text, index=True),
    _needed("origin", Text),
    Column("token_sha256", Text),
    Column("idem_key", Text, unique=True),
    Column("request_hmac", Text),
    _needed("created_at", Time),
    _needed("last_at", Time),
    Column("ended_at", Time),
    Index("session_by_consent", "consent", "last_at"),
)
turn = Table(
    "turn",
    METADATA,
    Column("query_id", Text, primary_key=True),
    _of_session(),
    _needed("n", Integer),
    _needed("kind", Text),
    Column("about", Text),
    Column("question", Text),
    Column("says", Text),
    _needed("word_ids", JSON),
    _needed("filters", JSON),
    _needed("shown", JSON),
    _needed("heard", JSON),
    _needed("eligible", Integer),
    _needed("took_ms", Integer),
    Column("idem_key", Text),
    Column("request_hmac", Text),
    _needed("created_at", Time),
    Column("undone_at", Time),
    UniqueConstraint("session_id", "idem_key"),
    _index_where("one_live_turn", "session_id", "n", where="undone_at IS NULL", unique=True),
    _index_where("turn_with_text", "created_at", where="says IS NOT NULL OR question IS NOT NULL"),
    _index_where("turn_with_key", "created_at", where="idem_key IS NOT NULL"),
)
experiment = Table(
    "experiment",
    METADATA,
    Column("id", Text, primary_key=True),
    _needed("category", Text),
    _needed("running", Text),
    _needed("challenger", Text),
    _needed("method", Text),
    _needed("error", Float),
    _needed("most", Integer),
    _needed("started_at", Time),
    Column("ended_at", Time),
    Column("verdict", Text),
    _index_where("one_running_experiment", "category", where="ended_at IS NULL", unique=True),
)
event = Table(
    "event",
    METADATA,
    Column("event_id", Text, primary_key=True),
    _needed("query_id", Text),
    _of_session(),
    _needed("action", Text),
    Column("product_id", Text),
    Column("position", Integer),
    Column("value_minor", BigInteger),
    Column("client_at", Time),
    _needed("server_at", Time),
    Index("event_by_session", "session_id"),
)
# `turn.about` names those that a session uses
picture = Table(
    "picture",
    METADATA,
    Column("id", Text, primary_key=True),
    _needed("feature", LargeBinary),
    _needed("attrs", JSON),
    _needed("expires_at", Time, index=True),
)
api_key = Table(
    "api_key",
    METADATA,
    Column("id", Text, primary_key=True),
    _needed("sha256", Text),
    _needed("scopes", JSON),
    _needed("limits", JSON),
    Column("revoked_at", Time),
)
# `epoch` counts periods of 90 days since 1970, for client ids; epoch 0 is the secret of erased sessions
secret = Table(
    "secret",
    METADATA,
    Column("epoch", Integer, primary_key=True, autoincrement=False),
    _needed("value", LargeBinary),
)
# hashes of erased sessions; `done_at` is the time from which their words were gone from the files of SQLite
erasure = Table(
    "erasure",
    METADATA,
    Column("subject_hmac", Text, primary_key=True),
    _needed("at", Time),
    Column("done_at", Time),
)
# from `deleted_at`, their folder does not exist any more, but runs that started from their run may
export = Table(
    "export",
    METADATA,
    Column("id", Text, primary_key=True),
    _needed("folder", Text),
    _needed("cut_at", Time),
    _needed("rule", JSON),
    _needed("sessions", Integer),
    Column("deleted_at", Time),
)
# sessions by their hash, which remains after they are erased; from `withdrawn_at`, they have no consent for training,
# and from `removed_at`, their words are not in the files
export_session = Table(
    "export_session",
    METADATA,
    Column("export_id", Text, ForeignKey("export.id", ondelete="CASCADE"), primary_key=True),
    Column("subject_hmac", Text, primary_key=True, index=True),
    Column("withdrawn_at", Time),
    Column("removed_at", Time),
)
