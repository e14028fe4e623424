"""The stock of a product may be unknown."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    with op.batch_alter_table("product") as table:  # SQLite has to copy it
        table.alter_column("in_stock", existing_type=sa.Boolean(), nullable=True)
