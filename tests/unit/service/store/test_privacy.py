import hashlib
import sqlite3
from contextlib import closing
from datetime import timedelta

import pytest
from msgspec.structs import replace
from sqlalchemy import event, select

from fashioniq.service.store import EventRow, ExportRow, Gone, tables
from fashioniq.service.store.privacy import epoch_of
from fashioniq.service.store.tables import erasure

DAY = {"days": 1}


def found(words, folder):
    """Those numbers whose words are in a file of the database."""
    content = b"".join(path.read_bytes() for path in folder.glob("service.db*"))
    return {number for number, said in words.items() if said.encode() in content}


def export(id, clock, sessions):
    return ExportRow(id=id, folder=f"/{id}", cut_at=clock(), rule={"category": "dresses"}, sessions=sessions)


def test_erasure_deletes_everything_of_a_session(store, log, clock):
    for session in ("s", "t"):
        query = log.start(session, consent="training")[1].query_id
        picture = store.add_picture(b"", {}, clock() + timedelta(**DAY))
        log.say(session=session, about=picture)
        store.add_events(
            [
                EventRow(
                    event_id=session, query_id=query, session_id=session, action="click", server_at=clock()
                )
            ]
        )
    picture = store.export_session("s")["pictures"][0]["id"]
    store.erase_session("s")
    assert store.export_session("s") == {} and store.turns("s") == [] and store.picture(picture) is None
    assert store.add_events(
        [EventRow(event_id="s", query_id=query, session_id="s", action="click", server_at=clock())]
    ) == ["unknown"]
    assert store.erased([*(str(number) for number in range(1_100)), "s"]) == {"s"}
    assert len(store.export_session("t")["events"]) == len(store.export_session("t")["pictures"]) == 1
    store.erase_session("s")  # again, and of an unknown session
    store.erase_session("u")
    assert store.erased(["s", "t", "u"]) == {"s", "u"}


def test_pictures_are_exported_and_erased_with_each_session_that_used_them(store, log, clock):
    expires = clock() + timedelta(**DAY)
    shared, undone, other = (store.add_picture(b"", {}, expires) for _ in range(3))
    for session in ("s", "t", "u"):
        client = store.client_hmac("me" if session == "u" else "you")
        log.start(session, client=client, consent="service")
    log.say(about=shared)
    log.say(about=undone)
    store.undo("s", 3)
    log.say(session="t", about=shared)
    log.say(session="u", about=other)
    assert {one["id"] for one in store.export_session("s")["pictures"]} == {shared, undone}
    assert [one["id"] for one in store.export_session("t")["pictures"]] == [shared]
    store.erase_session("s")
    assert store.picture(shared) is None is store.picture(undone) and store.turns("t")[1].about == shared
    assert store.picture(other) is not None
    store.erase_client("me")
    assert store.picture(other) is None


