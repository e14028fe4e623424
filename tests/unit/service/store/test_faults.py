import gc
import os
import resource
import shutil
import sqlite3
import threading
from contextlib import ExitStack, closing, contextmanager
from multiprocessing import Pipe
from pathlib import Path

import pytest
from sqlalchemy import create_engine, event, text
from sqlalchemy.exc import IntegrityError

from fashioniq.files import UserError
from fashioniq.service.store import Replaced, Store, Unavailable
from fashioniq.service.store.engine import _ADVISORY_LOCK, clear_files
from tests.waiting import ended, happened, joined, received


@contextmanager
def blocked_writer(store):
    """Block the writer thread, so that writes wait."""
    started, go_on = threading.Event(), threading.Event()

    def block(_):
        started.set()
        happened(go_on)

    thread = threading.Thread(target=store.write, args=(block,))
    thread.start()
    happened(started)
    yield
    go_on.set()
    joined(thread)


@pytest.mark.parametrize("longest", [60, 0])
def test_waiting_writes_share_a_commit_if_it_is_short_and_fail_alone(
    store, log, clock, wait_until, longest, monkeypatch
):
    monkeypatch.setattr("fashioniq.service.store.database.LONGEST", longest)
    before = {number: log.start(f"s{number}") for number in range(8)}
    taken = before[0][1].query_id
    commits, failed = [], []
    event.listen(store.engine, "commit", lambda _: commits.append(1))

    def write(number):
        try:
            log.say("is navy", f"s{number}", **({"query_id": taken} if number == 3 else {}))
        except IntegrityError:
            failed.append(number)

    clock.move(minutes=1)
    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    with blocked_writer(store):
        for thread in threads:
            thread.start()
        wait_until(lambda: store._waiting.qsize() == 8, threads[0].is_alive)
    joined(*threads)
    assert len(commits) == (2 if longest else 9) and failed == [3]
    assert [len(log.stored(f"s{number}")) for number in range(8)] == [2, 2, 2, 1, 2, 2, 2, 2]
    assert store.session("s3") == before[3][0]  # nothing of the write that failed is left


def test_closing_finishes_the_waiting_writes(store, log, open_store, wait_until):
    log.start()
    thread = threading.Thread(target=log.say)
    with blocked_writer(store):
        thread.start()
        wait_until(lambda: store._waiting.qsize() == 1, thread.is_alive)
    store.close()
    joined(thread)
    assert len(open_store().turns("s")) == 2
    with pytest.raises(Unavailable, match="closed"):
        log.say()


def test_a_write_whose_turn_does_not_come_is_given_up(store, log, monkeypatch):
    log.start()
    with blocked_writer(store):
        monkeypatch.setattr("fashioniq.service.store.database.STORED", 0.05)
        with pytest.raises(Unavailable, match=r"not completed a write within 0\.05 seconds"):
            log.say()
        monkeypatch.undo()
    assert len(store.turns("s")) == 1
    log.say()
    assert len(store.turns("s")) == 2


def test_closing_does_not_wait_for_a_write_that_hangs(store, monkeypatch):
    with blocked_writer(store):
        monkeypatch.setattr("fashioniq.service.store.database.STORED", 0.05)
        with pytest.raises(Unavailable, match="not completed the last writes"):
            store.close()
        monkeypatch.undo()


def write_turns(url, acknowledge, new_log, threads):
    """Add turns in several sessions and send the key of each turn once it is stored."""
    store = Store.open(url)
    log = new_log(store)

    def write(session):
        for number in range(1000):
            turn = log.turn(session, "is navy", query_id=f"{session}-w{number}")
            store.add_turn(turn, None, f"{session}-{number}", "hash")
            acknowledge.send((session, number))

    for number in range(threads):
        threading.Thread(target=write, args=(f"s{number}",)).start()


