"""Nothing leaks from training to the gate: each rule, and leaks that were planted."""

from dataclasses import replace
from types import SimpleNamespace
from unicodedata import normalize

import msgspec
import pytest

from fashioniq.service.learning.rules import A_DAY, choose, client_disjoint, tells
from fashioniq.service.learning.run import shop_of

NAMES = "is crimson"


def chosen(log, shop, held_out=0.2):
    return choose(log, shop, held_out, words=8)


def fill(rows, count=8):
    """Sessions of train before those of test, each of a client of its own."""
    early = count * 3 // 4
    return [
        rows.session(f"train-{n}", NAMES) if n < early else rows.session(f"test-{n}", NAMES, about="test-0")
        for n in range(count)
    ]


def test_sessions_go_where_their_target_is(rows, shop):
    found = chosen(fill(rows), shop)
    assert [one.target for one in found.of("train")] == [f"train-{n}" for n in range(6)]
    assert [one.target for one in found.of("test")] == ["test-6", "test-7"]
    assert found.counts == {}


def test_a_session_of_a_test_product_slipped_into_the_training_period_is_left_out(rows, shop):
    leak = rows.session("test-1", NAMES, about="test-0")
    found = chosen([leak, *fill(rows)], shop)
    assert "test-1" not in {one.target for one in found.sessions}
    assert sum(found.counts.values()) == 1


def test_a_late_session_of_a_train_product_does_not_train(rows, shop):
    found = chosen([*fill(rows), rows.session("train-1", NAMES)], shop)
    assert [one.target for one in found.of("train")].count("train-1") == 1


def test_a_client_is_on_one_side_only(rows, shop):
    log = [
        *(rows.session(f"train-{n}", NAMES, client=f"c{n}") for n in range(6)),
        *(rows.session(f"test-{n}", NAMES, about="test-9", client=f"c{n}") for n in range(2)),
    ]
    found = chosen(log, shop)
    sides = {split: {found.clients[one.session] for one in found.of(split)} for split in ("train", "test")}
    assert not sides["train"] & sides["test"]
    assert len(found.sessions) == 6 and found.counts == {"sessions of clients on both sides": 2}


def test_the_hash_of_a_client_chooses_its_side(rows, shop):
    sessions = chosen(fill(rows), shop).sessions
    clients = {one.session: f"c{number % 2}" for number, one in enumerate(sessions)}
    kept = client_disjoint(sessions, clients)
    assert kept and kept == client_disjoint(sessions, clients)
    assert len({(clients[one.session], one.split == "test") for one in kept}) == 2


@pytest.mark.parametrize("later", ["val-3", "test-3"])
def test_a_copy_of_a_held_out_product_does_not_train(rows, shop, later):
    found = chosen(fill(rows), replace(shop, copies=[["train-1", later], ["train-1", "train-9"]]))
    assert "train-1" not in {one.target for one in found.sessions} and sum(found.counts.values()) == 1


def test_copies_within_a_split_train(rows, shop):
    assert chosen(fill(rows), replace(shop, copies=[["train-1", "train-2", "unknown"]])).counts == {}


@pytest.mark.parametrize("origin", ["test", "bot"])
def test_tests_and_bots_are_left_out(rows, shop, origin):
    found = chosen([rows.session("train-7", NAMES, origin=origin), *fill(rows)], shop)
    assert found.counts == {"sessions of tests and bots": 1}


def test_a_client_teaches_no_more_than_its_share_of_a_day(rows, shop):
    log = [rows.session("train-1", NAMES, client="loud") for _ in range(A_DAY + 5)] + fill(rows)
    found = chosen(log, shop, held_out=0.06)
    assert sum(found.clients[one.session] == "loud" for one in found.sessions) == A_DAY


def test_turns_after_the_target_was_shown_are_left_out(rows, shop):
    shown = [["train-3"], ["train-1", "train-4"], ["train-5"]]
    found = chosen([rows.session("train-1", "is one", "is two", "is three", shown=shown), *fill(rows)], shop)
    assert [step.text for step in found.sessions[0].steps] == ["is one", "is two"]
    assert found.counts == {"turns after the target was shown": 1}


def test_a_session_that_begins_with_its_target_is_left_out(rows, shop):
    session, turns, events = rows.session("train-1", NAMES)
    turns[0] = msgspec.structs.replace(turns[0], shown=[{"id": "train-1"}])
    assert "sessions without a usable turn" in chosen([(session, turns, events), *fill(rows)], shop).counts