def test_a_sweep_deletes_pictures_of_the_sessions_that_it_deletes(store, log, clock):
    picture = store.add_picture(b"", {}, clock() + timedelta(days=2))
    log.start()
    log.say(about=picture)
    clock.move(hours=25)
    store.sweep()
    assert store.session("s") is None is store.picture(picture)


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_erased_words_are_in_no_file(store, log, clock, tmp_path):
    """Rows are deleted at random places, so that pages of the file are split, merged and moved."""
    words = {number: f"embroidered{number:04}letters" for number in range(60)}
    for number in words:
        log.start(f"s{number}", client=store.client_hmac(f"me{number % 20}"), consent="training")
    for number, said in [*words.items(), *words.items()]:
        log.say(f"{said} " * (number % 7 * 20 + 1), f"s{number}", heard={"unknown": [said]})
    assert found(words, tmp_path) == set(words)
    erased = {number for number in words if number % 3 == 0 or number % 20 == 1}
    for number in range(0, 60, 3):
        store.erase_session(f"s{number}")
    store.erase_client("me1")
    assert found(words, tmp_path) == set(words) - erased
    clock.move(days=91)
    store.sweep()
    assert found(words, tmp_path) == set()
    assert len(store.turns("s2")) == 3


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_copies_of_erased_words_in_unused_parts_of_the_file_are_removed(store, log, tmp_path):
    words = {1: "embroidered letters"}
    for session in ("s", "t"):
        log.start(session, consent="training")
    with closing(sqlite3.connect(tmp_path / "service.db")) as other:
        other.execute("PRAGMA secure_delete = OFF")  # to leave a copy
        for said in (words[1] * 1_000, None):
            other.execute("UPDATE turn SET says = ? WHERE session_id = 't'", (said,))
            other.commit()
    store.erase_session("s")
    assert found(words, tmp_path)
    assert store.finish_erasures()
    assert not found(words, tmp_path)


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_the_file_is_rewritten_on_the_disk_and_not_in_memory(store, log):
    kept = []

    def note(connection, cursor, statement, *_):
        if statement in ("VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"):
            kept.append((statement[:6], *cursor.connection.execute("PRAGMA temp_store").fetchone()))

    log.start(consent="training")
    store.erase_session("s")
    event.listen(store.engine, "before_cursor_execute", note)
    assert store.finish_erasures()
    assert kept == [("VACUUM", 1), ("PRAGMA", 2)]  # 1 is FILE, 2 is MEMORY


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_what_a_reader_still_sees_is_cleared_by_the_next_sweep(store, log, clock, tmp_path, monkeypatch):
    monkeypatch.setattr("fashioniq.service.store.engine.WAIT", 0.01)
    words = {1: "embroidered letters"}

    def cleared():
        return store.read(lambda connection: connection.scalar(select(erasure.c.done_at)))

    log.start(consent="training")
    log.say(words[1])
    with store.engine.connect() as reader:
        reader.exec_driver_sql("SELECT count(*) FROM turn").all()
        store.erase_session("s")
        assert store.turns("s") == [] and found(words, tmp_path) and cleared() is None
    clock.move(hours=1)
    store.sweep()
    assert not found(words, tmp_path) and cleared() == clock()


def test_a_client_is_erased_in_all_periods(store, log, clock):
    hashes = []
    for period in range(4):
        for client in ("me", "you"):
            log.start(f"{client}{period}", client=store.client_hmac(client), consent="training")
        hashes.append(store.client_hmac("me"))
        assert hashes[-1] == store.session(f"me{period}").client == store.client_hmac("me")
        clock.move(days=90)
        store.sweep()
    assert len(set(hashes)) == 4 and "me" not in hashes
    assert store.erase_client("me") == 4
    assert store.erase_client("me") == 0 == store.erase_client("unknown")
    assert [store.session(f"me{period}") for period in range(4)] == [None] * 4
    assert all(store.session(f"you{period}") for period in range(4))
    assert store.erased(["me0", "you0"]) == {"me0"}


def test_a_client_is_erased_however_the_accents_of_its_id_are_written(store, log):
    log.start(client=store.client_hmac("caf\u00e9"), consent="training")
    assert store.erase_client("cafe\u0301") == 1


def test_secrets_go_with_the_last_session_that_needs_them(store, log, clock):
    log.start(client=store.client_hmac("me"), consent="training")
    clock.move(days=200)
    assert store.sweep()["secrets"] == 0
    store.erase_client("me")
    assert store.sweep()["secrets"] == 1


def test_a_sweep_deletes_what_is_old_and_only_that(store, log, clock):
    for session, consent in (("none", "none"), ("service", "service"), ("training", "training")):
        log.start(session, consent=consent)
        log.say(
            "my name is Ada", session, key="key", question="Ada?", heard={"unknown": ["ada"]}, word_ids=[4]
        )
    pictures = [store.add_picture(b"", {}, clock() + timedelta(hours=hours)) for hours in (24, 26)]
    nothing = {"sessions": 0, "texts": 0, "pictures": 0, "keys": 0, "secrets": 0}
    assert store.sweep() == nothing
    clock.move(hours=23)
    log.say(session="none")
    clock.move(hours=2)
    assert store.sweep() == nothing | {"pictures": 1, "keys": 3}
    assert store.picture(pictures[0]) is None and store.picture(pictures[1]) is not None
    assert store.session("none") is not None
    clock.move(hours=23)
    assert store.sweep() == nothing | {"sessions": 1, "pictures": 1}
    assert store.session("none") is None and store.turns("none") == [] == list(store.erased(["none"]))
    clock.move(days=87)
    assert store.sweep() == nothing
    clock.move(days=2)
    assert store.sweep() == nothing | {"texts": 2}
    (_, turn) = store.turns("training")
    assert (turn.says, turn.question, turn.heard, turn.word_ids) == (None, None, {}, [4])
    assert store.sweep() == nothing