@pytest.mark.parametrize("seen", [1, 9, 40])
def test_a_kill_loses_no_stored_turn_and_repeats_none(
    store, log, open_store, url, forked, new_log, seen, engine, tmp_path
):
    for number in range(4):
        log.start(f"s{number}")
    store.close()
    receiver, sender = Pipe(duplex=False)
    process = forked(write_turns, url, sender, new_log, 4)
    sender.close()
    stored = [received(receiver) for _ in range(seen)]
    process.kill()
    ended(process)
    while receiver.poll():
        try:
            stored.append(received(receiver))
        except (EOFError, OSError):
            break
    again = open_store()
    log = new_log(again)
    for number in range(4):
        session = f"s{number}"
        acknowledged = [last for name, last in stored if name == session]
        kept = again.turns(session)[1:]
        assert [turn.query_id for turn in kept] == [f"{session}-w{n}" for n in range(len(kept))]
        assert [turn.n for turn in kept] == list(range(2, len(kept) + 2))
        assert len(kept) in (len(acknowledged), len(acknowledged) + 1)
        for n in range(len(acknowledged) + 1):  # what a client without an answer repeats
            repeated = log.turn(session, "is navy", query_id=f"again-{session}-{n}")
            again.add_turn(repeated, None, f"{session}-{n}", "hash")
        assert len(again.turns(session)) == len(acknowledged) + 2
    if engine == "sqlite":
        with sqlite3.connect(tmp_path / "service.db") as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_locked_database_is_unavailable_until_it_is_free(open_store, url, new_log, engine, monkeypatch):
    monkeypatch.setattr("fashioniq.service.store.engine.WAIT", 0.05)
    store = open_store()
    log = new_log(store)
    log.start()
    other = create_engine(url)
    with other.connect() as connection:
        if engine == "sqlite":
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            connection.execute(text(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})"))
        store.check(60)  # nothing has failed yet
        for write in (log.say, lambda: store.check(60), store.check, lambda: store.add_key(["search"])):
            with pytest.raises(Unavailable):
                write()
        assert log.stored() == [None]
        connection.rollback()
    other.dispose()
    store.check()
    assert log.say(after=1).n == 2


def write_beyond_the_limit(url, new_log):
    """Lower the limit of file sizes, as a full disk does, and raise it again."""
    store = Store.open(url)
    log = new_log(store)
    log.start()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))
    refused = []
    for write in (log.say, lambda: store.check(60), log.say):
        try:
            write()
        except Unavailable as error:
            refused.append(str(error))
    read = log.stored()
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    log.say("is red", after=1)
    result = refused, read, log.stored()
    store.close()
    return result


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_full_disk_is_unavailable_until_there_is_space(url, apart, new_log):
    refused, during, after = apart(write_beyond_the_limit, url, new_log)
    assert len(refused) == 3 and all("database is not available" in line for line in refused), refused
    assert during == [None] and after == [None, "is red"]


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_file_that_cannot_be_written_is_unavailable(store, log, open_store, tmp_path, new_log):
    log.start()
    reader = open_store(f"sqlite:///file:{tmp_path}/service.db?mode=ro&uri=true")
    assert len(reader.turns("s")) == 1
    for write in (reader.check, new_log(reader).say):
        with pytest.raises(Unavailable, match="readonly"):
            write()
    assert log.say(after=1).n == 2


def replaced(path, how):
    """Do to a database file what careless people do; return how to take it back."""
    away = path.with_name("away")
    if how == "deleted":
        path.rename(away)
    elif how == "copied":
        path.rename(away)
        shutil.copy(away, path)
    elif how == "log deleted":
        path, away = path.with_name(f"{path.name}-wal"), path.with_name("log-away")
        path.rename(away)
    elif how == "folder moved":
        path, away = path.parent, path.parent.with_name("away")
        path.rename(away)
    return lambda: away.replace(path)


