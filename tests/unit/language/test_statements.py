"""Which statements of captions are false by the labels of products."""

import pytest

from fashioniq.data.catalog import Catalog
from fashioniq.language.statements import StatementCheck
from fashioniq.metrics.speech import truthfulness

PRODUCTS = {
    "red": [["dress"], ["red", "chevron"], [], ["maxi"], ["long sleeve"], ["casual"]],
    "blue": [["dress"], ["blue", "striped"], [], ["mini"], ["sleeveless"], []],
    "green": [["dress"], ["green", "striped"], [], ["knee length"], ["short sleeve"], []],
    "bare": [["dress"], [], [], [], [], []],
    "dark": [["dress"], ["navy blue", "black"], [], ["mini"], [], []],
    "light": [["dress"], ["light blue"], [], ["mini"], [], []],
    "unlabelled": [[], [], [], [], [], []],
}
CHECK = StatementCheck(PRODUCTS)


@pytest.mark.parametrize(
    ("caption", "target", "candidate", "counts"),
    [
        ("is red", "red", "blue", (1, 0)),
        ("is blue", "red", "blue", (1, 1)),
        ("is red and mini", "red", "blue", (2, 1)),
        ("is red instead of blue", "red", "blue", (2, 0)),
        ("is red instead of blue", "red", "green", (2, 1)),  # the candidate is not blue
        ("is not red", "red", "blue", (1, 1)),
        ("has no long sleeves", "red", "blue", (1, 1)),
        ("has a zigzag pattern", "red", "blue", (1, 0)),
        ("has zig zags", "green", "blue", (1, 1)),
        ("is crimson", "red", "blue", (1, 0)),
        ("is longer", "red", "blue", (1, 0)),
        ("is longer", "red", "green", (1, 0)),
        ("is shorter", "red", "green", (1, 1)),
        ("is longer", "red", "red", (1, 1)),
        ("has longer sleeves", "green", "blue", (1, 0)),  # sleeveless is below the first level
        ("has shorter sleeves", "green", "blue", (1, 1)),
        ("is shorter and striped", "green", "red", (2, 0)),
        ("is longer", "red", "bare", (0, 0)),  # of an unknown length
        ("is longer", "bare", "blue", (0, 0)),
        ("is darker", "dark", "light", (0, 0)),  # what is darker, labels hardly tell
        ("is casual", "blue", "green", (0, 0)),  # a matter of taste
        ("is casual or red", "blue", "green", (0, 0)),
        ("is less formal and short", "blue", "red", (1, 0)),
        ("is nicer", "red", "blue", (0, 0)),
        ("is satin", "red", "blue", (0, 0)),  # no label of any product
        ("is red", "unlabelled", "blue", (0, 0)),
        ("is red", "unknown", "blue", (0, 0)),
        ("is not red", "blue", "unknown", (0, 0)),
        ("is red", "blue", "unknown", (1, 1)),
    ],
)
def test_statements_are_decided_by_the_labels(caption, target, candidate, counts):
    assert CHECK.decided(caption, target, candidate) == counts


def test_the_last_words_of_a_beginning_decide_nothing():
    assert CHECK.decided("is red and has short", "red", "green") == (2, 1)
    assert CHECK.decided("is red and has short", "red", "green", begun=True) == (1, 0)
    assert CHECK.decided("is blue and", "red", "green", begun=True) == (1, 1)


def test_statements_are_read_in_the_language_of_the_catalog(monkeypatch, shop):
    labels = {"lang": [["kleid"], [], [], ["maxi"], [], []], "kurz": [["kleid"], [], [], ["mini"], [], []]}
    monkeypatch.setattr(Catalog, "labels", labels)
    for code, decided in (("de", (1, 0)), ("en", (0, 0))):
        monkeypatch.setattr(Catalog, "language", code)
        assert (
            StatementCheck.of(Catalog(shop.data, "dresses")).decided("ist länger", "lang", "kurz") == decided
        )


def test_a_catalog_without_labels_has_no_check(shop, monkeypatch):
    assert StatementCheck.of(shop.catalog).labels == shop.catalog.labels
    monkeypatch.setattr(Catalog, "labels", {name: [[]] * 6 for name in shop.catalog.labels})
    assert StatementCheck.of(Catalog(shop.data, "dresses")) is None


def test_shares_are_of_all_captions_each_with_its_own_products():
    said = [("is red", "red", "blue"), ("is not blue", "red", "blue"), ("is nicer", "red", "blue")]
    assert truthfulness(said, CHECK) == {"true": 1.0, "stated": pytest.approx(2 / 3)}
    wrong = [("is red", "blue", "red"), ("is not blue", "red", "red"), ("is blue", "blue", "red")]
    assert truthfulness(wrong, CHECK) == {"true": pytest.approx(1 / 3), "stated": 1.0}
    assert truthfulness([("is nicer", "red", "blue")], CHECK) == {"true": None, "stated": 0.0}
    assert truthfulness(said, None) == truthfulness([], CHECK) == {"true": None, "stated": 0.0}
