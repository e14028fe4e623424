"""Reading and writing in transactions."""

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from datetime import UTC, datetime
from functools import partial, wraps
from math import inf
from queue import SimpleQueue
from time import monotonic, sleep
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import msgspec
from sqlalchemy import ColumnElement, Connection, Engine, Select, Table, delete, insert, select

from fashioniq.service.store import tables
from fashioniq.service.store.engine import PAUSE, available, concerns_all, converted, engine_of, is_forbidden
from fashioniq.service.store.rows import (
    EventRow,
    ExperimentRow,
    ExportRow,
    KeyRow,
    ModelRow,
    PictureRow,
    ProductRow,
    SessionRow,
    TurnRow,
    Unavailable,
)
from fashioniq.service.store.schema import update_schema
from fashioniq.service.store.sqlite_file import check_written, count_write

T = TypeVar("T")
R = TypeVar("R", bound=msgspec.Struct)
D = TypeVar("D", bound="Database")
P = ParamSpec("P")
Work = Callable[[Connection], T]
Job = tuple[Work[Any], Future[Any]]

_TABLES: dict[type, Table] = {
    EventRow: tables.event,
    ExperimentRow: tables.experiment,
    ExportRow: tables.export,
    KeyRow: tables.api_key,
    ModelRow: tables.category_model,
    PictureRow: tables.picture,
    ProductRow: tables.product,
    SessionRow: tables.session,
    TurnRow: tables.turn,
}
utc_now = partial(datetime.now, UTC)
STORED = 600.0  # seconds for a write behind others, and for all of them at the end
LONGEST = 0.1  # seconds after which a transaction takes no more of the waiting writes
_AT_ONCE = 500  # values in a statement, for which both engines have a limit, and rows that are fetched


