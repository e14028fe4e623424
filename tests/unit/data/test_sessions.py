"""Recorded sessions of Multiturn FashionIQ: the released files, small ones, and what a clean session is."""

import json

import pytest

from fashioniq.data.sessions import (
    Session,
    SessionStep,
    leakage,
    read_gallery,
    read_sessions,
)
from fashioniq.files import UserError


def row(*items, captions=("is red", "has sleeves")):
    """A session as released, through items to the last one."""
    return {
        "target": ["http://x/", items[-1]],
        "reference": [["http://x/", list(captions), item] for item in items[:-1]],
    }


def session(*items):
    return Session(tuple(SessionStep(item, ("is red",)) for item in items[:-1]), items[-1])


@pytest.fixture
def folder(tmp_path):
    def write(name, rows):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(rows))
        return tmp_path

    return write


def test_a_session_goes_from_its_first_item_to_the_target(folder):
    (read,) = read_sessions(folder("dress.val.json", [row("A", "B", "C")]), "dresses", "val")
    assert (read.first, read.target, read.items, read.last_pair) == ("A", "C", ("A", "B", "C"), ("B", "C"))
    assert read.steps == (
        SessionStep("A", ("is red", "has sleeves")),
        SessionStep("B", ("is red", "has sleeves")),
    )
    assert read.steps[0].text == "is red and has sleeves" and read.split == "val"
    assert read.inside({"A", "B", "C", "D"}) and not read.inside({"A", "C"})


@pytest.mark.parametrize(
    "given, kept",
    [
        (["is plaid"], ("is plaid",)),
        (["is plaid", "", " is long"], ("is plaid", "is long")),
        (["is a man", "s t shirt", "is for man"], ("is a man", "s t shirt", "is for man")),
    ],
)
def test_a_turn_has_one_to_three_captions_with_words(folder, given, kept):
    (read,) = read_sessions(folder("shirt.train.json", [row("A", "B", captions=given)]), "shirts", "train")
    assert read.steps[0].captions == kept


def test_the_folders_of_the_release_are_searched(folder):
    folder("data/dress.val.json", [row("A", "B")])
    root = folder("image_splits/split.dress.val.json", ["A", "B", "C"])
    for given in (root, root / "data"):
        assert len(read_sessions(given, "dresses", "val")) == 1
        assert read_gallery(given, "dresses", "val") == ["A", "B", "C"]


def test_a_pooled_gallery_lists_a_product_of_two_categories_once(folder):
    folder("split.shirt.val.json", ["A", "B"])
    root = folder("split.toptee.val.json", ["B", "C"])
    assert read_gallery(root, ["shirts", "tops"], "val") == ["A", "B", "C"]


def test_sessions_that_end_as_a_train_session_leak():
    train = [session("A", "B", "T"), session("C", "D")]
    val = {
        "the same last step": session("X", "B", "T"),
        "a step amid a train session": session("X", "A", "B"),
        "a whole train session at the end": session("X", "C", "D"),
        "a train session at the start": session("C", "D", "X"),
        "the same target from another item": session("A", "X", "T"),
    }
    leaks = leakage(train)
    assert [name for name, one in val.items() if not leaks(one)] == list(val)[3:]


@pytest.mark.parametrize(
    "rows, words",
    [
        ([], "found none"),
        ([{"target": "A"}], "entry 0: expected"),
        (
            [row("A", "B"), {"target": ["u", "A"], "reference": []}],
            "entry 1: expected a target and at least one",
        ),
        ([row("A", "B", captions=["", "."])], "no caption with a word"),
        ({}, "expected a list"),
    ],
)
def test_a_malformed_file_is_named(folder, rows, words):
    with pytest.raises(UserError, match=words) as error:
        read_sessions(folder("dress.val.json", rows), "dresses", "val")
    assert "dress.val.json" in str(error.value)


def test_missing_files_and_folders_are_named(folder, tmp_path):
    with pytest.raises(UserError, match=r"expected dress\.test\.json in .*--category dresses"):
        read_sessions(tmp_path, "dresses", "test")
    with pytest.raises(UserError, match=r"expected split\.dress\.val\.json in"):
        read_gallery(tmp_path, "dresses", "val")
    with pytest.raises(UserError, match=r"there is no folder .*--sessions FOLDER"):
        read_sessions(tmp_path / "nowhere", "dresses", "val")
    with pytest.raises(UserError, match="expected a list of product ids"):
        read_gallery(folder("split.dress.val.json", [1]), "dresses", "val")


@pytest.mark.parametrize(
    "category, sessions, turns, gallery, last_steps_in_train",
    [
        ("dresses", 1000, {2: 645, 3: 242, 4: 113}, 2562, 411),
        ("shirts", 681, {2: 525, 3: 129, 4: 27}, 1770, 171),
    ],
)
def test_the_released_sessions_are_read_completely(
    shared, category, sessions, turns, gallery, last_steps_in_train
):
    folder = shared / "multiturn_fashioniq"
    val, train = (read_sessions(folder, category, split) for split in ("val", "train"))
    assert len(val) == sessions
    assert {count: sum(len(one.steps) == count for one in val) for count in turns} == turns
    listed = read_gallery(folder, category, "val")
    assert len(listed) == gallery and all(one.inside(set(listed)) for one in val)
    ends = {one.last_pair for one in train}
    assert sum(one.last_pair in ends for one in val) == last_steps_in_train
    assert sum(map(leakage(train), val)) >= last_steps_in_train
