"""Training data whose folder was deleted keep their record, which later runs may have started from."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.add_column("export", sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=True))
