"""Training data may not hold conversations whose consent for training was withdrawn."""

import hmac

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column("export_session", sa.Column("withdrawn_at", sa.DateTime(timezone=True), nullable=True))
    connection = op.get_bind()
    secret = connection.scalar(sa.text("SELECT value FROM secret WHERE epoch = 0"))
    held = set(connection.scalars(sa.text("SELECT subject_hmac FROM export_session")))
    others = connection.execute(sa.text("SELECT id, consent_at FROM session WHERE consent <> 'training'"))
    hashes = [(hmac.digest(secret, id.encode(), "sha256").hex(), at) for id, at in others if held]
    if withdrawn := [{"one": subject, "at": at} for subject, at in hashes if subject in held]:
        update = "UPDATE export_session SET withdrawn_at = :at WHERE subject_hmac = :one"
        connection.execute(sa.text(update), withdrawn)
