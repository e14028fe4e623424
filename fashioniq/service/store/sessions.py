"""Sessions, their turns, the events that follow them, and uploaded pictures."""

from collections.abc import Sequence
from datetime import datetime
from secrets import token_hex
from typing import Any

from msgspec.structs import asdict, replace
from sqlalchemy import Column, Connection, func, insert, select, update

from fashioniq.service.store.database import Database, find, reads, those_in, writes
from fashioniq.service.store.experiments import places_of_clients
from fashioniq.service.store.privacy import are_erased, request_hmac, subjects
from fashioniq.service.store.rows import (
    Consent,
    EventRow,
    Gone,
    KeyReused,
    PictureRow,
    SessionRow,
    TurnConflict,
    TurnRow,
)
from fashioniq.service.store.scrub import scrub, scrub_all
from fashioniq.service.store.tables import event, export_session, picture, session, turn


class Sessions(Database):
    """The log of dialogs."""

    @writes
    def add_session(
        self,
        connection: Connection,
        new: SessionRow,
        first: TurnRow,
        key: str | None = None,
        sha256: str | None = None,
    ) -> tuple[SessionRow, TurnRow]:
        """Store a session with its first turn and return both.

        With the idempotency key of an earlier call, return what that call stored; keys of different callers
        must differ. Raises KeyReused if that call had another `sha256`, and Gone if the session was erased.
        """
        if stored := _by_key(connection, session.c.id, key, sha256):
            (known,) = find(connection, SessionRow, session.c.id == stored)
            of_session = turn.c.session_id == stored
            return known, find(connection, TurnRow, of_session, order=[turn.c.n, turn.c.created_at])[0]
        if are_erased(connection, [new.id]):
            raise Gone(new.id)
        request = {"idem_key": key, "request_hmac": request_hmac(connection, key, sha256)}
        connection.execute(insert(session).values(asdict(new) | {"consent_at": new.created_at} | request))
        return new, _insert_turn(connection, first, None, None)

    def session(self, id: str) -> SessionRow | None:
        """A session, or None."""
        return self.one(SessionRow, session.c.id == id)

    @reads
    def turns(self, connection: Connection, id: str) -> list[TurnRow]:
        """Turns of a session in order, without those undone."""
        return _live_turns(connection, id)

    def log(
        self, category: str, consent: Consent = "training"
    ) -> list[tuple[SessionRow, list[TurnRow], list[EventRow]]]:
        """Sessions of a category with this consent, oldest first, with their turns that were not undone and their
        events in order.
        """

        return self._log(session.c.category == category, session.c.consent == consent)

    def experiment_log(self, id: str) -> list[tuple[SessionRow, list[TurnRow], list[EventRow]]]:
        """The same of the sessions of an experiment that count: of each client the first one whose consent was not
        withdrawn.
        """
        places = places_of_clients(id)
        return self._log(session.c.id.in_(select(places.c.id).where(places.c.place == 1)))

    @reads
    def _log(
        self, connection: Connection, *chosen: Any
    ) -> list[tuple[SessionRow, list[TurnRow], list[EventRow]]]:
        ids = select(session.c.id).where(*chosen)
        turns: dict[str, list[TurnRow]] = {}
        of_turn = turn.c.session_id.in_(ids), turn.c.undone_at.is_(None)
        for one in find(connection, TurnRow, *of_turn, order=[turn.c.n]):
            turns.setdefault(one.session_id, []).append(one)
        events: dict[str, list[EventRow]] = {}
        happened_in = event.c.server_at, event.c.client_at, event.c.event_id
        for happened in find(connection, EventRow, event.c.session_id.in_(ids), order=happened_in):
            events.setdefault(happened.session_id, []).append(happened)
        return [
            (one, turns.get(one.id, []), events.get(one.id, []))
            for one in find(connection, SessionRow, *chosen, order=(session.c.created_at, session.c.id))
        ]

    @reads
    def count_by_consent(self, connection: Connection, category: str) -> dict[str, int]:
        """Number of sessions of a category by their consent."""
        counted = select(session.c.consent, func.count()).where(session.c.category == category)
        return {consent: count for consent, count in connection.execute(counted.group_by(session.c.consent))}

    @writes
    def add_turn(
        self,
        connection: Connection,
        new: TurnRow,
        after: int | None = None,
        key: str | None = None,
        sha256: str | None = None,
    ) -> TurnRow:
        """Store the next turn of a session and return it with its number.

        With the idempotency key of an earlier call, return the turn which that call stored. Raises KeyReused
        if that call had another `sha256`, TurnConflict if the last turn is not `after`, and Gone if the
        session was erased or has ended.
        """
        if stored := _turn_by_key(connection, new.session_id, key, sha256):
            return stored
        _touch(connection, new.session_id, new.created_at)
        present = connection.scalar(select(func.max(turn.c.n)).where(*_live(new.session_id))) or 0
        if after is not None and after != present:
            raise TurnConflict(present)
        return _insert_turn(connection, replace(new, n=present + 1), key, sha256)

    @reads
    def repeated(
        self, connection: Connection, session_id: str, key: str, sha256: str | None
    ) -> TurnRow | None:
        """The turn that was stored with an idempotency key, None for a new key.

        Raises KeyReused if it had another `sha256`.
        """
        return _turn_by_key(connection, session_id, key, sha256)

    @writes
    def undo(self, connection: Connection, session_id: str, n: int) -> list[TurnRow]:
        """Mark turn `n` and all later ones as undone and return the remaining turns.

        Raises Gone if the session was erased or has ended.
        """
        now = self.now()
        _touch(connection, session_id, now)
        connection.execute(update(turn).where(*_live(session_id), turn.c.n >= n).values(undone_at=now))
        return _live_turns(connection, session_id)

    @writes
    def set_consent(self, connection: Connection, id: str, consent: Consent) -> None:
        """Change the consent of a session. Raises Gone if there is no such session.

        Training data that hold it may not do so any more, also if the consent for training is given again.
        """
        now = self.now()
        changed = update(session).where(session.c.id == id).values(consent=consent, consent_at=now)
        if not connection.execute(changed).rowcount:
            raise Gone(id)
        if consent != "training":
            held = export_session.c.subject_hmac.in_(subjects(connection, [id]))
            not_yet = export_session.c.withdrawn_at.is_(None)
            connection.execute(update(export_session).where(held, not_yet).values(withdrawn_at=now))

    @writes
    def add_events(self, connection: Connection, events: Sequence[EventRow]) -> list[str]:
        """Store events; return "created", "duplicate" or "unknown" for each.

        Duplicate events have the id of another event; unknown ones refer to no turn of their session.
        """
        asked = turn.c.query_id.in_({one.query_id for one in events})
        found = connection.execute(select(turn.c.query_id, turn.c.session_id).where(asked))
        sessions = {query: owner for query, owner in found}
        seen = those_in(connection, event.c.event_id, {one.event_id for one in events})
        created, results = [], []
        for one in events:
            if one.event_id in seen:
                results.append("duplicate")
            elif sessions.get(one.query_id) != one.session_id:
                results.append("unknown")
            else:
                seen.add(one.event_id)
                created.append(asdict(one))
                results.append("created")
        if created:
            connection.execute(insert(event), created)
        return results

    def add_picture(self, feature: bytes, attrs: dict[str, Any], expires_at: datetime) -> str:
        """Store the vector of an uploaded picture and return its id."""
        new = PictureRow(id=f"pic_{token_hex(16)}", feature=feature, attrs=attrs, expires_at=expires_at)
        self.write(lambda connection: connection.execute(insert(picture).values(asdict(new))))
        return new.id

    def picture(self, id: str) -> PictureRow | None:
        """A picture that has not expired, or None."""
        return self.one(PictureRow, picture.c.id == id, picture.c.expires_at > self.now())