@pytest.mark.parametrize("how", ["deleted", "copied", "log deleted", "folder moved"])
@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_nothing_is_acknowledged_without_the_file_that_was_opened(url, open_store, new_log, tmp_path, how):
    folder = tmp_path / "log"
    folder.mkdir()
    path = Path(shutil.copy(tmp_path / "service.db", folder))
    store, other = (open_store(f"sqlite:///{path}") for _ in range(2))
    log = new_log(store)
    log.start()
    take_back = replaced(path, how)
    for _ in range(2):
        for write in (lambda: store.check(60), lambda: log.say(after=1), store.check, new_log(other).start):
            with pytest.raises(
                Replaced, match=r"expected the file that was opened, found (none|another one) in"
            ):
                write()
        if how != "log deleted":
            store.engine.dispose()  # new connections, too, which would create a file
    assert not path.exists() or how in ("copied", "log deleted")
    take_back()
    store.check()
    assert log.stored() in ([None], [None, "is navy"])  # a write without an answer may have succeeded
    assert new_log(other).stored() == log.stored()


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
@pytest.mark.parametrize("what", ["another database", "an earlier state", "nothing"])
def test_nothing_is_acknowledged_after_something_was_copied_into_the_file(
    store, log, open_store, new_log, tmp_path, what
):
    path, backup = tmp_path / "service.db", tmp_path / "backup.db"
    log.start()
    clear_files(store.engine)
    if what == "another database":
        open_store(f"sqlite:///{backup}").close()
    elif what == "an earlier state":
        shutil.copy(path, backup)
        log.say(after=1)
        clear_files(store.engine)
        store.check()
    else:
        backup.touch()
    present = path.read_bytes()
    path.write_bytes(backup.read_bytes())  # as cp does: the file is the same
    for _ in range(2):
        for call in (lambda: log.say(after=1), store.check, lambda: store.turns("s"), new_log(store).start):
            with pytest.raises(Replaced, match=r"found another one or an earlier state; stop the service"):
                call()
        store.engine.dispose()  # new connections, too
    path.write_bytes(present)
    if what == "nothing":  # it may have been in the middle of a copy of the same
        store.check()
    else:
        with pytest.raises(Replaced):
            store.check()


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_copy_of_the_present_state_changes_nothing(store, log, tmp_path):
    log.start()
    clear_files(store.engine)
    path = tmp_path / "service.db"
    path.write_bytes(path.read_bytes())
    assert log.say(after=1).n == 2


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_connection_that_opens_a_copy_takes_nothing_from_the_log_of_the_file(store, log, tmp_path):
    path, away = tmp_path / "service.db", tmp_path / "away"
    log.start()
    clear_files(store.engine)
    log.say(after=1)  # only the log has it

    def open_copy(dialect, record, arguments, options):
        path.rename(away)
        shutil.copy(away, path)
        return dialect.connect(*arguments, **options)

    with store.engine.connect() as held:
        held.exec_driver_sql("SELECT count(*) FROM turn").all()
        event.listen(store.engine, "do_connect", open_copy)
        with ExitStack() as others, pytest.raises(Replaced):
            for _ in range(10):
                others.enter_context(store.engine.connect())
        event.remove(store.engine, "do_connect", open_copy)
    store.engine.dispose()
    away.replace(path)
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT count(*) FROM turn").fetchone() == (2,)


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_the_number_of_writes_begins_again_after_the_last_one(store, log):
    log.start()
    for number in (2**31 - 1, -1):
        with store.engine.begin() as connection:
            connection.exec_driver_sql(f"PRAGMA user_version = {number}")
        for _ in range(3):
            store.check()
            clear_files(store.engine)


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="locks are listed on Linux only")
def test_a_second_store_that_ends_does_not_end_the_locks_of_the_first(store, log, open_store, tmp_path):
    log.start()
    inode = (tmp_path / "service.db").stat().st_ino

    def locks():
        lines = Path("/proc/locks").read_text().splitlines()
        here = [line for line in lines if f" {os.getpid()} " in line and f":{inode} " in line]
        # without its number in the list of all; one that changes meanwhile is read with lines twice
        return {line.partition(":")[2] for line in here}

    other = Store.open(f"sqlite:///{tmp_path}/service.db")
    before = locks()
    other.close()
    del other
    gc.collect()
    store.check()
    assert before and locks() == before


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_the_log_of_sqlite_may_be_truncated_and_begun_again(store, log, open_store):
    log.start()
    assert clear_files(store.engine)
    log.say(after=1)
    store.engine.dispose()  # the last connection removes the log
    store.engine.connect().close()
    log.say(after=2)
    other = open_store()
    store.engine.dispose()
    other.check()
    log.say(after=3)
    assert len(log.stored()) == 4


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_connections_opened_while_nothing_could_be_written_are_not_kept(store, log):
    log.start()
    store.engine.dispose()
    query_only = 1
    set_up = lambda connection, _: connection.execute(f"PRAGMA query_only={query_only}")  # noqa: E731
    event.listen(store.engine, "connect", set_up)
    with pytest.raises(Unavailable, match="readonly"):
        log.say(after=1)
    query_only = 0
    assert log.say(after=1).n == 2


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_lost_connections_are_opened_again(store, log, url, administer):
    name = store.engine.url.database
    lose = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
    log.start()
    administer(lose)
    assert log.say(after=1).n == 2
    administer(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false", lose)
    for call in (log.say, log.stored, store.check):
        with pytest.raises(Unavailable):
            call()
    administer(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    store.check()
    administer(f"ALTER DATABASE {name} SET default_transaction_read_only = on", lose)
    for call in (log.say, store.check):
        with pytest.raises(Unavailable):
            call()
    assert len(log.stored()) == 2
    administer(f"ALTER DATABASE {name} RESET default_transaction_read_only", lose)
    assert log.say(after=2).n == 3


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_a_connection_lost_in_a_write_changes_nothing(store, log, administer):
    log.start()

    def lose(connection):
        pid = connection.scalar(text("SELECT pg_backend_pid()"))
        connection.execute(text("DELETE FROM turn"))
        administer(f"SELECT pg_terminate_backend({pid})")
        connection.execute(text("SELECT 1"))

    with pytest.raises(Unavailable):
        store.write(lose)
    assert log.say(after=1).n == 2


def test_errors_do_not_have_the_words_of_persons(store, log):
    log.start()
    words = "canary words"

    def fail(connection):
        connection.execute(text("INSERT INTO nothing VALUES (:words)"), {"words": words})

    with pytest.raises(Unavailable) as failed:
        store.write(fail)
    error = failed.value
    while error is not None:
        assert words not in str(error) + repr(error)
        error = error.__cause__


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("update turn set says = x'fffe'", "in the table turn"),
        ("update turn set says = cast(x'fffe72' as text)", "Could not decode to UTF-8 column 'says')"),
        ("update turn set shown = '[1]'", "in the table turn"),
        ("update turn set shown = '[{\"id\": 3}]'", "in the table turn"),
        ("update turn set heard = '{'", "in the table turn"),
        ("update turn set heard = 'null'", "in the table turn"),
        ("update turn set created_at = 'yesterday'", "in the table turn"),
        ("update session set created_at = 5", "in the table session"),
    ],
)
def test_a_damaged_value_is_named_by_its_table_and_not_quoted(open_store, new_log, tmp_path, change, reason):
    store = open_store(f"sqlite:///{tmp_path / 'log.db'}")
    log = new_log(store)
    log.start("s1")
    log.say("is red", "s1")
    with store.engine.connect() as connection:
        connection.exec_driver_sql(change)
        connection.commit()
    with pytest.raises(Unavailable) as error:
        store.log("dresses", "none")
    assert reason in str(error.value) and "\n" not in str(error.value)


def test_a_schema_that_is_not_utf8_is_told_in_a_line(open_store, tmp_path):
    path = tmp_path / "log.db"
    open_store(f"sqlite:///{path}").close()
    content = path.read_bytes()
    path.write_bytes(content.replace(b"CREATE TABLE turn", b"CREATE\xffTABLE turn"))
    with pytest.raises(Unavailable, match=r"^the database is not available \(its schema is damaged\)$"):
        open_store(f"sqlite:///{path}")


@pytest.mark.parametrize(
    "odd", ["\udcff", "key \ud800"]
)  # as Python reads a byte of a command line that is not UTF-8
def test_text_that_no_database_can_store_is_refused_and_the_store_goes_on(store, log, odd):
    with pytest.raises(UserError, match=r"^expected text in UTF-8"):
        store.revoke_key(odd)
    with pytest.raises(UserError, match=r"^expected text in UTF-8"):
        store.session(odd)
    assert log.start("s1")
