import os
import resource
import signal
import sys
import threading
from contextlib import contextmanager
from functools import partial
from multiprocessing import Pipe

import pytest

from fashioniq.service.store import EventRow, Spool, Store, Unavailable, spool
from tests.waiting import attempts, ended, received


@contextmanager
def away(store):
    """The database cannot be reached."""

    def write(work):
        raise Unavailable("away")

    store.write = write
    try:
        yield
    finally:
        del store.write


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "waiting"


@pytest.fixture
def open_spool(folder):
    folder.mkdir()
    return lambda store: Spool(store, folder)


@pytest.fixture
def events(open_spool, store):
    return open_spool(store)


@pytest.fixture
def event(log, clock):
    """An event of the session s, or of another one."""
    queries = {id: log.start(id)[1].query_id for id in "st"}

    def event(id, session="s", **details):
        clock.move(seconds=1)
        asked = {"query_id": queries[session], "session_id": session, "action": "click"}
        return EventRow(event_id=id, server_at=clock(), **asked | details)

    return event


def stored(store, session="s"):
    return [one["event_id"] for one in store.export_session(session)["events"]]


def replayed(events):
    """What became of all events that waited."""
    outcomes = []
    while some := events.replay():
        outcomes += some
    return outcomes


def test_events_wait_for_the_database_and_are_stored_in_their_order(events, event, store, folder):
    assert events.add([event("a")]) == ["created"]
    with away(store):
        assert events.add([event("b"), event("c", position=2)]) == ["waiting", "waiting"]
        with pytest.raises(Unavailable):
            events.replay()
    assert events.add([event("d")]) == ["waiting"], "behind the others"
    assert stored(store) == ["a"]
    assert replayed(events) == ["created"] * 3 and stored(store) == ["a", "b", "c", "d"]
    assert store.export_session("s")["events"][2]["position"] == 2
    assert events.add([event("e")]) == ["created"] and replayed(events) == []
    assert list(folder.iterdir()) == []


def test_what_is_known_already_or_unknown_is_not_stored(events, event, store):
    events.add([event("a")])
    with away(store):
        sent = [event("a"), event("b"), event("b"), event("c", query_id="none"), event("d", "t")]
        assert events.add(sent) == ["waiting"] * 5
    assert replayed(events) == ["duplicate", "created", "duplicate", "unknown", "created"]
    assert stored(store) == ["a", "b"] and stored(store, "t") == ["d"]


def test_a_file_that_was_deleted_takes_no_later_events_with_it(events, event, store, folder):
    with away(store):
        events.add([event("a"), event("b")])
        next(folder.glob("*.jsonl")).unlink()
        assert events.add([event("c")]) == ["waiting"]
    assert replayed(events) == ["created"] and stored(store) == ["c"]


def test_waiting_events_of_an_erased_session_do_not_come_back(events, event, store, log):
    with away(store):
        events.add([event("a"), event("b", "t")])
    store.erase_session("s")
    assert replayed(events) == ["unknown", "created"]
    assert store.export_session("s") == {} and stored(store, "t") == ["b"]


def test_a_replay_goes_on_where_the_database_went_away(events, event, store, monkeypatch):
    monkeypatch.setattr(spool, "AT_ONCE", 2)
    with away(store):
        events.add([event(name) for name in "abcde"])
    assert events.replay() == ["created", "created"]
    with away(store), pytest.raises(Unavailable):
        events.replay()
    assert stored(store) == ["a", "b"]
    assert replayed(events) == ["created"] * 3 and stored(store) == list("abcde")


def test_events_are_added_while_others_are_stored(events, event, store, monkeypatch):
    monkeypatch.setattr(spool, "AT_ONCE", 3)
    sent = [[event(f"{thread}-{number}") for number in range(30)] for thread in range(4)]
    with away(store):
        events.add([event("first")])

    def send(own):
        for one in own:
            events.add([one])

    threads = [threading.Thread(target=send, args=[own]) for own in sent]
    for thread in threads:
        thread.start()
    for _ in attempts("the threads ended"):
        if not any(thread.is_alive() for thread in threads):
            break
        assert set(replayed(events)) <= {"created"}
    replayed(events)
    assert sorted(stored(store)) == sorted(["first", *(one.event_id for own in sent for one in own)])


def test_a_full_file_refuses_events_until_they_are_stored(events, event, store, monkeypatch):
    monkeypatch.setattr(spool, "MOST", 400)
    with away(store):
        assert events.add([event("a")]) == ["waiting"]
        with pytest.raises(Unavailable, match="maximum size"):
            events.add([event(f"more{number}") for number in range(3)])
    assert replayed(events) == ["created"] and events.add([event("b")]) == ["created"]
    assert stored(store) == ["a", "b"]


def test_without_a_folder_that_can_be_written_events_are_refused(store, event, folder):
    folder.write_text("a file")
    events = Spool(store, folder)
    for _ in range(2):
        with away(store), pytest.raises(Unavailable, match="cannot write"):
            events.add([event("a")])
    assert replayed(events) == [] and events.add([event("a")]) == ["created"]


def test_a_folder_that_was_moved_away_is_not_created_again(store, event, folder):
    folder.mkdir()
    events = Spool(store, folder)
    folder.rename(folder.with_name("away"))
    with away(store), pytest.raises(Unavailable, match="cannot write"):
        events.add([event("a")])
    folder.with_name("away").rename(folder)
    with away(store):
        assert events.add([event("a")]) == ["waiting"]


