"""Connections of the store, and its writes.

One writer at a time in the whole database, on both engines: SQLite allows no more, and on PostgreSQL each write
transaction takes the same advisory lock. A check followed by a write is therefore never interleaved with
another write. Each process has one writer thread; it executes all waiting writes in one transaction with one
commit (group commit), each in a savepoint of its own.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Self, TypeVar

import msgspec
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    FromClause,
    Select,
    create_engine,
    delete,
    event,
    insert,
    make_url,
    select,
)
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    IntegrityError,
    NoSuchModuleError,
    ProgrammingError,
    SQLAlchemyError,
)

from fashioniq.files import UserError, one_line, why
from fashioniq.store import tables
from fashioniq.store.rows import Unavailable

T = TypeVar("T")
R = TypeVar("R", bound=msgspec.Struct)
Work = Callable[[Connection], T]

WAIT = 5  # seconds for a lock, or for a connection
_AT_ONCE = 500  # values in a statement; both engines have a limit
_ADVISORY_LOCK = 0x6661_7368  # of PostgreSQL, for write transactions
_SQLITE = (
    "journal_mode=WAL",
    "synchronous=FULL",
    "foreign_keys=ON",
    "secure_delete=ON",
    "temp_store=MEMORY",
)


def utc_now() -> datetime:
    """Current time in UTC."""
    return datetime.now(UTC)


class Database:
    """A database with the newest schema. `now` returns the current time, with a time zone."""

    def __init__(self, engine: Engine, now: Callable[[], datetime]) -> None:
        self.engine, self.now = engine, now
        self._writing = engine.execution_options(writing=True)
        self._waiting: SimpleQueue[tuple[Work[Any], Future[Any]] | None] = SimpleQueue()
        self._writer = threading.Thread(target=self._write_waiting, name="store writer", daemon=True)

    @classmethod
    def open(cls, url: str, now: Callable[[], datetime] = utc_now) -> Self:
        """Open a database, such as sqlite:///service.db, and create or update its tables.

        Several processes may open it at once. Raises UserError for a URL that is not usable and for a schema
        of a newer version, and Unavailable if the database cannot be reached or written.
        """
        store = cls(_engine(url), now)
        try:
            with _available():
                store._update_schema()
        except BaseException:
            store.engine.dispose()
            raise
        store._writer.start()
        return store

    def close(self) -> None:
        """Finish the waiting writes and close all connections."""
        if self._writer.is_alive():
            self._waiting.put(None)
            self._writer.join()
        self.engine.dispose()

    def check(self) -> None:
        """Raise Unavailable if the database cannot be written."""

        def work(connection: Connection) -> None:
            # SQLite writes nothing for an update that changes nothing
            connection.execute(insert(tables.secret).values(epoch=-1, value=b""))
            connection.execute(delete(tables.secret).where(tables.secret.c.epoch == -1))

        self.write(work)

    def read(self, work: Work[T]) -> T:
        """Result of a function that reads."""
        with _available(), self.engine.connect() as connection:
            return work(connection)

    def write(self, work: Work[T]) -> T:
        """Result of a function that writes; its changes are durable when this returns.

        If the function raises, its changes are discarded. It must not call `write` itself.
        """
        if not self._writer.is_alive():
            raise Unavailable("the database is closed")
        done: Future[T] = Future()
        self._waiting.put((work, done))
        return done.result()

    def _write_waiting(self) -> None:
        """Body of the writer thread; None in the queue ends it."""
        group: list[tuple[Work[Any], Future[Any]] | None] = []
        while None not in group:
            group = [self._waiting.get()]
            while not self._waiting.empty():
                group.append(self._waiting.get())
            self._write_group([job for job in group if job])

    def _write_group(self, group: list[tuple[Work[Any], Future[Any]]]) -> None:
        """Execute writes in one transaction and set their results after its commit."""
        outcomes: list[tuple[Any, BaseException | None]] = []
        try:
            with _available(), self._writing.begin() as connection:
                for work, _ in group:
                    try:
                        with connection.begin_nested():
                            result = work(connection)
                        outcomes.append((result, None))
                    except Exception as error:
                        if _concerns_all(error):
                            raise
                        outcomes.append((None, _converted(error)))
        except Exception as error:
            outcomes = [(None, error)] * len(group)
        for (_, done), (result, failure) in zip(group, outcomes, strict=True):
            if failure is None:
                done.set_result(result)
            else:
                done.set_exception(failure)

    def _update_schema(self) -> None:
        scripts = ScriptDirectory.from_config(_alembic())
        with self.engine.connect() as connection:
            found = MigrationContext.configure(connection).get_current_revision()
        if found == scripts.get_current_head():
            return
        if found is not None and found not in {script.revision for script in scripts.walk_revisions()}:
            raise UserError(
                f"expected a database of this version of fashioniq or an earlier one, found revision {found}; "
                "update fashioniq"
            )
        with self._writing.begin() as connection:
            migrate(connection)

    def _clear_files(self) -> bool:
        """Overwrite the log of SQLite, which still has deleted rows; return whether no reader prevented it."""
        if self.engine.dialect.name != "sqlite":
            return True
        with _available():
            connection = self.engine.raw_connection()
            try:
                cursor = connection.cursor()
                busy, *_ = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()  # type: ignore[union-attr, misc]
                cursor.close()
            finally:
                connection.close()
        return not busy


def migrate(connection: Connection, revision: str = "head") -> None:
    """Bring the schema to a revision, in the transaction of the connection; "base" removes all tables."""
    config = _alembic()
    config.attributes["connection"] = connection
    (command.downgrade if revision == "base" else command.upgrade)(config, revision)


def _alembic() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    return config


def _postgresql() -> dict[str, Any]:
    milliseconds = int(WAIT * 1000)
    return {
        "connect_timeout": max(2, WAIT),  # libpq takes 1 as 2
        "tcp_user_timeout": milliseconds,
        "options": f"-c lock_timeout={milliseconds}",
    }


def _engine(url: str) -> Engine:
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() not in ("sqlite", "postgresql"):
            raise ArgumentError("neither SQLite nor PostgreSQL")
        if parsed.get_backend_name() == "sqlite" and parsed.database in (None, "", ":memory:"):
            raise ArgumentError("no file")
        engine = create_engine(
            parsed,
            connect_args={} if parsed.get_backend_name() == "sqlite" else _postgresql(),
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
    sqlite = engine.dialect.name == "sqlite"

    @event.listens_for(engine, "connect")
    def connect(connection: Any, _: Any) -> None:
        if sqlite:
            connection.isolation_level = None  # `begin` begins transactions
            for pragma in (f"busy_timeout={int(WAIT * 1000)}", *_SQLITE):
                connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writing = connection.get_execution_options().get("writing")
        if sqlite:
            connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")
        elif writing:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})")

    return engine


@contextmanager
def _available() -> Iterator[None]:
    """Convert failures of the database to Unavailable."""
    try:
        yield
    except SQLAlchemyError as error:
        raise _converted(error) from error


def _converted(error: BaseException) -> BaseException:
    """Unavailable for a failure of the database, without values of the statement; otherwise the error itself."""
    if not isinstance(error, SQLAlchemyError) or isinstance(error, DataError | IntegrityError):
        return error
    return Unavailable(
        f"the database is not available ({one_line(why(getattr(error, 'orig', None) or error))})"
    )


def _concerns_all(error: Exception) -> bool:
    """Whether an error in one write, such as a full disk, ends the transaction of the group."""
    return isinstance(error, SQLAlchemyError) and not isinstance(
        error, DataError | IntegrityError | ProgrammingError
    )


def find(
    connection: Connection, kind: type[R], table: FromClause, *where: Any, order: Iterable[Any] = ()
) -> list[R]:
    """Rows of a table as structs, whose fields are named as the columns."""
    columns = [table.c[name] for name in kind.__struct_fields__]
    statement: Select[Any] = select(*columns).where(*where).order_by(*order)
    return [kind(**row) for row in connection.execute(statement).mappings()]


def those_in(connection: Connection, column: ColumnElement[str], values: Iterable[str]) -> set[str]:
    """Those values that a column of a table has."""
    asked = list(values)
    parts = (asked[start : start + _AT_ONCE] for start in range(0, len(asked), _AT_ONCE))
    return {found for part in parts for found in connection.scalars(select(column).where(column.in_(part)))}
