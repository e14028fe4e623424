"""Connections to SQLite and PostgreSQL, and their failures.

A transaction is of one of three modes: it reads, it writes ("write" in the option `mode` of the engine), or there
is none ("bare"). One transaction writes at a time in the whole database: SQLite allows no more, and on PostgreSQL
each one takes the same advisory lock. What it has read is therefore true until its commit.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import monotonic, sleep
from typing import Any

import msgspec
from sqlalchemy import URL, Connection, Engine, ExceptionContext, create_engine, event, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    IntegrityError,
    NoSuchModuleError,
    OperationalError,
    ProgrammingError,
    SQLAlchemyError,
)

from fashioniq.files import UserError, one_line, why
from fashioniq.service.store.rows import Unavailable
from fashioniq.service.store.sqlite_file import SqliteFile

WAIT = 5  # seconds for a lock, or for a connection
PAUSE = 0.002  # seconds between attempts to write
STATEMENT = 3600  # seconds of one on PostgreSQL: a migration, or the export of a large log
_ADVISORY_LOCK = 0x6661_7368  # of PostgreSQL, for transactions that write
_SQLITE = (
    "journal_mode=WAL",
    "synchronous=FULL",
    "foreign_keys=ON",
    "secure_delete=ON",
    "temp_store=MEMORY",
)


def engine_of(url: str) -> Engine:
    """Engine for a URL of SQLAlchemy. Raises UserError for a URL that is not usable; does not connect."""
    try:
        url.encode()  # half a surrogate pair is in no path
        parsed = make_url(url)
        sqlite = parsed.get_backend_name() == "sqlite"
        if not sqlite and parsed.get_backend_name() != "postgresql":
            raise ArgumentError("neither SQLite nor PostgreSQL")
        if sqlite and parsed.database in (None, "", ":memory:"):
            raise ArgumentError("no file")
        engine = create_engine(
            parsed,
            connect_args={} if sqlite else _postgresql(parsed),
            pool_pre_ping=True,
            pool_timeout=WAIT,
            hide_parameters=True,  # they are words of persons
            json_serializer=lambda value: msgspec.json.encode(value).decode(),
            json_deserializer=msgspec.json.decode,
        )
    except (ArgumentError, NoSuchModuleError, ValueError) as error:
        raise UserError(
            "expected the URL of a database, such as sqlite:///service.db or postgresql+psycopg://HOST/NAME "
            f"({why(error)})"
        ) from error
    except ImportError as error:
        raise UserError(
            f"PostgreSQL needs psycopg ({why(error)}); pip install 'fashioniq[postgres]'"
        ) from error
    if sqlite:
        (name,), options = engine.dialect.create_connect_args(parsed)
        event.listen(engine, "connect", _set_up_sqlite)
        SqliteFile(name, is_uri=bool(options.get("uri"))).watch(engine)
        event.listen(engine, "begin", _begin_sqlite)
        event.listen(engine, "handle_error", _replace_read_only)
    else:
        event.listen(engine, "begin", _begin_postgresql)
    return engine


def place_of(engine: Engine) -> str:
    """URL of a database as messages have it: without passwords."""
    return engine.url.difference_update_query(("password", "sslpassword")).render_as_string()


def _postgresql(url: URL) -> dict[str, Any]:
    """Parameters of connections to PostgreSQL. Those of the URL, and settings in PGOPTIONS, count instead."""
    given, milliseconds = url.normalized_query, int(WAIT * 1000)
    own = given.get("options", (os.environ.get("PGOPTIONS", ""),))
    limits = f"-c lock_timeout={milliseconds} -c statement_timeout={STATEMENT * 1000}"
    defaults = {
        "client_encoding": "utf8",  # also where PGCLIENTENCODING or the database has another one
        "connect_timeout": max(2, WAIT),  # libpq takes 1 as 2
        "tcp_user_timeout": milliseconds,
        # a server that is lost while it executes a statement: the default is 2 hours
        "keepalives_idle": 3 * max(2, WAIT),
        "keepalives_interval": max(2, WAIT),
    }
    unset = {name: value for name, value in defaults.items() if name not in given}
    # psycopg reads times in this style only; a role or database may have another one
    return unset | {"options": " ".join((limits, *own, "-c datestyle=ISO"))}


def _set_up_sqlite(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # `_begin_sqlite` begins transactions
    connection.execute(_busy_timeout())
    for pragma in _SQLITE:  # the first one does not wait while another process creates the log
        _until_free(partial(connection.execute, f"PRAGMA {pragma}"))


def _replace_read_only(context: ExceptionContext) -> None:
    """Open a connection again that SQLite opened while the file could not be written, and would never write to."""
    if getattr(context.original_exception, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_READONLY:
        context.is_disconnect, context.invalidate_pool_on_disconnect = True, False


def _begin_postgresql(connection: Connection) -> None:
    if connection.get_execution_options().get("mode") == "write":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})")


def _begin_sqlite(connection: Connection) -> None:
    """Begin a transaction, with the write lock of SQLite within WAIT seconds if it writes.

    SQLite itself tries every 100 ms in the end; a process that writes much would shut out the others.
    """
    mode = connection.get_execution_options().get("mode")
    if mode == "write":
        connection.exec_driver_sql("PRAGMA busy_timeout=0")
        try:
            _until_free(partial(connection.exec_driver_sql, "BEGIN IMMEDIATE"))
        finally:
            if not connection.invalidated:
                connection.exec_driver_sql(_busy_timeout())
    elif mode != "bare":
        connection.exec_driver_sql("BEGIN")


def _until_free(call: Callable[[], Any]) -> None:
    """Call again for WAIT seconds while another connection has the lock of SQLite."""
    until = monotonic() + WAIT
    while True:
        try:
            call()
            return
        except (OperationalError, sqlite3.OperationalError) as error:
            code = getattr(getattr(error, "orig", error), "sqlite_errorcode", 0) & 0xFF
            if code != sqlite3.SQLITE_BUSY or monotonic() > until:
                raise
        sleep(PAUSE)


def _busy_timeout() -> str:
    return f"PRAGMA busy_timeout={int(WAIT * 1000)}"


def clear_files(engine: Engine, rewrite: bool = False) -> bool:
    """Truncate the log of SQLite, which still has deleted rows; return False if another process prevented it.

    With `rewrite`, all pages are written anew first. Rows that are moved between pages leave copies in unused bytes
    there, which `secure_delete` does not know; of 40 files with a few deleted rows, two still had some.
    """
    if engine.dialect.name != "sqlite":
        return True
    with available(), engine.execution_options(mode="bare").connect() as connection:
        if rewrite:
            # the copy in between is as large as the file, and memory may not be; on the disk, it has no name
            connection.exec_driver_sql("PRAGMA temp_store=FILE")
            try:
                _until_free(partial(connection.exec_driver_sql, "VACUUM"))
            except OperationalError as error:
                if getattr(error.orig, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_BUSY:
                    # the log has filled the disk, and would keep what it took of it
                    connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
                    raise
                return False
            finally:
                if not connection.invalidated:
                    connection.exec_driver_sql("PRAGMA temp_store=MEMORY")
        busy, *_ = connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()
    return not busy


@contextmanager
def available() -> Iterator[None]:
    """Convert failures of the database as `converted` does."""
    try:
        yield
    except (SQLAlchemyError, UnicodeError) as error:
        raise converted(error) from error


def converted(error: BaseException) -> BaseException:
    """Unavailable for a failure of the database, without values of the statement, and UserError for a value that no
    database can store; otherwise the error itself.
    """
    if isinstance(error, UnicodeEncodeError):
        return UserError("expected text in UTF-8, found other bytes, or half a surrogate pair; correct it")
    if isinstance(error, UnicodeDecodeError):  # sqlite3 quotes a damaged schema
        return Unavailable("the database is not available (its schema is damaged)")
    if not isinstance(error, SQLAlchemyError) or isinstance(error, DataError | IntegrityError):
        return error
    # SQLite quotes text that is not UTF-8, which may be words of persons
    reason = why(getattr(error, "orig", None) or error).partition(" with text ")[0]
    return Unavailable(f"the database is not available ({one_line(reason)})")


def is_forbidden(error: BaseException | None) -> bool:
    """Whether SQLite failed as its file or folder cannot be opened or written."""
    code = getattr(getattr(error, "orig", None), "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)


def concerns_all(error: Exception) -> bool:
    """Whether an error in one write, such as a full disk, ends the transaction of the group."""
    return isinstance(error, SQLAlchemyError) and not isinstance(
        error, DataError | IntegrityError | ProgrammingError
    )
