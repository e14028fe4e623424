"""Training data have an id of their own, besides their folder, and a record of what was removed from them."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("export", sa.Column("folder", sa.Text, nullable=False, server_default=""))
    op.execute("UPDATE export SET folder = id")
    op.drop_column("export", "sha256")
    op.add_column("export_session", sa.Column("removed_at", sa.DateTime(timezone=True), nullable=True))
