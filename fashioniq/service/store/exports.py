"""Training data that were made from the log, and what is to be removed from them."""

from collections.abc import Iterable, Sequence

from msgspec.structs import asdict
from sqlalchemy import Connection, bindparam, insert, select, update

from fashioniq.service.store.database import Database, find, reads, those_in, writes
from fashioniq.service.store.privacy import subjects
from fashioniq.service.store.rows import ExportRow
from fashioniq.service.store.tables import erasure, export, export_session, session

_FORBIDDEN = export_session.c.subject_hmac.in_(
    select(erasure.c.subject_hmac)
) | export_session.c.withdrawn_at.is_not(None)
_TO_REMOVE = _FORBIDDEN, export_session.c.removed_at.is_(None)


class Exports(Database):
    """Which sessions training data hold. A record remains when its folder is deleted: runs may have started from it.

    Training data may not hold sessions that were erased since, or whose consent for training was withdrawn.
    """

    @writes
    def add_export(self, connection: Connection, new: ExportRow, session_ids: Sequence[str]) -> set[str]:
        """Store which sessions training data are going to hold.

        Return those that they may hold: the others were erased, or lost their consent, since the log was read.
        """
        present = those_in(connection, session.c.id, session_ids, session.c.consent == "training")
        connection.execute(insert(export).values(asdict(new) | {"sessions": len(present)}))
        if present:
            values = [{"export_id": new.id, "subject_hmac": one} for one in subjects(connection, present)]
            connection.execute(insert(export_session), values)
        return present

    @reads
    def exports(self, connection: Connection) -> list[ExportRow]:
        """All training data, also those whose folder was deleted."""
        return find(connection, ExportRow, order=[export.c.cut_at, export.c.id])

    @reads
    def stale_exports(self, connection: Connection) -> list[ExportRow]:
        """Training data that hold a session that they may not hold, to be written again without it."""
        ids = select(export_session.c.export_id).where(*_TO_REMOVE)
        stale = export.c.id.in_(ids), export.c.deleted_at.is_(None)
        return find(connection, ExportRow, *stale, order=[export.c.id])

    @reads
    def to_remove(self, connection: Connection, id: str) -> set[str]:
        """Hashes of the sessions that training data hold and may not hold."""
        asked = select(export_session.c.subject_hmac).where(export_session.c.export_id == id, *_TO_REMOVE)
        return set(connection.scalars(asked))

    @reads
    def forbidden(self, connection: Connection, id: str, session_ids: Sequence[str]) -> set[str]:
        """Those of the sessions that training data may not hold."""
        known, of_export = subjects(connection, session_ids), export_session.c.export_id == id
        found = those_in(connection, export_session.c.subject_hmac, known, of_export, _FORBIDDEN)
        return {known[subject] for subject in found}

    def set_removed(self, id: str, hashes: Iterable[str]) -> None:
        """Store that training data do not hold these sessions any more."""
        of_export = export_session.c.export_id == id, export_session.c.subject_hmac == bindparam("one")
        removed = update(export_session).where(*of_export).values(removed_at=self.now())
        values = [{"one": subject} for subject in hashes]
        self.write(lambda connection: connection.execute(removed, values) if values else None)

    @reads
    def forbidden_held(self, connection: Connection) -> dict[str, set[str]]:
        """Hashes of the sessions that training data hold or have held and may not hold, by the id of the data."""
        asked = select(export_session.c.export_id, export_session.c.subject_hmac).where(_FORBIDDEN)
        held: dict[str, set[str]] = {}
        for id, subject in connection.execute(asked):
            held.setdefault(id, set()).add(subject)
        return held

    def set_deleted(self, id: str) -> None:
        """Store that the folder of training data was deleted."""
        deleted = update(export).where(export.c.id == id).values(deleted_at=self.now())
        self.write(lambda connection: connection.execute(deleted))
