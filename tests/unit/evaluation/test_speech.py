"""What captions say of their two products, as a search would read them."""

import numpy as np
import pytest

from fashioniq.data.catalog import Pair
from fashioniq.evaluation.speech import FACTS, _alike, reaction, stated_facts
from fashioniq.language.lexicon import Lexicon
from fashioniq.language.reader import Reader

LABELS = {
    "red": [["dress"], ["red"], [], [], ["long sleeve"], []],
    "blue": [["dress"], ["blue"], [], [], ["sleeveless"], []],
}
READER = Reader(Lexicon.of(LABELS, ["Dress"], (), "en"))


@pytest.mark.parametrize(
    ("caption", "facts"),
    [
        ("is red", (2, 1, 0, 0, 1, 0)),
        ("is blue", (2, 1, 0, 0, 0, 1)),
        ("is not blue", (3, 0, 1, 0, 0, 0)),
        ("has longer sleeves", (3, 0, 0, 1, 0, 0)),
        ("is red with long sleeves and not blue", (8, 2, 1, 0, 2, 0)),
        ("is nice", (2, 0, 0, 0, 0, 0)),
        ("", (0,) * 6),
    ],
)
def test_facts_count_words_wishes_denials_and_comparisons_and_what_the_products_have(caption, facts):
    found = stated_facts([caption], [Pair("red", "blue", ("is red",))], READER, LABELS)
    assert dict(zip(FACTS, found[0].tolist(), strict=True)) == dict(zip(FACTS, facts, strict=True))


def test_facts_are_of_the_pair_with_the_same_number_and_of_products_without_labels_nothing_holds():
    pairs = [Pair("red", "blue", ("x",)), Pair("blue", "red", ("x",)), Pair("none", "other", ("x",))]
    found = stated_facts(["is red"] * 3, pairs, READER, LABELS)
    assert np.array_equal(found[:, 4:], [[1, 0], [0, 1], [0, 0]])


def test_a_reaction_is_what_changes_from_the_least_to_the_most_alike_third():
    facts_NF = np.zeros((7, len(FACTS)))
    facts_NF[:, 0] = [9, 5, 4, 3, 8, 1, 1]
    alike_N = np.array([0.1, 0.9, 0.5, 0.5, 0.0, 1.0, 0.5])
    found = reaction(facts_NF, alike_N)
    assert found["words"] == (5 + 1) / 2 - (9 + 8) / 2 and found["denials"] == 0
    assert reaction(facts_NF[:2], alike_N[:2])["words"] == 5 - 9


def test_pairs_are_as_alike_as_their_labels():
    labels = {"a": [["red"], ["long", "floral"]], "b": [["red"], [], ["short"]], "c": []}
    assert _alike(Pair("a", "b", ("",)), labels) == 1 / 4
    assert _alike(Pair("a", "a", ("",)), labels) == 1
    assert _alike(Pair("a", "c", ("",)), labels) == _alike(Pair("none", "c", ("",)), labels) == 0
