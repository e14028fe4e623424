"""The gate judges a model by what shoppers would have chosen of it, if the log can tell."""

import random
from datetime import timedelta

import msgspec
import pytest

from fashioniq.service.exploring import explored_ranks, propensity
from fashioniq.service.learning import off_policy_gate
from fashioniq.service.learning.off_policy_gate import (
    NOTHING,
    first_products,
    judge_off_policy,
    logged_position_bias,
)
from fashioniq.service.learning.rules import Target, choose, unseen_weight
from tests.unit.service.conftest import Talking

GALLERY = [f"p{number}" for number in range(100)]
BETTER = ["p20", *GALLERY[:20], *GALLERY[21:]]  # shoppers want p20
FAR = [*GALLERY[60:], *GALLERY[:60]]


@pytest.fixture(autouse=True)
def orders(monkeypatch):
    """Systems are the order of their products."""
    monkeypatch.setattr(off_policy_gate, "first_products", lambda order, turns: [order[:50] for _ in turns])


def shown(ranks, k=8):
    return [
        {"id": f"p{rank}", "score": 1.0, "propensity": propensity(rank, k, 100), "rank": rank}
        for rank in ranks
    ]


@pytest.fixture
def explored(rows):
    """Makes sessions that explore, whose shoppers choose what they want if it is shown, or a click elsewhere."""
    chance = random.Random(0)

    def explored(count, wanted="p20", often=1.0, k=8, action="this_is_it", filters=None):
        found = []
        for _ in range(count):
            answer = shown(explored_ranks(k, 100), k)
            session, turns, (event,) = rows.session(wanted, "is red", arm="explore", action=action)
            turns[1] = msgspec.structs.replace(turns[1], shown=answer, filters=filters or {})
            chosen = wanted in [one["id"] for one in answer] and chance.random() < often
            found.append((session, turns, [event] if chosen else []))
        return found

    random.seed(0)
    return explored


def test_a_model_that_shows_what_shoppers_choose_passes(explored):
    found = judge_off_policy(explored(3000), GALLERY, BETTER)
    (row,) = found.rows
    assert row.passed and not found.reasons and row.count == 3000
    assert (
        row.running == pytest.approx(0, abs=1e-3)
        and row.new == pytest.approx(100, abs=25)
        and row.low < 100 < row.high
    )
    assert any("all places count as examined alike" in note for note in found.notes)
    assert any("0% of what it would show" in note for note in found.notes)


def test_the_same_model_does_not_pass(explored):
    (row,) = judge_off_policy(explored(500), GALLERY, GALLERY).rows
    assert not row.passed and row.low == row.high == 0 and row.running == row.new


def test_a_model_that_hides_what_shoppers_choose_does_not_pass(explored):
    found = judge_off_policy(explored(3000, wanted="p0", often=0.3), GALLERY, [*GALLERY[1:], "p0"])
    assert len(found.reasons) == 1 and found.reasons[0].endswith("which chance may explain")
    assert found.rows[0].running == pytest.approx(30, abs=5) and found.rows[0].high < 0


def test_a_log_that_cannot_tell_is_named():
    assert judge_off_policy([], GALLERY, BETTER).notes == [NOTHING]
    assert judge_off_policy([], GALLERY, BETTER).reasons == []


def test_few_explored_answers_do_not_pass(explored):
    found = judge_off_policy(explored(100), GALLERY, BETTER)
    assert "of the new model's own, fewer than 300" in found.reasons[0]


def test_a_model_whose_products_are_never_explored_does_not_pass(explored):
    found = judge_off_policy(explored(2000), GALLERY, FAR)
    assert (
        any("100% of what it would show is never explored" in note for note in found.notes) and found.reasons
    )