def test_a_session_whose_product_is_not_in_the_catalog_is_left_out(rows, shop):
    counts = chosen([rows.session("elsewhere", NAMES), *fill(rows)], shop).counts
    assert counts == {"sessions whose target is not in the catalog": 1}


def test_a_variant_that_the_catalog_lacks_stands_for_its_group(rows, shop):
    found = chosen(
        [rows.session("red-variant", NAMES), *fill(rows)], replace(shop, copies=[["red-variant", "train-8"]])
    )
    assert found.sessions[0].target == "train-8" and found.counts == {}


def test_words_about_a_product_of_another_split_are_left_out(rows, shop):
    counts = chosen([rows.session("train-1", NAMES, about="test-1"), *fill(rows)], shop).counts
    assert counts["turns about a product of another split, in training"] == 1
    held_out = chosen([*fill(rows), rows.session("test-9", NAMES, about="train-1")], shop)
    assert [step.item for step in held_out.of("test")[-1].steps] == ["train-1"]


@pytest.mark.parametrize("about", ["pic_0123", "sold-out"])
def test_words_about_what_the_models_cannot_replay_are_left_out(rows, shop, about):
    earlier, held_out = fill(rows)[:-1], rows.session("test-9", "is shorter", NAMES, about="test-1")
    held_out[1][1] = msgspec.structs.replace(held_out[1][1], about=about)
    found = chosen([*earlier, held_out], shop)
    assert [step.text for step in found.of("test")[-1].steps] == [NAMES]
    assert found.counts == {"turns about a picture, or a product that the catalog lacks": 1}


def test_a_text_that_names_the_target_is_left_out(rows, shop):
    leak = rows.session("train-1", "the Navy wrap dress with pockets", "is darker")
    found = chosen([leak, *fill(rows)], shop)
    assert [step.text for step in found.sessions[0].steps] == ["is darker"]
    assert found.counts == {"turns that name the target": 1}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("like B00X-1 please", True),
        ("like b00x-1", True),
        ("see https://shop.example/1", True),
        ("www.shop.example", True),
        ("a navy wrap dress with", True),
        ("navy wrap dress", False),
        ("wrap navy dress with", False),
        ("like B00X-12", False),
    ],
)
def test_ids_addresses_and_titles_name_a_target(text, names):
    assert tells(text, "B00X-1", "Marlowe Navy Wrap Dress with Belt") == names


@pytest.mark.parametrize("said", ["NFC", "NFD"])
@pytest.mark.parametrize("own", ["NFC", "NFD"])
def test_an_id_names_a_target_in_any_form(own, said):
    assert tells(normalize(said, "like café7 please"), normalize(own, "café7"), "")


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_products_of_a_group_are_those_of_the_catalog_whichever_form_their_ids_have(form):
    names = [normalize(form, f"café{number}") for number in range(3)]
    catalog = SimpleNamespace(
        category="dresses", images={}, titles={}, ids=lambda split: names if split == "train" else []
    )
    rows = [SimpleNamespace(id=normalize("NFC", name), group_id="g") for name in names[:2]]
    shop = shop_of(catalog, names, SimpleNamespace(products=lambda category: rows))
    assert shop.copies == [names[:2]]


def test_likes_and_filters_are_no_captions(rows, shop):
    session, turns, events = rows.session("train-1", "is red", "is short")
    turns[1] = msgspec.structs.replace(turns[1], kind="like")
    turns[2] = msgspec.structs.replace(turns[2], says=None)
    found = chosen([(session, turns, events), *fill(rows)], shop)
    assert "train-1" not in {one.target for one in found.sessions[:1]}


def test_words_about_no_product_and_limits_alone_are_no_captions(rows, shop):
    session, turns, events = rows.session("train-1", "a red dress", "under 50 euros", "is shorter")
    turns[1] = msgspec.structs.replace(turns[1], about=None)
    turns[2] = msgspec.structs.replace(turns[2], heard={"clauses": [], "whole": True})
    found = chosen([(session, turns, events), *fill(rows)], shop)
    assert [step.text for step in found.sessions[0].steps] == ["is shorter"]
    assert found.counts == {
        "turns about no product": 1,
        "turns without words for the model, such as a price": 1,
    }


def test_long_texts_are_read_in_clauses_as_by_the_service(rows, shop):
    text = "is much longer in the skirt, has a deep v-neck and is red"
    found = chosen([rows.session("train-1", text), *fill(rows)], shop)
    assert [len(step.text.split()) <= 8 for step in found.sessions[0].steps] == [True, True]


def test_an_empty_log_gives_nothing(shop):
    assert chosen([], shop).sessions == []
