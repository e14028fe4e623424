"""Training data whose folder was deleted keep their record, which later runs may have started from."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.add_column("export", sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=True))


def downgrade() -> None:
    op.execute(
        "DELETE FROM export_session WHERE export_id IN (SELECT id FROM export WHERE deleted_at IS NOT NULL)"
    )
    op.execute("DELETE FROM export WHERE deleted_at IS NOT NULL")
    op.drop_column("export", "deleted_at")