def test_answers_that_a_replay_does_not_give_are_left_out(explored):
    sessions = [*explored(20), *explored(5, filters={"in_stock": True}), *explored(3, k=6)]
    other = [[session, turns, events] for session, turns, events in explored(4)]
    for one in other:
        exchanged = [
            {**shown, "id": {"p0": "p1", "p1": "p0"}.get(shown["id"], shown["id"])}
            for shown in one[1][1].shown
        ]
        one[1][1] = msgspec.structs.replace(one[1][1], shown=exchanged)
    found = judge_off_policy([*sessions, *other], GALLERY, BETTER)
    assert found.rows[0].count == 20
    assert {
        note.split(" explored answers left out: ")[1]: note.split()[0]
        for note in found.notes
        if "left out" in note
    } == {
        "with filters": "5",
        "of another number of products": "3",
        "that the running model no longer gives": "4",
    }
    none = judge_off_policy(other, GALLERY, BETTER)
    assert none.rows == none.reasons == [] and "no explored answer is left" in none.notes[-1]
    alone = judge_off_policy(sessions[:1], GALLERY, BETTER)
    assert alone.reasons == ["a replay gives the explored answers of fewer than two clients again"]


def test_clicks_and_second_choices_of_a_product_are_no_reward(explored):
    clicks = explored(50, wanted="p0", action="click")
    assert judge_off_policy(clicks, GALLERY, BETTER).rows[0].running == 0
    twice = []
    for session, turns, (event,) in explored(50, wanted="p0"):
        again = msgspec.structs.replace(turns[1], query_id=f"{turns[1].query_id}-again", n=2)
        later = msgspec.structs.replace(
            event, query_id=again.query_id, server_at=event.server_at + timedelta(days=1)
        )
        twice.append((session, [*turns, again], [event, later]))
    assert judge_off_policy(twice, GALLERY, GALLERY).rows[0].running == pytest.approx(50, abs=10)


def test_later_sessions_of_people_that_do_not_train_are_judged(rows, shop):
    log = [list(rows.session(f"train-{number}", "is red", client=f"c{number}")) for number in range(4)]
    details = [
        {"client": "c9", "arm": "explore"},
        {"client": "c9"},
        {"client": "c9", "arm": "explore", "origin": "bot"},
        {"client": "c1", "arm": "explore"},
    ]
    log += [rows.session("train-5", "is red", **one) for one in details]
    log[0][0] = msgspec.structs.replace(log[0][0], arm="explore")
    assert [session.id for session, _, _ in choose(log, shop, held_out=0.5, words=8).explored] == ["s5"]
    assert choose([], shop, held_out=0.5, words=8).explored == []


def test_choices_at_places_that_are_rarely_looked_at_weigh_more(explored):
    log = [one for rank in range(6) for one in explored(1500, wanted=f"p{rank}", often=0.5, action="click")]
    bias = logged_position_bias(log)
    assert len(bias.examination_P) == 8 and bias.examination_P[0] == 1
    assert set(bias.session_M) == {session.client or session.id for session, _, _ in log}
    assert logged_position_bias([(session, turns, []) for session, turns, _ in log]) is None
    assert logged_position_bias([]) is None
    _, turns, _ = log[0]
    at = {one["id"]: place for place, one in enumerate(turns[1].shown)}
    target = Target("p0", "this_is_it", 1.0, turns[1].query_id)
    assert unseen_weight(turns, target, [0.5] * 8) == 2 and unseen_weight(turns, target, [0.1] * 8) == 3
    assert unseen_weight(turns, target, ()) == 1 and unseen_weight(turns, target, [0.5] * at["p0"]) == 1
    assert unseen_weight(turns, target._replace(query_id="other"), [0.5] * 8) == 1


def test_a_replay_gives_the_order_of_which_a_conversation_was_shown_a_part(client, service, monkeypatch):
    monkeypatch.undo()
    service.explore = 1.0
    talk = Talking(client, consent="training")
    first = talk.turn(says="is navy", k=6).json()["results"]
    talk.turn(like=first[2]["product_id"], k=6)
    talk.turn(says="with longer sleeves", about=first[1]["product_id"], k=6)
    turns = service.store.turns(talk.id)
    found = first_products(service.models.active("dresses").system, turns)
    for turn, order in zip(turns[1:], found[1:], strict=True):
        assert [order[one["rank"]] for one in turn.shown] == [one["id"] for one in turn.shown]
    assert found[0] == []
    lost = msgspec.structs.replace(turns[2], about="gone")
    assert first_products(service.models.active("dresses").system, [*turns[:2], lost, turns[3]]) == found[:2]
