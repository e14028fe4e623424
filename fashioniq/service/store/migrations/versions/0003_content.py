"""A file of SQLite has a random number, by which it is told from others (store/sqlite_file.py)."""

from secrets import randbelow

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        op.execute(f"PRAGMA application_id = {1 + randbelow(2**31 - 1)}")
