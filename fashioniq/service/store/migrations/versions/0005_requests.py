"""Hashes of requests have a secret, and only requests that can be repeated have one."""

import hmac

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    for name, id in (("session", "id"), ("turn", "query_id")):
        op.execute(f"UPDATE {name} SET request_sha256 = NULL WHERE idem_key IS NULL")
        op.execute(f"ALTER TABLE {name} RENAME COLUMN request_sha256 TO request_hmac")
        connection = op.get_bind()
        secret = connection.scalar(sa.text("SELECT value FROM secret WHERE epoch = 0"))
        found = connection.execute(
            sa.text(f"SELECT {id}, request_hmac FROM {name} WHERE request_hmac IS NOT NULL")
        )
        hashes = [
            {"id": one, "hmac": hmac.digest(secret, sha256.encode(), "sha256").hex()} for one, sha256 in found
        ]
        if hashes:
            connection.execute(sa.text(f"UPDATE {name} SET request_hmac = :hmac WHERE {id} = :id"), hashes)
