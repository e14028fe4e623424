"""Truth and diversity of captions."""

import pytest

from fashioniq.data.statements import stated_attributes
from fashioniq.metrics.speech import diversity, truthfulness

RED = [["dress"], ["red"], [], ["maxi"], ["long sleeve"], []]
BLUE = [["dress"], ["blue"], [], ["mini"], [], []]


@pytest.mark.parametrize(
    ("caption", "asserted", "denied"),
    [
        ("is red and has long sleeves", ["red", "long sleeve"], []),
        ("is red instead of blue", ["red"], ["blue"]),
        ("has no long sleeves but is maxi", ["maxi"], ["long sleeve"]),
        ("is nicer", [], []),
        ("Is not red", [], ["red"]),
    ],
)
def test_captions_assert_and_deny_attributes(caption, asserted, denied):
    assert stated_attributes(caption) == (asserted, denied)


@pytest.mark.parametrize(
    ("caption", "true", "stated"),
    [
        ("is red", 1.0, 1),
        ("is blue", 0.0, 1),
        ("is red and mini", 0.5, 2),
        ("is red instead of blue", 1.0, 2),
        ("is not red", 0.0, 1),
        ("has no long sleeves", 0.0, 1),
        ("is nicer", None, 0),
        ("is green", None, 0),  # no label of either product
    ],
)
def test_what_holds_for_the_target_is_true(caption, true, stated):
    """The target is red, maxi and has long sleeves; the candidate is blue and mini."""
    assert truthfulness([caption], [RED], [BLUE]) == {"true": true, "stated": stated}


def test_each_caption_is_about_its_own_target_and_candidate():
    captions = ["is not blue", "is not blue", "is not mini"]
    found = truthfulness(captions, [RED, RED, RED], [RED, BLUE, BLUE])  # the first candidate is red, too
    assert found == {"true": pytest.approx(2 / 3), "stated": 1}
    assert truthfulness(captions, [RED, BLUE, RED], [BLUE] * 3)["true"] == pytest.approx(2 / 3)


def test_shares_are_of_all_captions():
    captions = ["is red", "is blue", "is nicer", "is maxi"]
    assert truthfulness(captions, [RED] * 4, [BLUE] * 4) == {"true": pytest.approx(2 / 3), "stated": 0.75}


def test_each_caption_is_judged_by_its_own_target_and_candidate():
    captions = ["is red", "is not blue", "is not red", "is blue"]
    targets, candidates = [RED, RED, BLUE, BLUE], [BLUE, BLUE, RED, RED]
    assert truthfulness(captions, targets, candidates) == {"true": 1.0, "stated": 1.0}
    assert truthfulness(captions, targets, candidates[::-1]) == {"true": 0.5, "stated": 1.0}
    assert truthfulness(captions, candidates, targets) == {"true": 0.0, "stated": 1.0}


def test_diversity_counts_different_captions_words_and_bigrams():
    same, different = (
        diversity(["is red", "Is red!", "is red"]),
        diversity(["is red", "has bows", "looks nicer"]),
    )
    assert same == {"distinct": 1 / 3, "distinct-1": 2 / 6, "distinct-2": 1 / 3}
    assert different == {"distinct": 1.0, "distinct-1": 1.0, "distinct-2": 1.0}
    assert diversity([]) == {"distinct": 0.0, "distinct-1": 0.0, "distinct-2": 0.0}
