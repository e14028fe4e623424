"""Pictures have no session: turns name those that they are about."""

from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.drop_index("picture_by_session", "picture")
    with op.batch_alter_table("picture") as table:
        table.drop_column("session_id")
