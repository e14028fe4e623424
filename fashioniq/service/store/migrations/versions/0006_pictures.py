"""Pictures have no session: turns name those that they are about."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.drop_index("picture_by_session", "picture")
    with op.batch_alter_table("picture") as table:
        table.drop_column("session_id")


def downgrade() -> None:
    session = sa.ForeignKey("session.id", ondelete="CASCADE", name="picture_session_id_fkey")
    with op.batch_alter_table("picture") as table:
        table.add_column(sa.Column("session_id", sa.Text, session))
    op.create_index("picture_by_session", "picture", ["session_id"])
