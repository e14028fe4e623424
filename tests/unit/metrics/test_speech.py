"""What captions assert, and how diverse they are."""

import pytest

from fashioniq.data.attributes import stated_attributes
from fashioniq.metrics.speech import diversity


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


def test_diversity_counts_different_captions_words_and_bigrams():
    same, different = (
        diversity(["is red", "Is red!", "is red"]),
        diversity(["is red", "has bows", "looks nicer"]),
    )
    assert same == {"distinct": 1 / 3, "distinct-1": 2 / 6, "distinct-2": 1 / 3}
    assert different == {"distinct": 1.0, "distinct-1": 1.0, "distinct-2": 1.0}
    assert diversity([]) == {"distinct": 0.0, "distinct-1": 0.0, "distinct-2": 0.0}
