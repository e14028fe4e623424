"""Events that wait in a file while the database is not available.

A process has at most one such file, and a lock on it that ends with the process: a file without one is taken over by
another process. Events are stored at least once; their ids make it exactly once.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from errno import ENOENT
from glob import escape
from itertools import islice
from pathlib import Path
from secrets import token_hex
from threading import Lock

import msgspec
from filelock import FileLock
from sqlalchemy.exc import SQLAlchemyError

from fashioniq.files import cannot_write, sync_folder
from fashioniq.service.store.rows import EventRow, Unavailable
from fashioniq.service.store.sessions import Sessions

MOST = 64 * 2**20  # bytes of a file
AT_ONCE = 1000  # events stored in one transaction
_decoder = msgspec.json.Decoder(EventRow)


class Spool:
    """Stores events in the database or, while that is not available, in a file of `folder`.

    By default, the file is beside that of SQLite; there is none for PostgreSQL. Each database needs its own folder.
    `add` may be called from several threads, `replay` from one.
    """

    def __init__(self, store: Sessions, folder: Path | None = None) -> None:
        database = Path(store.engine.url.database or "")
        if folder is None and store.engine.dialect.name == "sqlite":
            folder = database.parent
        self._store, self._folder, self._prefix = store, folder, f"{database.name}-events-"
        self._path: Path | None = None
        self._begin = self._end = 0  # bytes of the file that wait
        self._lock = Lock()  # for these

    def add(self, events: Sequence[EventRow]) -> list[str]:
        """Store events; return "created", "duplicate", "unknown" (see `Store.add_events`) or "waiting" for each.

        While some wait, later ones wait behind them and not for the database. Raises Unavailable if the events can be
        stored neither in the database nor in a file, or the file is full.
        """
        if self._begin == self._end:
            try:
                return self._store.add_events(events)
            except Unavailable:
                if self._folder is None:
                    raise
        with self._lock:
            self._append(b"".join(msgspec.json.encode(one) + b"\n" for one in events))
        return ["waiting"] * len(events)

    def replay(self) -> list[str]:
        """Store the next of the waiting events, also those of dead processes; return what became of each.

        This is "created", "duplicate", or for events that are dropped "unknown" or "damaged". Empty if none wait.
        Raises Unavailable if the database is not available, and OSError if the file cannot be read or removed.
        """
        outcomes: list[str] = []
        while not outcomes and (path := self._path or self._take_over()):
            lines = self._next(path)
            outcomes = self._stored(lines)
            with self._lock:
                self._begin = self._begin + sum(map(len, lines)) if lines else self._end
                if self._begin == self._end:
                    self._remove(path)
        return outcomes

    def _append(self, lines: bytes) -> None:
        path = self._path or Path(self._folder or "", f"{self._prefix}{token_hex(8)}.jsonl")
        try:
            if self._path is None:
                self._take(path)
            if self._end + len(lines) > MOST:
                raise Unavailable(f"the database is not available, and {path} has its maximum size")
            with open(path, "ab") as file:
                self._end = min(self._end, file.seek(0, os.SEEK_END))  # less if someone deleted the file
                self._begin = min(self._begin, self._end)
                file.truncate(self._end)  # what a failure left
                file.write(lines)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise Unavailable(str(cannot_write(path, error))) from error
        self._end += len(lines)

    def _take(self, path: Path) -> None:
        """Lock a file, which is created if need be. Raises OSError if another process has the lock.

        A folder that was moved away is not created again, as it could not be moved back then.
        """
        if not path.parent.is_dir():
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT))
        lock = FileLock(path.with_suffix(".lock"), thread_local=False, fallback_to_soft=False)
        lock.acquire(timeout=0)
        with open(path, "ab+") as file:
            file.seek(0)
            complete = sum(len(line) for line in file if line.endswith(b"\n"))  # not a line that a crash cut
        sync_folder(path.parent)
        self._held, self._path, self._begin, self._end = lock, path, 0, complete

    def _take_over(self) -> Path | None:
        """Take a file that a dead process left, if there is one, and return its path."""
        if self._folder is None:
            return None
        left = {path.with_suffix(".jsonl") for path in self._folder.glob(f"{escape(self._prefix)}*")}
        with self._lock:
            for path in sorted(left):
                if self._path is None:
                    with suppress(OSError):
                        self._take(path)
        return self._path

    def _next(self, path: Path) -> list[bytes]:
        """The first lines that wait."""
        lines, left = [], self._end - self._begin
        with open(path, "rb") as file:
            file.seek(self._begin)
            for line in islice(file, AT_ONCE):
                left -= len(line)
                if left < 0:  # being written
                    break
                lines.append(line)
        return lines

    def _stored(self, lines: list[bytes]) -> list[str]:
        """Store the events of some lines, one by one if they cannot be stored together."""
        try:
            return self._store.add_events([_decoder.decode(line) for line in lines])
        except (msgspec.DecodeError, SQLAlchemyError):
            if len(lines) == 1:
                return ["damaged"]
            return [outcome for line in lines for outcome in self._stored([line])]

    def _remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        with suppress(OSError):  # Windows cannot remove open files
            path.with_suffix(".lock").unlink()
        self._held.release()
        self._path = None
