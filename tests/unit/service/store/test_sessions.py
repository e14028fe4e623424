from datetime import timedelta

import pytest
from sqlalchemy import insert, make_url
from sqlalchemy.exc import IntegrityError

from fashioniq.service.store import EventRow, Gone, KeyReused, TurnConflict
from fashioniq.service.store.tables import turn


def test_a_session_is_read_as_it_was_stored(store, log):
    details = {
        "client": "c0ffee",
        "consent": "service",
        "policy_version": "2",
        "arm": "explore",
        "origin": "page",
    }
    session = log.session(token_sha256="abc", **details)
    shown = [{"id": "B1", "score": 0.25, "propensity": 1.0}, {"id": "B2", "score": -1e-9, "propensity": 0.05}]
    first = log.turn(shown=shown, eligible=3, took_ms=21, filters={"sizes": {"any": ["M"]}})
    assert store.add_session(session, first) == (session, first)
    said = log.say("is navy", about="B2", question="Which color?", word_ids=[3, 1], heard={"known": ["navy"]})
    assert store.session("s") == session
    assert store.turns("s") == [first, said]
    assert store.session("t") is None and store.turns("t") == []


def test_a_session_is_stored_once_per_key(store, log, at_once):
    def add(number):
        return lambda: store.add_session(log.session(f"s{number}"), log.turn(f"s{number}"), "key", "hash")

    results = at_once(*map(add, range(5)))
    assert all(result == results[0] for result in results)
    assert sum(store.session(f"s{number}") is not None for number in range(5)) == 1
    with pytest.raises(KeyReused):
        store.add_session(log.session("t"), log.turn("t"), "key", "other")
    assert store.session("t") is None


def test_turns_are_numbered_and_only_follow_the_one_expected(store, log):
    log.start()
    assert [log.say("is navy", after=1).n, log.say("is long").n, log.say("has sleeves", after=3).n] == [
        2,
        3,
        4,
    ]
    with pytest.raises(TurnConflict) as conflict:
        log.say("is red", after=2)
    assert conflict.value.present == 4
    assert log.stored() == [None, "is navy", "is long", "has sleeves"]


def test_twenty_requests_with_one_key_store_one_turn(log, at_once):
    log.start()
    turns = [log.turn("s", "is navy") for _ in range(20)]
    results = at_once(*(lambda one=one: log.store.add_turn(one, 1, "key", "hash") for one in turns))
    assert results == [results[0]] * 20
    assert log.store.turns("s")[1:] == results[:1] == [log.store.repeated("s", "key", "hash")]
    assert log.store.repeated("s", "other", "hash") is None is log.store.repeated("t", "key", "hash")
    with pytest.raises(KeyReused):
        log.store.add_turn(turns[0], 2, "key", "other")
    with pytest.raises(KeyReused):
        log.store.repeated("s", "key", "other")
    assert len(log.stored()) == 2


def test_a_key_belongs_to_one_session(log):
    log.start("s")
    log.start("t")
    assert log.say(session="s", key="key").query_id != log.say(session="t", key="key").query_id


def test_of_two_processes_one_adds_the_turn(log, open_store, at_once):
    log.start()
    stores = log.store, open_store()

    def add(store, after):
        new = log.turn("s", "is navy")
        return lambda: store.add_turn(new, after)

    for after in range(1, 6):
        results = at_once(*(add(store, after) for store in stores))
        conflicts = [result for result in results if isinstance(result, TurnConflict)]
        assert [conflict.present for conflict in conflicts] == [after + 1]
    assert [one.n for one in log.store.turns("s")] == [1, 2, 3, 4, 5, 6]


def test_undo_twice_gives_the_same_turns(store, log):
    log.start()
    for words in ("is navy", "is long", "has sleeves"):
        log.say(words)
    remaining = store.undo("s", 3)
    assert [one.says for one in remaining] == [None, "is navy"]
    assert store.undo("s", 3) == remaining == store.turns("s")
    assert log.say("is short", after=2).n == 3
    assert log.stored() == [None, "is navy", "is short"]
    assert len(store.export_session("s")["turns"]) == 5  # those undone are kept


def test_a_repeated_request_of_an_undone_turn_adds_none(store, log):
    log.start()
    first = log.say("is navy", key="key")
    store.undo("s", 2)
    again = log.say("is navy", key="key")
    assert again.query_id == first.query_id and again.undone_at is not None
    assert log.stored() == [None]


