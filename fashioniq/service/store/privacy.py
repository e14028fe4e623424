"""Erasure, retention, what is stored about a session, and hashes in place of ids and requests, with secrets of the
database: of clients, sessions and repeatable requests.
"""

import hmac
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from secrets import token_bytes
from typing import Any

import msgspec
from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from fashioniq.data.words import composed
from fashioniq.service.store.database import Database, reads, those_in
from fashioniq.service.store.engine import clear_files
from fashioniq.service.store.tables import erasure, event, export_session, picture, secret, session, turn

DAYS = 90  # that a secret for clients is used
ERASED = 0  # epoch of the secret for sessions and requests, which never changes
KEPT = timedelta(hours=24)  # sessions without consent after their last turn; idempotency keys
TEXT_KEPT = timedelta(days=DAYS)
_AT_ONCE = 500  # sessions swept in one transaction


class Privacy(Database):
    """Erasure, retention and the hashes of clients."""

    def client_hmac(self, client_id: str) -> str:
        """Hash of a client's id for `Session.client`; the secret changes every 90 days."""
        epoch = epoch_of(self.now())
        value = self.read(lambda connection: secret_of(connection, epoch)) or self.write(
            lambda connection: made_secret(connection, epoch)
        )
        return hashed(composed(client_id), value)

    def erase_session(self, id: str) -> None:
        """Delete a session with its turns, events and pictures, and refuse to store it again.

        Another session that used one of its pictures has to go on without it.
        """
        self.write(lambda connection: self._erase(connection, [id], always=True))
        clear_files(self.engine)

    def erase_client(self, client_id: str) -> int:
        """Erase all sessions of a client and return their number.

        A secret remains as long as sessions of its 90 days do, so that sessions of any age are found.
        """

        def work(connection: Connection) -> int:
            secrets = connection.scalars(select(secret.c.value).where(secret.c.epoch != ERASED))
            hashes = [hashed(composed(client_id), value) for value in secrets]
            ids = list(connection.scalars(select(session.c.id).where(session.c.client.in_(hashes))))
            return self._erase(connection, ids, always=True)

        erased = self.write(work)
        clear_files(self.engine)
        return erased

    @reads
    def erased(self, connection: Connection, session_ids: Sequence[str]) -> set[str]:
        """Those of the sessions that were erased; an import leaves them out."""
        return are_erased(connection, session_ids)

    @reads
    def export_session(self, connection: Connection, id: str) -> dict[str, Any]:
        """Everything stored about a session except hashes of secrets, as JSON values. Empty without a session."""

        def rows(table: Any, chosen: Any, order: Any) -> list[dict[str, Any]]:
            columns = [one for one in table.c if one.name not in ("token_sha256", "request_hmac")]
            found = connection.execute(select(*columns).where(chosen).order_by(order))
            return [msgspec.to_builtins(dict(row._mapping)) for row in found]

        found = rows(session, session.c.id == id, session.c.id)
        if not found:
            return {}
        return {
            "session": found[0],
            "turns": rows(turn, turn.c.session_id == id, turn.c.created_at),
            "events": rows(event, event.c.session_id == id, event.c.server_at),
            "pictures": rows(picture, _pictures_of(id), picture.c.id),
        }

    def sweep(self, now: datetime | None = None) -> dict[str, int]:
        """Delete what has been kept long enough; return the number of rows of each kind.

        Sessions without consent go 24 hours after their last turn, texts of persons after 90 days, pictures
        when they expire, idempotency keys after 24 hours, and secrets for clients with their last session.
        """
        now = now or self.now()
        old = [session.c.consent == "none", session.c.last_at < now - KEPT]
        counts = {"sessions": 0}

        def sessions(connection: Connection) -> int:
            ids = list(connection.scalars(select(session.c.id).where(*old).limit(_AT_ONCE)))
            return self._erase(connection, ids, always=False)

        while deleted := self.write(sessions):
            counts["sessions"] += deleted
        counts |= self.write(lambda connection: _sweep_rows(connection, now))
        self.finish_erasures(swept=True)
        return counts

    def _erase(self, connection: Connection, ids: Sequence[str], always: bool) -> int:
        """Delete sessions, and remember the hash of each, or of those in an export; return their number."""
        if not ids:
            return 0
        one: Any = bindparam("erased")
        for rows in (delete(picture).where(_pictures_of(one)), delete(session).where(session.c.id == one)):
            connection.execute(rows, [{"erased": id} for id in ids])
        remembered = set(subjects(connection, ids))
        if not always:
            remembered = those_in(connection, export_session.c.subject_hmac, remembered)
        if new := remembered - those_in(connection, erasure.c.subject_hmac, remembered):
            connection.execute(insert(erasure), [{"subject_hmac": one, "at": self.now()} for one in new])
        return len(ids)

    def finish_erasures(self, swept: bool = False) -> bool:
        """Remove deleted rows from the files of SQLite, if sessions were erased since it was last done, or `swept`.

        Return whether none of an erased session are left: another process prevents it, and it is then to be repeated.
        Erasures rewrite the whole file, so that this is done once for all of them, not while a shopper waits.
        PostgreSQL reuses the space of deleted rows after its own vacuum; its log and its backups are the
        administrator's.
        """
        unfinished = select(erasure.c.subject_hmac).where(erasure.c.done_at.is_(None))
        begun = self.read(lambda connection: connection.scalars(unfinished).all())
        if not begun and not swept:
            return True
        if not clear_files(self.engine, rewrite=bool(begun)):
            return not begun
        if begun:
            done = (
                update(erasure).where(erasure.c.subject_hmac == bindparam("one")).values(done_at=self.now())
            )
            self.write(lambda connection: connection.execute(done, [{"one": subject} for subject in begun]))
        return True


