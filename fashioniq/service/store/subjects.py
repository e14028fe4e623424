"""Hashes in place of ids and requests, with secrets of the database: of clients, sessions and repeatable requests."""

import hmac
from collections.abc import Iterable, Sequence
from datetime import datetime
from secrets import token_bytes

from sqlalchemy import Connection, insert, select

from fashioniq.service.store.database import those_in
from fashioniq.service.store.tables import erasure, secret

DAYS = 90  # that a secret for clients is used
ERASED = 0  # epoch of the secret for sessions and requests, which never changes


def epoch_of(at: datetime) -> int:
    """Number of the period of DAYS days since 1970."""
    return int(at.timestamp()) // (DAYS * 86_400)


def hashed(value: str, secret_value: bytes) -> str:
    """HMAC-SHA-256 in hexadecimal digits."""
    return hmac.digest(secret_value, value.encode(), "sha256").hex()


def secret_of(connection: Connection, epoch: int) -> bytes | None:
    """Secret of an epoch, or None before its first use."""
    return connection.scalar(select(secret.c.value).where(secret.c.epoch == epoch))


def made_secret(connection: Connection, epoch: int) -> bytes:
    """Secret of an epoch, created at its first use; for a connection that writes."""
    value = secret_of(connection, epoch)
    if value is None:
        value = token_bytes(32)
        connection.execute(insert(secret).values(epoch=epoch, value=value))
    return value


def subjects(connection: Connection, session_ids: Iterable[str]) -> dict[str, str]:
    """Ids of sessions by the hashes that remain after they are erased."""
    value = secret_of(connection, ERASED)
    assert value is not None, "the first migration creates it"
    return {hashed(id, value): id for id in session_ids}


def request_hmac(connection: Connection, key: str | None, sha256: str | None) -> str | None:
    """What is stored of a request with an idempotency key, from its SHA-256; None without a key.

    The secret never changes: those for clients would refuse a request that is repeated when their 90 days are over.
    """
    if key is None or sha256 is None:
        return None
    value = secret_of(connection, ERASED)
    assert value is not None, "the first migration creates it"
    return hashed(sha256, value)


def are_erased(connection: Connection, session_ids: Sequence[str]) -> set[str]:
    """Those sessions that were erased."""
    known = subjects(connection, session_ids)
    return {known[subject] for subject in those_in(connection, erasure.c.subject_hmac, known)}