def test_two_live_turns_cannot_have_one_number(store, log, clock):
    log.start()

    def raw(query, undone_at):
        values = {"query_id": query, "session_id": "s", "n": 1, "kind": "says", "created_at": clock()}
        nothing = {"word_ids": [], "filters": {}, "shown": [], "heard": {}, "eligible": 0, "took_ms": 0}
        store.write(
            lambda connection: connection.execute(
                insert(turn).values(values | nothing | {"undone_at": undone_at})
            )
        )

    raw("undone", clock())
    with pytest.raises(IntegrityError):
        raw("live", None)
    assert len(store.turns("s")) == 1


def test_a_session_that_was_erased_takes_no_turn(store, log):
    log.start("t")
    store.erase_session("t")
    for session in ("t", "unknown"):
        with pytest.raises(Gone):
            log.say(session=session)
        with pytest.raises(Gone):
            store.undo(session, 1)
    with pytest.raises(Gone):
        log.start("t")
    with pytest.raises(Gone):
        store.set_consent("t", "training")


def test_consent_and_activity_are_stored(store, log, clock):
    log.start()
    store.set_consent("s", "training")
    clock.move(minutes=5)
    log.say()
    session = store.session("s")
    assert session.consent == "training"
    assert session.last_at - session.created_at == timedelta(minutes=5)


def test_events_are_stored_once_and_only_for_their_session(store, log, clock):
    query = log.start()[1].query_id
    other = log.start("t")[1].query_id

    def event(id, query=query, **details):
        return EventRow(
            event_id=id, query_id=query, session_id="s", action="click", server_at=clock(), **details
        )

    assert store.add_events(
        [event("a", position=3, value_minor=2**40), event("a"), event("b", "nothing")]
    ) == [
        "created",
        "duplicate",
        "unknown",
    ]
    assert store.add_events([event("a"), event("c", other), event("d")]) == [
        "duplicate",
        "unknown",
        "created",
    ]
    assert store.add_events([]) == []
    first, second = store.export_session("s")["events"]
    assert (first["position"], first["value_minor"], second["event_id"]) == (3, 2**40, "d")


def test_events_of_one_request_are_logged_in_the_order_in_which_they_happened(store, log, clock):
    query = log.start(consent="training")[1].query_id
    events = [
        EventRow(
            event_id=id,
            query_id=query,
            session_id="s",
            action="click",
            client_at=clock() - timedelta(minutes=minutes),
            server_at=clock(),
        )
        for id, minutes in (("a", 1), ("b", 3), ("c", 2))
    ]
    store.add_events(events)
    assert [one.event_id for one in store.log("dresses")[0][2]] == ["b", "c", "a"]


def test_a_picture_is_found_until_it_expires(store, log, clock):
    id = store.add_picture(b"\x00\xff", {"color": "navy"}, clock() + timedelta(hours=24))
    picture = store.picture(id)
    assert (picture.feature, picture.attrs) == (b"\x00\xff", {"color": "navy"})
    clock.move(hours=24)
    assert store.picture(id) is None and store.picture("unknown") is None


def test_what_is_stored_of_a_session_is_exported(store, log, clock):
    query = log.start(token_sha256="secret hash")[1].query_id
    log.say("is navy", key="key", about=store.add_picture(b"vector", {}, clock()))
    store.add_events(
        [EventRow(event_id="e", query_id=query, session_id="s", action="click", server_at=clock())]
    )
    exported = store.export_session("s")
    assert {name: len(rows) for name, rows in exported.items() if name != "session"} == {
        "turns": 2,
        "events": 1,
        "pictures": 1,
    }
    assert exported["session"]["created_at"] == "2026-11-22T12:00:00Z"
    assert "secret hash" not in str(exported)
    assert store.export_session("unknown") == {}


def test_the_log_has_the_sessions_with_a_consent_oldest_first(store, log, clock):
    query = log.start("b", consent="training")[1].query_id
    clock.move(seconds=1)
    log.start("a", consent="training")
    log.start("none")
    log.say("is navy", session="b")
    log.say("is red", session="b")
    store.undo("b", 3)
    for id in ("late", "early"):
        event = EventRow(event_id=id, query_id=query, session_id="b", action="click", server_at=clock())
        clock.move(seconds=-1)
        store.add_events([event])
    found = store.log("dresses")
    assert [session.id for session, _, _ in found] == ["b", "a"]
    assert [turn.says for turn in found[0][1]] == [None, "is navy"]
    assert [event.event_id for event in found[0][2]] == ["early", "late"] and found[1][2] == []
    assert store.log("shirts") == []
    assert store.count_by_consent("dresses") == {"training": 2, "none": 1}


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_times_are_read_whatever_style_of_dates_the_database_has(open_store, new_log, url, administer):
    administer(f"ALTER DATABASE {make_url(url).database} SET datestyle = 'SQL, DMY'")
    store = open_store(f"{url}&options=-cDateStyle%3DGerman")
    stored, _ = new_log(store).start()
    assert store.session("s") == stored