def reads(method: Callable[Concatenate[D, Connection, P], T]) -> Callable[Concatenate[D, P], T]:
    """Method that gets the connection of a `read`."""

    @wraps(method)
    def call(self: D, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.read(lambda connection: method(self, connection, *args, **kwargs))

    return call


def writes(method: Callable[Concatenate[D, Connection, P], T]) -> Callable[Concatenate[D, P], T]:
    """Method that gets the connection of a `write`."""

    @wraps(method)
    def call(self: D, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.write(lambda connection: method(self, connection, *args, **kwargs))

    return call


class Database:
    """A database with the newest schema. `now` returns the current time, with a time zone.

    One thread of each process writes. It executes all waiting writes in one transaction with one commit (group
    commit), each in a savepoint of its own.
    """

    def __init__(self, engine: Engine, now: Callable[[], datetime]) -> None:
        self.engine, self.now = engine, now
        self._writing = engine.execution_options(mode="write")
        self._waiting: SimpleQueue[Job | None] = SimpleQueue()
        self._written = -inf  # when a transaction that wrote was last committed; none failed since
        self._writer = threading.Thread(target=self._write_waiting, name="store writer", daemon=True)

    @classmethod
    def open(cls, url: str, now: Callable[[], datetime] = utc_now, create: bool = True) -> Self:
        """Open a database, such as sqlite:///service.db, and create or update its tables.

        Several processes may open it at once. Raises UserError for a URL that is not usable, for a schema
        of a newer version, and without `create` for a database that does not exist or has no tables, and Unavailable
        if it cannot be reached or written.
        """
        store = cls(engine_of(url), now)
        try:
            with available():
                update_schema(store.engine, create)
        except BaseException as error:
            store.engine.dispose()
            if is_forbidden(error.__cause__):
                place = store.engine.url.render_as_string()
                raise Unavailable(
                    f"{error}; check that this user may write {place} and its folder"
                ) from error
            raise
        store._writer.start()
        return store

    def close(self) -> None:
        """Finish the waiting writes and close all connections. Raises Unavailable if a write does not end."""
        if self._writer.is_alive():
            self._waiting.put(None)
            self._writer.join(STORED)
        self.engine.dispose()
        if self._writer.is_alive():
            raise Unavailable(f"the database has not completed the last writes within {STORED:g} seconds")

    def check(self, recent: float = 0.0) -> None:
        """Raise Unavailable if the database cannot be read, or not be written: if the last write was successful, and
        at most `recent` seconds ago, it can be.
        """
        if monotonic() - self._written < recent:
            self.read(lambda connection: connection.execute(select(1)))
        else:
            self.write(_write_nothing)

    def read(self, work: Work[T]) -> T:
        """Result of a function that reads."""
        with available(), self.engine.connect() as connection:
            return work(connection)

    def one(self, kind: type[R], *where: Any) -> R | None:
        """A row as a struct, or None."""
        return next(iter(self.read(lambda connection: find(connection, kind, *where))), None)

    def write(self, work: Work[T]) -> T:
        """Result of a function that writes; its changes are durable when this returns.

        If the function raises, its changes are discarded. It must not call `write` itself. Raises Unavailable if
        its turn does not come, or if it does not end, within STORED seconds; in the latter case it may still succeed.
        """
        if not self._writer.is_alive():
            raise Unavailable("the database is closed")
        done: Future[T] = Future()
        self._waiting.put((work, done))
        if not wait([done], STORED).done:
            done.cancel()
            raise Unavailable(f"the database has not completed a write within {STORED:g} seconds")
        return done.result(0)

    def _write_waiting(self) -> None:
        """Body of the writer thread; None in the queue ends it."""
        left: list[Job] = []
        ended = False
        while left or not ended:
            taken = [] if left else [self._waiting.get()]
            while not self._waiting.empty():
                taken.append(self._waiting.get())
            ended = ended or None in taken
            begun = [job for job in taken if job and job[1].set_running_or_notify_cancel()]
            left = self._write_group(left + begun)
            sleep(PAUSE)  # for other processes

    def _write_group(self, group: list[Job]) -> list[Job]:
        """Execute writes in one transaction and set their results after its commit.

        Return those for which it would take too long: other processes wait for its end.
        """
        outcomes: list[tuple[Any, BaseException | None]] = []
        try:
            with available(), self._writing.connect() as connection:
                with connection.begin():
                    until = monotonic() + LONGEST
                    for work, _ in group:
                        try:
                            # All share one commit, because that waits for the disk. A savepoint each keeps the
                            # failure of one write from discarding those of other requests.
                            with connection.begin_nested():
                                result = work(connection)
                            outcomes.append((result, None))
                        except Exception as error:
                            if concerns_all(error):
                                raise
                            outcomes.append((None, converted(error)))
                        if monotonic() > until:
                            break
                    count_write(connection)
                check_written(connection)
            self._written = monotonic()
        except Exception as error:
            self._written = -inf
            outcomes = [(None, error)] * len(group)
        for (_, done), (result, failure) in zip(group, outcomes, strict=False):
            if failure is None:
                done.set_result(result)
            else:
                done.set_exception(failure)
        return group[len(outcomes) :]


def _write_nothing(connection: Connection) -> None:
    # SQLite writes nothing for an update that changes nothing
    connection.execute(insert(tables.secret).values(epoch=-1, value=b""))
    connection.execute(delete(tables.secret).where(tables.secret.c.epoch == -1))


def find(connection: Connection, kind: type[R], *where: Any, order: Iterable[Any] = ()) -> list[R]:
    """Rows of the table of a struct, whose columns are named as its fields."""
    return list(each(connection, kind, *where, order=order))


def each(connection: Connection, kind: type[R], *where: Any, order: Iterable[Any] = ()) -> Iterator[R]:
    """The same rows, read one after the other. Raises Unavailable for a value that is not of its type."""
    table = _TABLES[kind]
    asked: Select[Any] = select(*(table.c[name] for name in kind.__struct_fields__)).where(*where)
    rows = connection.execute(asked.order_by(*order).execution_options(yield_per=_AT_ONCE))
    try:
        for row in rows:
            yield msgspec.convert(dict(zip(kind.__struct_fields__, row, strict=True)), kind)
    except (TypeError, ValueError) as error:  # of times and JSON; their texts may have words of persons
        raise Unavailable(
            f"expected valid values in the table {table.name}, found others; restore the database from a backup"
        ) from error


def those_in(
    connection: Connection, column: ColumnElement[str], values: Iterable[str], *where: Any
) -> set[str]:
    """Those values that a column of a table has."""
    asked = list(values)
    parts = (asked[start : start + _AT_ONCE] for start in range(0, len(asked), _AT_ONCE))
    statements = (select(column).where(column.in_(part), *where) for part in parts)
    return {found for statement in statements for found in connection.scalars(statement)}
