"""The file of SQLite and its log, which someone may delete or replace while they are open.

SQLite would go on in the files that it has open, and all that is written there would be gone after a restart. A new
connection would open or create another file, or mix two logs.
"""

import os
import re
import threading
from typing import Any, ClassVar, NamedTuple
from urllib.parse import unquote
from weakref import WeakValueDictionary

from sqlalchemy import Connection, Engine, event

from fashioniq.service.store.rows import Replaced

_FACT = "fashioniq_file"  # of a connection
Identity = tuple[int, int]  # device and inode


class Content(NamedTuple):
    """What the header of a database file says of its content: a random number, and the number of its last write.

    Both are 0 in a database that is new, or was last written by an earlier version.
    """

    id: int
    writes: int


class _Header:
    """The open header of a file of SQLite, of which there is one in a process.

    It is open for as long as there may be connections: to close any descriptor of a file ends all locks of the process.
    """

    _of: ClassVar[WeakValueDictionary[Identity, "_Header"]] = WeakValueDictionary()

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            os.close(self._descriptor)

    @classmethod
    def of(cls, path: str, identity: Identity) -> "_Header":
        """The header of a file."""
        found = cls._of.get(identity)
        return cls._of.setdefault(identity, cls(path)) if found is None else found

    def content(self) -> Content | None:
        """Content of the file, see https://sqlite.org/fileformat.html; None if it has no header."""
        header = os.pread(self._descriptor, 72, 0)
        if len(header) < 72:
            return None
        return Content(*(int.from_bytes(header[place : place + 4]) for place in (68, 60)))


class SqliteFile:
    """Identity of a database file since its first connection, and of its log, which ends with the last connection.

    `name` is the path of the file, or with `is_uri` a URI such as file:service.db?mode=ro.
    """

    def __init__(self, name: str, is_uri: bool) -> None:
        path = unquote(re.sub("^file:(//[^/]*)?|[?#].*", "", name)) if is_uri else name
        self._path = os.path.abspath(path)
        self._log_path = ""
        self._file: Identity | None = None
        self._log: Identity | None = None
        self._header: _Header | None = None
        self._content = Content(0, 0)
        self._mixed = False  # for good, as the log overwrites parts of what was copied
        self._open = 0  # connections
        self._lock = threading.Lock()  # for the log and their number

    def watch(self, engine: Engine) -> None:
        """Let connections and transactions of an engine raise Replaced if the files are no longer the same."""
        event.listen(engine, "do_connect", self._check_again)
        # first, before anything is read: with the log, which is found by its path, another file would be written to
        event.listen(engine, "connect", self._check_again, insert=True)
        event.listen(engine, "connect", self._connected)
        event.listen(engine, "close", self._closed)
        event.listen(engine, "begin", lambda _: self.check())

    def check(self, written: bool = False) -> None:
        """Raise Replaced if the paths no longer name the files that were opened. What was `written` is in the log."""
        if (found := _identity(self._path)) != self._file:
            raise _replaced(self._path, found)
        self._check_content()
        with self._lock:
            found = _identity(self._log_path)
            if written and self._log is None:
                self._log = found
            if (written or self._log) and (found is None or found != self._log):
                raise _replaced(self._log_path, found)

    def _check_content(self) -> None:
        """Raise Replaced if another database, or an earlier state of this one, was copied into the file."""
        if self._header is None:
            return
        with self._lock:
            before, found = self._content, self._header.content()
            if before.id and found:
                older = (found.writes - before.writes) % 2**32 > 2**31
                self._mixed = self._mixed or older or found.id != before.id
            if not self._mixed and (found or not before.id):
                self._content = found or before
                return
        raise Replaced(
            f"expected in {self._path} the database that was opened, found another one or an earlier state; stop "
            f"the service, put the database there without {os.path.basename(self._log_path)}, and start it again"
        )

    def _check_again(self, *_: Any) -> None:
        if self._file is not None:
            self.check()

    def _connected(self, _: Any, record: Any) -> None:
        if self._file is None:
            self._file = _identity(self._path)
            if self._file and os.name == "posix":  # elsewhere, nobody can write to an open file
                self._header = _Header.of(self._path, self._file)
            self._log_path = f"{os.path.realpath(self._path)}-wal"  # SQLite follows links
        self.check()
        with self._lock:
            self._open += 1
            if self._log is None:  # also after this in a new database, where the first write creates it
                self._log = _identity(self._log_path)
        record.info[_FACT] = self

    def _closed(self, _: Any, record: Any) -> None:
        if record.info.pop(_FACT, None):
            with self._lock:
                self._open -= 1
                if not self._open:
                    self._log = None  # the last connection, also of other processes, removes it


def count_write(connection: Connection) -> None:
    """Number a transaction that writes, so that an earlier state of the file can be told from the present one."""
    if _FACT in connection.info:
        (number,) = connection.exec_driver_sql("PRAGMA user_version").one()
        connection.exec_driver_sql(f"PRAGMA user_version = {(number + 1 + 2**31) % 2**32 - 2**31}")


def check_written(connection: Connection) -> None:
    """Raise Replaced if what was just committed is not in the files that others would open."""
    if (file := connection.info.get(_FACT)) is not None:
        file.check(written=True)


def _identity(path: str) -> Identity | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _replaced(path: str, found: Identity | None) -> Replaced:
    return Replaced(
        f"expected the file that was opened, found {'another one' if found else 'none'} in {path}; put it back, "
        "or restart the service"
    )
