"""What captions say of their two products, as a search would read them."""

import numpy as np
import pytest

from fashioniq.data.catalog import Pair
from fashioniq.evaluation.speech import FACTS, facts_of
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
    found = facts_of([caption], [Pair("red", "blue", ("is red",))], READER, LABELS)
    assert dict(zip(FACTS, found[0].tolist(), strict=True)) == dict(zip(FACTS, facts, strict=True))


def test_facts_are_of_the_pair_with_the_same_number_and_of_products_without_labels_nothing_holds():
    pairs = [Pair("red", "blue", ("x",)), Pair("blue", "red", ("x",)), Pair("none", "other", ("x",))]
    found = facts_of(["is red"] * 3, pairs, READER, LABELS)
    assert np.array_equal(found[:, 4:], [[1, 0], [0, 1], [0, 0]])
