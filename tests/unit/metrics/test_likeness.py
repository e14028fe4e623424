"""How like people's captions others are: equal sources, other words, other lengths, other facts."""

import random

import numpy as np
import pytest

from fashioniq.metrics import likeness as measures
from fashioniq.metrics.likeness import likeness

WORDS = (
    "red",
    "blue",
    "green",
    "longer",
    "shorter",
    "sleeves",
    "belt",
    "with",
    "is",
    "has",
    "more",
    "less",
    "not",
    "dark",
)
MEASURES = ("length distance", "divergence", "AUC of words", "AUC")


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    monkeypatch.setattr(measures, "RESAMPLES", 80)


def captions(seed, count=300, words=WORDS, least=3, most=8):
    chance = random.Random(seed)
    return [" ".join(chance.choices(words, k=chance.randint(least, most))) for _ in range(count)]


def facts(seed, count=300, more=0.0):
    return np.random.default_rng(seed).normal((0, more), 1, (count, 2))


def compared(first, people, more=0.0, seed=0):
    both = facts(1, len(people), more), facts(2, len(people))
    return likeness(first, people, *both, names=("a", "b"), seed=seed)


def test_captions_of_the_same_source_are_not_told_apart():
    found = compared(captions(1), captions(2))
    assert found["AUC"] == pytest.approx(0.5, abs=0.08) and found["AUC of words"] == pytest.approx(
        0.5, abs=0.08
    )
    assert found["length distance"] < 0.2 and found["divergence"] < 0.002
    for name in MEASURES:
        low, high = found[f"{name} interval"]
        assert 0 <= low <= found[name] <= high
        assert isinstance(found[name], float) and isinstance(low, float)


def test_captions_that_are_never_repeated_are_not_told_apart_by_heart():
    """A discriminator that knew a caption, or the other one of its pair, from its training would tell it."""
    own, people = ([f"{one}{number}" for number in range(200)] for one in "ab")
    assert compared(own, people)["AUC of words"] == pytest.approx(0.5, abs=0.02)
    shared = [f"{number}x" for number in range(200)]
    assert compared(shared, shared)["AUC of words"] == pytest.approx(0.5, abs=0.02)


def test_other_words_are_told_and_named():
    found = compared([f"{text} please" for text in captions(1)], captions(2))
    assert found["AUC of words"] > 0.99 and found["AUC"] > 0.99
    assert found["tell it"][0] == "please" and "please" not in found["tell people"]
    assert len(found["tell it"]) == len(found["tell people"]) == 8
    low, high = found["length distance interval"]
    assert found["length distance"] == pytest.approx(1, abs=0.2) and 0.6 < low < high < 1.5


def test_facts_tell_captions_apart_whose_words_do_not():
    found = compared(captions(1), captions(2), more=3.0)
    assert found["AUC of words"] < 0.57 and found["AUC"] > 0.97 and found["tell it"][0] == "b"
    less = compared(captions(1), captions(2), more=-3.0)
    assert less["AUC"] > 0.97 and less["tell people"][0] == "b"


def test_divergence_and_length_distance_are_those_of_the_definitions():
    people = ["red blue"] * 50
    assert compared(["green shiny"] * 50, people)["divergence"] == pytest.approx(1)
    half = compared(["red green"] * 50, people)  # of two words, one is shared
    assert half["divergence"] == pytest.approx(0.5) and half["length distance"] == 0
    often = compared(["red"] * 50, ["red red red blue"] * 50)  # 1 and 0 against 3/4 and 1/4
    assert often["divergence"] == pytest.approx(
        (np.log2(8 / 7) + 0.75 * np.log2(6 / 7) + 0.25 * np.log2(2)) / 2
    )
    longer = compared(["red blue red blue red"] * 50, people)
    assert longer["length distance"] == 3 and longer["words"] == 5
    assert longer["length distance interval"] == [3, 3]


def test_captions_without_words_share_none_with_those_of_people():
    found = compared([""] * 50, ["red blue"] * 50)
    assert (found["words"], found["length distance"], found["divergence"]) == (0, 2, 1)
    assert found["divergence interval"] == [1, 1]


def test_more_pairs_make_intervals_narrower_and_a_seed_repeats_them():
    few, many = (
        compared(captions(1, count), captions(2, count, WORDS[2:]), seed=3)["divergence interval"]
        for count in (40, 300)
    )
    assert many[1] - many[0] < (few[1] - few[0]) / 2
    first, again, other = (compared(captions(1, 40), captions(2, 40), seed=seed) for seed in (4, 4, 5))
    assert first == again != other
