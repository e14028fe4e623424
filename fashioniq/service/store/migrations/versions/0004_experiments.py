"""Comparisons of two models in service, and what each session sees of them."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    running: dict[str, Any] = dict.fromkeys(("sqlite_where", "postgresql_where"), sa.text("ended_at IS NULL"))
    op.create_table(
        "experiment",
        sa.Column("id", sa.Text, primary_key=True),
        *(
            sa.Column(name, sa.Text, nullable=False)
            for name in ("category", "running", "challenger", "method")
        ),
        sa.Column("error", sa.Float, nullable=False),
        sa.Column("most", sa.Integer, nullable=False),
        sa.Column("started_at", TIME, nullable=False),
        sa.Column("ended_at", TIME),
        sa.Column("verdict", sa.Text),
    )
    op.create_index("one_running_experiment", "experiment", ["category"], unique=True, **running)
    op.add_column("session", sa.Column("experiment", sa.Text))
    op.create_index("ix_session_experiment", "session", ["experiment"])