def _pictures_of(session_id: Any) -> Any:
    """Condition for the uploaded pictures that a session uses or used."""
    return picture.c.id.in_(select(turn.c.about).where(turn.c.session_id == session_id))


def _sweep_rows(connection: Connection, now: datetime) -> dict[str, int]:
    aged = turn.c.created_at < now - TEXT_KEPT
    # words that the vocabulary lacks, such as names, are also in `heard`
    texts = update(turn).where(aged, turn.c.says.is_not(None) | turn.c.question.is_not(None))
    without_key = {"idem_key": None, "request_hmac": None}
    counts = {
        "texts": connection.execute(texts.values(says=None, question=None, heard={})).rowcount,
        "pictures": connection.execute(delete(picture).where(picture.c.expires_at <= now)).rowcount,
        "keys": 0,
    }
    for table in (session, turn):
        expired = update(table).where(table.c.created_at < now - KEPT, table.c.idem_key.is_not(None))
        counts["keys"] += connection.execute(expired.values(without_key)).rowcount
    oldest = connection.scalar(select(func.min(session.c.created_at)).where(session.c.client.is_not(None)))
    # a client's hash can be a little older than its session
    needed = epoch_of(min(oldest or now, now) - timedelta(days=1))
    unused = delete(secret).where(secret.c.epoch != ERASED, secret.c.epoch < needed)
    return counts | {"secrets": connection.execute(unused).rowcount}


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


def subjects(connection: Connection, texts: Iterable[str]) -> dict[str, str]:
    """Ids of sessions, or other texts, by their hashes that never change, and remain after sessions are erased."""
    value = secret_of(connection, ERASED)
    assert value is not None, "the first migration creates it"
    return {hashed(text, value): text for text in texts}


def request_hmac(connection: Connection, key: str | None, sha256: str | None) -> str | None:
    """What is stored of a request with an idempotency key, from its SHA-256; None without a key.

    The secret never changes: those for clients would refuse a request that is repeated when their 90 days are over.
    """
    if key is None or sha256 is None:
        return None
    (stored,) = subjects(connection, [sha256])
    return stored


def are_erased(connection: Connection, session_ids: Sequence[str]) -> set[str]:
    """Those sessions that were erased."""
    known = subjects(connection, session_ids)
    return {known[subject] for subject in those_in(connection, erasure.c.subject_hmac, known)}
