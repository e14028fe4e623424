import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from fashioniq.prepare import pairing
from fashioniq.prepare.pairing import reference_pairs

WORDS = ["red", "blue", "dress", "long", "short", "v-neck", "lace", "striped", "cotton", "summer"]


def few_words(count=60):
    rng = np.random.default_rng(0)
    return [" ".join(rng.choice(WORDS, rng.integers(1, 6))) for _ in range(count)]


def like_real_ones(count=150):
    """Titles of a few frequent and many rare words, some of them equal, and some without a word."""
    rng = np.random.default_rng(1)
    drawn = [
        " ".join(f"w{int(word)}" for word in rng.zipf(1.3, rng.integers(0, 9)) if word < 10**6)
        for _ in range(count)
    ]
    return [drawn[rng.integers(count)] if rng.random() < 0.1 else title for title in drawn]


@cache
def naive_references(titles, per_target):
    """By exact arithmetic over each two titles: the largest sums of the target's weights over shared words,
    ties by position.
    """
    split = [title.split() for title in titles]
    titles_with = {word: sum(word in words for words in split) for words in split for word in words}
    idf = {word: math.log((1 + len(titles)) / (1 + count)) + 1 for word, count in titles_with.items()}
    references = np.full((len(titles), per_target), -1)
    for target, own in enumerate(split):
        weight = {word: Fraction(round(own.count(word) * idf[word] * 2**20), 2**20) for word in own}
        sums = {
            other: sum(weight[word] for word in weight.keys() & set(words))
            for other, words in enumerate(split)
            if other != target
        }
        best = sorted((other for other in sums if sums[other] > 0), key=lambda other: (-sums[other], other))[
            :per_target
        ]
        references[target, : len(best)] = best
    return references


@pytest.mark.parametrize("titles", [few_words, like_real_ones])
@pytest.mark.parametrize("per_target", [1, 7])
@pytest.mark.parametrize("shares", [(1.0,), (0.01, 0.05, 0.2, 1.0), pairing._FREQUENT])
def test_references_are_those_of_comparing_each_two_titles(monkeypatch, titles, per_target, shares):
    monkeypatch.setattr(pairing, "_FREQUENT", shares)
    np.testing.assert_array_equal(
        reference_pairs(titles(), per_target), naive_references(tuple(titles()), per_target)
    )


@pytest.mark.parametrize("block", [1, 500])
def test_blocks_change_nothing(monkeypatch, block):
    titles = like_real_ones()
    expected = reference_pairs(titles, 3)
    monkeypatch.setattr(pairing, "BLOCK", block)
    np.testing.assert_array_equal(reference_pairs(titles, 3), expected)


def test_no_title_is_its_own_reference():
    references = reference_pairs(like_real_ones(), per_target=5)
    assert (references != np.arange(len(references))[:, None]).all()


def test_a_rare_word_weighs_more_than_a_common_one():
    assert reference_pairs(["lace dress", "dress", "lace", "dress red", "dress blue"])[0] == 2


def test_of_equal_ones_the_earlier_is_taken():
    assert reference_pairs(["red dress"] * 4, per_target=2).tolist() == [[1, 2], [0, 2], [0, 1], [0, 1]]


def test_who_shares_no_word_has_no_reference():
    assert reference_pairs(["red dress", "dress", "blue", ""], per_target=2).tolist() == [
        [1, -1],
        [0, -1],
        [-1, -1],
        [-1, -1],
    ]


def test_titles_without_any_word_have_no_references():
    assert reference_pairs(["", "!"]).tolist() == [[-1], [-1]]
    assert reference_pairs([], per_target=2).shape == (0, 2)