def _by_key(
    connection: Connection, id: Column[str], key: str | None, sha256: str | None, *where: Any
) -> str | None:
    """Id of the row stored with an idempotency key, or None. Raises KeyReused for another request."""
    if key is None:
        return None
    columns = id.table.c
    asked = select(id, columns.request_hmac).where(columns.idem_key == key, *where)
    for stored, request in connection.execute(asked):
        if request != request_hmac(connection, key, sha256):
            raise KeyReused
        return stored
    return None


def _touch(connection: Connection, session_id: str, at: datetime) -> None:
    """Set the time of the last activity. Raises Gone if the session was erased."""
    if not connection.execute(update(session).where(session.c.id == session_id).values(last_at=at)).rowcount:
        raise Gone(session_id)


def _turn_by_key(
    connection: Connection, session_id: str, key: str | None, sha256: str | None
) -> TurnRow | None:
    stored = _by_key(connection, turn.c.query_id, key, sha256, turn.c.session_id == session_id)
    return find(connection, TurnRow, turn.c.query_id == stored)[0] if stored else None


def _live(session_id: str) -> Any:
    """Conditions for the turns of a session that were not undone."""
    return turn.c.session_id == session_id, turn.c.undone_at.is_(None)


def _live_turns(connection: Connection, session_id: str) -> list[TurnRow]:
    return find(connection, TurnRow, *_live(session_id), order=[turn.c.n])


def _insert_turn(connection: Connection, new: TurnRow, key: str | None, sha256: str | None) -> TurnRow:
    """Insert a turn without personal data in its texts and return it as stored."""
    stored = replace(
        new,
        says=new.says and scrub(new.says),
        question=new.question and scrub(new.question),
        heard=scrub_all(new.heard),
    )
    request = {"idem_key": key, "request_hmac": request_hmac(connection, key, sha256)}
    connection.execute(insert(turn).values(asdict(stored) | request))
    return stored