def test_an_idempotency_key_is_free_again_after_a_day(store, log, clock):
    log.start(consent="service")
    first = log.say(key="key")
    clock.move(hours=25)
    store.sweep()
    assert log.say(key="key").n == first.n + 1


def requests(store):
    """Keys of requests and the hashes that are stored of them."""

    def work(connection):
        asked = [select(one.c.idem_key, one.c.request_hmac) for one in (tables.session, tables.turn)]
        return {tuple(row) for one in asked for row in connection.execute(one)}

    return store.read(work)


def test_requests_without_a_key_leave_no_hash_and_others_one_that_needs_the_secret(store, log, clock):
    sha256 = hashlib.sha256(b'{"client_id":"4711"}').hexdigest()
    clock.move(days=10)
    period = epoch_of(clock())
    for id, key in (("s", None), ("t", "key")):
        store.add_session(log.session(id, consent="service"), log.turn(id), key, sha256)
        store.add_turn(log.turn(id, "is navy"), 1, key, sha256)
    assert {key for key, hashed in requests(store) if hashed} == {"key"}
    assert (None, None) in requests(store) and sha256 not in str(requests(store))
    clock.move(hours=23)
    assert epoch_of(clock()) == period + 1 and store.repeated("t", "key", sha256).says == "is navy"
    clock.move(hours=2)
    store.sweep()
    assert requests(store) == {(None, None)}


def test_many_sessions_without_consent_are_swept(store, log, clock, monkeypatch):
    monkeypatch.setattr("fashioniq.service.store.privacy._AT_ONCE", 4)
    for number in range(10):
        log.start(f"s{number}")
    clock.move(hours=25)
    assert store.sweep()["sessions"] == 10


def test_training_data_stay_stale_until_an_erased_session_was_removed(store, log, clock):
    first, second = export("first", clock, 2), export("second", clock, 2)
    for session in ("s", "t", "withdrawn"):
        log.start(session, consent="training")
    log.start("kept for the service", consent="service")
    assert store.add_export(first, ["s", "t", "kept for the service", "erased before"]) == {"s", "t"}
    assert store.add_export(second, ["t", "withdrawn"]) == {"t", "withdrawn"}
    assert store.exports() == [first, second]
    assert store.stale_exports() == [] and store.to_remove("first") == set()
    store.erase_session("s")
    assert store.stale_exports() == [first]
    hashes = store.to_remove("first")
    assert store.forbidden_held() == {"first": hashes}
    assert store.forbidden("first", ["s", "t", "unknown"]) == {"s"} and not store.forbidden("second", ["s"])
    store.set_removed("second", hashes)  # which does not hold it
    assert store.stale_exports() == [first] and len(hashes) == 1
    store.set_removed("first", hashes)
    assert store.stale_exports() == [] and store.forbidden_held() == {"first": hashes}
    store.set_consent("withdrawn", "none")
    clock.move(hours=25)
    store.sweep()
    assert store.stale_exports() == [second]
    with pytest.raises(Gone):
        log.start("withdrawn")
    store.set_deleted("second")
    assert store.stale_exports() == [] and len(store.forbidden_held()["second"]) == 1
    assert store.exports() == [first, replace(second, deleted_at=clock())]


def test_training_data_are_stale_when_consent_for_training_is_withdrawn(store, log, clock):
    first, second = export("first", clock, 2), export("second", clock, 1)
    for session in ("s", "t"):
        log.start(session, consent="training")
    store.add_export(first, ["s", "t"])
    store.set_consent("t", "training")
    assert store.stale_exports() == []
    store.set_consent("s", "service")
    assert store.stale_exports() == [first] and store.forbidden("first", ["s", "t"]) == {"s"}
    store.set_consent("s", "training")
    assert store.add_export(second, ["s"]) == {"s"}
    assert store.stale_exports() == [first] and store.forbidden("second", ["s"]) == set()
    store.set_removed("first", store.to_remove("first"))
    assert store.stale_exports() == [] and store.session("s") is not None
    store.set_consent("s", "none")
    assert store.stale_exports() == [second]
