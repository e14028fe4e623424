"""Databases of SQLite and PostgreSQL, for tests of the service. The server of PostgreSQL is started once for all
workers and stops with pytest, also if pytest is killed.
"""

import os
import pickle
import shutil
import signal
import subprocess
import tempfile
import time
from glob import glob
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import create_engine, text

from fashioniq.service.store import Store
from tests.waiting import LIMIT, attempts

# if pytest is killed, or hangs for 12 hours; SIGQUIT: immediate shutdown
STOP = """
n=0; while kill -0 "$1" && [ -e "$2" ] && [ $((n += 1)) -le 86400 ]; do sleep 0.5; done
[ -e "$2" ] || exit 0
kill -QUIT "$(head -n 1 "$2/data/postmaster.pid")"; sleep 1; rm -rf "$2"
"""


def start_server(folder, pytest_process):
    """Start PostgreSQL, as another user if this one is root, and create an empty database of the service."""
    programs = Path(shutil.which("initdb") or max(glob("/usr/lib/postgresql/*/bin/initdb"), default="none"))
    if not programs.exists():
        return None
    programs, own = programs.resolve().parent, Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    user = {} if os.getuid() else {"user": "nobody", "group": "nogroup", "extra_groups": []}
    if user:
        shutil.chown(own, "nobody", "nogroup")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": own}
    stop = ["sh", "-c", STOP, "sh", str(pytest_process), own]
    subprocess.Popen(stop, start_new_session=True, stdin=subprocess.DEVNULL, **quiet)
    quiet |= user
    initdb = ["initdb", "-D", own / "data", "-A", "trust", "-U", "shop", "--no-sync", "--no-instructions"]
    initdb += ["-E", "UTF8"]
    subprocess.run([programs / initdb[0], *initdb[1:]], check=True, timeout=LIMIT, **quiet)
    options = f"-F -k {own} -c listen_addresses='' -c max_connections=100"
    start = ["-D", own / "data", "-o", options, "-l", own / "log", "-w", "-t", str(LIMIT), "start"]
    subprocess.run([programs / "pg_ctl", *start], check=True, timeout=LIMIT + 10, **quiet)
    return f"postgresql+psycopg://shop@/{{}}?host={own}"


def stop_server(root):
    """Stop the server that the tests of pytest's folder `root` have started, if any."""
    for made in root.glob("**/shared/postgresql.pickle"):
        if url := pickle.loads(made.read_bytes()):
            folder = Path(url.rpartition("=")[2])
            server = int((folder / "data/postmaster.pid").read_text().split()[0])
            os.kill(server, signal.SIGQUIT)
            for _ in attempts("PostgreSQL ends"):
                if not Path("/proc", str(server)).exists():
                    break
                time.sleep(0.05)
            shutil.rmtree(folder)


@pytest.fixture(scope="session")
def server(once):
    """URL of databases on the server, with {} for the name."""
    # a worker of pytest-xdist is a child of the process to wait for
    process = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
    url = once("postgresql", start_server, process)
    return url or pytest.skip("needs PostgreSQL: apt-get install postgresql")


def execute(url, *statements):
    limits = {"connect_timeout": LIMIT, "options": f"-c statement_timeout={1000 * LIMIT}"}
    engine = create_engine(url, isolation_level="AUTOCOMMIT", connect_args=limits)
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