def test_events_that_are_not_safe_on_the_disk_are_refused_and_not_stored(events, event, store, monkeypatch):
    with away(store):
        events.add([event("a")])
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError("no")))
            with pytest.raises(Unavailable, match="cannot write"):
                events.add([event("b"), event("c")])
    assert events.replay() == ["created"] and stored(store) == ["a"]


def write_beyond_the_limit(url, folder, sent):
    """Lower the limit of file sizes, as a full disk does, and raise it again."""
    store = Store.open(url)
    events, (soft, hard) = Spool(store, folder), resource.getrlimit(resource.RLIMIT_FSIZE)
    outcomes = []
    with away(store):
        for limit, one in zip((100, soft, 300, soft), sent, strict=True):
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
            try:
                outcomes += events.add([one])
            except Unavailable as error:
                outcomes.append(str(error))
    store.close()
    return outcomes


def test_a_full_disk_refuses_events_and_loses_no_other(url, apart, event, open_spool, store, folder):
    sent = [event(f"event {number}", product_id="p" * 40) for number in range(4)]
    open_spool(store)
    first, second, third, fourth = apart(write_beyond_the_limit, url, folder, sent)
    assert second == fourth == "waiting" and "cannot write" in first and "cannot write" in third
    assert replayed(Spool(store, folder)) == ["created", "created"]
    assert stored(store) == ["event 1", "event 3"]


def test_damaged_lines_are_dropped(events, event, store, folder):
    with away(store):
        events.add([event(name) for name in "abc"])
        (path,) = folder.glob("*.jsonl")
        first, second, third = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(first + bytes(len(second) - 1) + b"\n" + third)
    assert replayed(events) == ["created", "damaged", "created"] and stored(store) == ["a", "c"]


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_an_event_that_the_database_refuses_does_not_stop_the_others(events, event, store):
    with away(store):
        events.add([event("a"), event("b", product_id="\0"), event("c")])
    assert replayed(events) == ["created", "damaged", "created"] and stored(store) == ["a", "c"]


def test_by_default_events_wait_beside_the_file_of_sqlite(store, event, engine, tmp_path):
    events = Spool(store)
    with away(store):
        if engine == "postgresql":
            with pytest.raises(Unavailable, match="away"):
                events.add([event("a")])
        else:
            events.add([event("a")])
            assert len(list(tmp_path.glob("service.db-events-*.jsonl"))) == 1
    assert len(replayed(events)) == (engine == "sqlite")


def hold(url, folder, one, sender):
    """Let an event wait, and live on."""
    store = Store.open(url)
    events = Spool(store, folder)
    with away(store):
        sender.send(events.add([one]))
    signal.pause()


def test_files_of_dead_processes_are_taken_over_and_those_of_others_are_not(
    events, event, store, forked, url, folder
):
    processes = []
    for name in "ab":
        receiver, sender = Pipe(duplex=False)
        processes.append(forked(hold, url, folder, event(name), sender))
        assert received(receiver) == ["waiting"]
    assert replayed(events) == []
    for process in processes:
        process.kill()
        ended(process)
    for path in folder.glob("*.jsonl"):
        path.write_bytes(path.read_bytes() + b'{"event_id": "cut')
    assert events.replay() == ["created"]
    with away(store):
        with pytest.raises(Unavailable):
            events.replay()
        assert events.add([event("c")]) == ["waiting"], "in the file that was taken over"
    assert replayed(events) == ["created", "created"]
    assert stored(store) == ["a", "b", "c"] and list(folder.iterdir()) == []


def live(url, folder, sent, kill_at, sender):
    """Use a spool; be killed before the line of its module that is executed as number `kill_at`."""
    store = Store.open(url)
    events, executed = Spool(store, folder), 0

    def trace(frame, what, _):
        nonlocal executed
        if frame.f_code.co_filename != spool.__file__:
            return None
        if what == "line":
            executed += 1
            if executed == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    def add(one):
        events.add([one])
        sender.send(one.event_id)

    sys.settrace(trace)
    with away(store):
        add(sent[0])
        add(sent[1])
    events.replay()
    add(sent[2])
    with away(store):
        add(sent[3])
    add(sent[4])
    events.replay()
    sys.settrace(None)
    sender.send(executed)


def test_killed_at_any_moment_no_event_is_lost_or_stored_twice(
    events, event, store, forked, url, folder, engine
):
    def run(number, kill_at):
        receiver, sender = Pipe(duplex=False)
        sent = [event(f"{number}-{one}") for one in range(5)]
        process = forked(live, url, folder, sent, kill_at, sender)
        sender.close()
        accepted = list(iter(partial(_received, receiver), None))
        ended(process)
        return sent, accepted

    _, (*accepted, lines) = run(0, 0)
    assert len(accepted) == 5 and lines > 100
    every = lines // (20 if engine == "sqlite" else 4)
    for number, kill_at in enumerate(range(1, lines, every), 1):
        sent, accepted = run(number, kill_at)
        assert set(replayed(events)) <= {"created", "duplicate"}
        found = {id for id in stored(store) if id.startswith(f"{number}-")}
        assert set(accepted) <= found <= {one.event_id for one in sent}
        assert list(folder.iterdir()) == []


def _received(receiver):
    try:
        return received(receiver)
    except EOFError:
        return None
