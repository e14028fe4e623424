"""A log on each database, and a clock that tests move."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier

import pytest

from fashioniq.service.store import SessionRow, Store, TurnRow
from tests.waiting import LIMIT


class Clock:
    """A clock that a test moves."""

    def __init__(self):
        self.now = datetime(2026, 11, 22, 12, tzinfo=UTC)

    def __call__(self):
        return self.now

    def move(self, **duration):
        self.now += timedelta(**duration)


class Log:
    """Sessions and turns without their details."""

    def __init__(self, store, clock):
        self.store, self.clock, self.asked = store, clock, 0

    def session(self, id="s", **details):
        now = self.clock()
        return SessionRow(
            id=id, category="dresses", model="dresses@1", created_at=now, last_at=now, **details
        )

    def turn(self, session="s", says=None, **details):
        self.asked += 1
        kind = "start" if says is None else "says"
        made = {"query_id": f"{session}-{self.asked}", "n": 1, "kind": kind, "created_at": self.clock()}
        return TurnRow(session_id=session, says=says, **made | details)

    def start(self, id="s", **details):
        return self.store.add_session(self.session(id, **details), self.turn(id))

    def say(self, says="is navy", session="s", after=None, key=None, **details):
        return self.store.add_turn(self.turn(session, says, **details), after, key, "hash" if key else None)

    def stored(self, session="s"):
        return [turn.says for turn in self.store.turns(session)]


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def open_store(url, clock):
    """Open the database again, as another process of the service does."""
    opened = []

    def open_store(url=url):
        opened.append(Store.open(url, clock))
        return opened[-1]

    yield open_store
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store):
    return open_store()


@pytest.fixture
def log(store, clock):
    return Log(store, clock)


@pytest.fixture
def new_log(clock):
    return lambda store: Log(store, clock)


@pytest.fixture
def at_once():
    """Call functions in as many threads at the same time; return their results or exceptions."""

    def at_once(*functions):
        barrier = Barrier(len(functions))

        def call(function):
            barrier.wait(LIMIT)
            try:
                return function()
            except Exception as error:
                return error

        with ThreadPoolExecutor(len(functions)) as pool:
            return list(pool.map(call, functions))

    return at_once
