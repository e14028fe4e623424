"""The same tests on SQLite and PostgreSQL. The server of PostgreSQL is started once for all workers and stops
with pytest, also if pytest is killed.
"""

import os
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from glob import glob
from pathlib import Path
from threading import Barrier
from uuid import uuid4

import pytest
from sqlalchemy import create_engine, text

from fashioniq.store import Session, Store, Turn

# SIGQUIT: immediate shutdown
STOP = """
while kill -0 "$1"; do sleep 0.5; done
kill -QUIT "$(head -n 1 "$2/data/postmaster.pid")"; sleep 1; rm -rf "$2"
"""


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
        return Session(id=id, category="dresses", model="dresses@1", created_at=now, last_at=now, **details)

    def turn(self, session="s", says=None, **details):
        self.asked += 1
        kind = "start" if says is None else "says"
        made = {"query_id": f"{session}-{self.asked}", "n": 1, "kind": kind, "created_at": self.clock()}
        return Turn(session_id=session, says=says, **made | details)

    def start(self, id="s", **details):
        return self.store.add_session(self.session(id, **details), self.turn(id))

    def say(self, says="is navy", session="s", after=None, key=None, **details):
        return self.store.add_turn(self.turn(session, says, **details), after, key, "hash" if key else None)

    def stored(self, session="s"):
        return [turn.says for turn in self.store.turns(session)]


def start_server(folder, pytest_process):
    """Start PostgreSQL, as another user if this one is root, and create an empty database of the service."""
    programs = Path(shutil.which("initdb") or max(glob("/usr/lib/postgresql/*/bin/initdb"), default="none"))
    if not programs.exists():
        return None
    programs, own = programs.resolve().parent, Path(tempfile.mkdtemp(prefix="pg-"))
    user = {} if os.getuid() else {"user": "nobody", "group": "nogroup", "extra_groups": []}
    if user:
        shutil.chown(own, "nobody", "nogroup")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": own}
    stop = ["sh", "-c", STOP, "sh", str(pytest_process), own]
    subprocess.Popen(stop, start_new_session=True, stdin=subprocess.DEVNULL, **quiet)
    quiet |= user
    initdb = ["initdb", "-D", own / "data", "-A", "trust", "-U", "shop", "--no-sync", "--no-instructions"]
    subprocess.run([programs / initdb[0], *initdb[1:]], check=True, **quiet)
    options = f"-F -k {own} -c listen_addresses='' -c max_connections=100"
    start = ["-D", own / "data", "-o", options, "-l", own / "log", "-w", "start"]
    subprocess.run([programs / "pg_ctl", *start], check=True, **quiet)
    return f"postgresql+psycopg://shop@/{{}}?host={own}"


@pytest.fixture(scope="session")
def server(once):
    """URL of databases on the server, with {} for the name."""
    # a worker of pytest-xdist is a child of the process to wait for
    process = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
    url = once("postgresql", start_server, process)
    return url or pytest.skip("needs PostgreSQL: apt-get install postgresql")


def execute(url, *statements):
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()


@pytest.fixture(scope="session")
def administer(server):
    """Execute statements on the server."""
    return lambda *statements: execute(server.format("postgres"), *statements)


def empty_database(folder, url):
    Store.open(url).close()


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request):
    return request.param


@pytest.fixture
def fresh_url(engine, request, tmp_path):
    """URL of a database without tables."""
    if engine == "sqlite":
        return f"sqlite:///{tmp_path / 'service.db'}"
    name = f"fresh{uuid4().hex}"
    request.getfixturevalue("administer")(f"CREATE DATABASE {name}")
    return request.getfixturevalue("server").format(name)


@pytest.fixture
def url(engine, request, once, tmp_path):
    """URL of an empty database of the service."""
    if engine == "sqlite":
        template = once(
            "sqlite", lambda folder: (empty_database(folder, f"sqlite:///{folder}/e.db"), folder)[1]
        )
        path = shutil.copy(template / "e.db", tmp_path / "service.db")
        return f"sqlite:///{path}"
    server, administer = map(request.getfixturevalue, ("server", "administer"))

    def make_template(folder):
        administer("CREATE DATABASE empty")
        empty_database(folder, server.format("empty"))

    once("postgresql-empty", make_template)
    name = f"test{uuid4().hex}"
    administer(f"CREATE DATABASE {name} TEMPLATE empty")
    return server.format(name)


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
            barrier.wait()
            try:
                return function()
            except Exception as error:
                return error

        with ThreadPoolExecutor(len(functions)) as pool:
            return list(pool.map(call, functions))

    return at_once
