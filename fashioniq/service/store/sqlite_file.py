"""The file of SQLite and its log, which someone may delete or replace while they are open.

SQLite would go on in the files that it has open, and all that is written there would be gone after a restart. A new
connection would open or create another file, or mix two logs.
"""

import os
import re
import threading
from typing import Any
from urllib.parse import unquote

from sqlalchemy import Connection, Engine, event

from fashioniq.service.store.rows import Replaced

_FACT = "fashioniq_file"  # of a connection
Identity = tuple[int, int]  # device and inode


class SqliteFile:
    """Identity of a database file since its first connection, and of its log, which ends with the last connection.

    `name` is the path of the file, or with `is_uri` a URI such as file:service.db?mode=ro.
    """

    def __init__(self, name: str, is_uri: bool) -> None:
        self._path = os.path.abspath(_path_of(name) if is_uri else name)
        self._log_path = ""
        self._file: Identity | None = None
        self._log: Identity | None = None
        self._open = 0  # connections
        self._lock = threading.Lock()  # for the log and their number

    def watch(self, engine: Engine) -> None:
        """Let connections and transactions of an engine raise Replaced if the files are no longer the same."""
        event.listen(engine, "do_connect", lambda *_: None if self._file is None else self.check())
        event.listen(engine, "connect", self._connected)
        event.listen(engine, "close", self._closed)
        event.listen(engine, "begin", lambda _: self.check())

    def check(self, written: bool = False) -> None:
        """Raise Replaced if the paths no longer name the files that were opened. What was `written` is in the log."""
        if (found := _identity(self._path)) != self._file:
            raise _replaced(self._path, found)
        with self._lock:
            found = _identity(self._log_path)
            if written and self._log is None:
                self._log = found
            if (written or self._log) and (found is None or found != self._log):
                raise _replaced(self._log_path, found)

    def _connected(self, _: Any, record: Any) -> None:
        if self._file is None:
            self._file = _identity(self._path)
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


def check_written(connection: Connection) -> None:
    """Raise Replaced if what was just committed is not in the files that others would open."""
    if (file := connection.info.get(_FACT)) is not None:
        file.check(written=True)


def _path_of(uri: str) -> str:
    return unquote(re.sub("^file:(//[^/]*)?|[?#].*", "", uri))


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
