"""The stock of a product may be unknown."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    _set_nullable(True)


def downgrade() -> None:
    op.execute("UPDATE product SET in_stock = true WHERE in_stock IS NULL")
    _set_nullable(False)


def _set_nullable(nullable: bool) -> None:
    with op.batch_alter_table("product") as table:  # SQLite has to copy it
        table.alter_column("in_stock", existing_type=sa.Boolean(), nullable=nullable)
