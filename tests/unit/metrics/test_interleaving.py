import random
from collections import Counter
from fractions import Fraction

import pytest

from fashioniq.metrics.interleaving import probabilistic, team_draft


def drawn(interleave, running, challenger, k, count=4000):
    draw = random.Random(0)
    return [interleave(running, challenger, k, draw) for _ in range(count)]


def chance(shown):
    found = Fraction(1)
    for one in shown.propensities:
        found *= Fraction(one).limit_denominator(10**6)
    return float(found)


@pytest.mark.parametrize("interleave", [team_draft, probabilistic])
@pytest.mark.parametrize("challenger", ["badcfe", "abcdef", "fedcba", "acbdfe"])
@pytest.mark.parametrize("k", [1, 3, 4])
def test_lists_are_as_frequent_as_their_propensities_tell(interleave, challenger, k):
    lists = drawn(interleave, "abcdef", challenger, k)
    counts = Counter(tuple(one.items) for one in lists)
    chances = {tuple(one.items): chance(one) for one in lists}
    for items, count in counts.items():
        assert len(set(items)) == k == len(items)
        assert count / len(lists) == pytest.approx(chances[items], abs=0.03)
    if interleave is team_draft:
        assert sum(chances.values()) == pytest.approx(1)


@pytest.mark.parametrize("interleave", [team_draft, probabilistic])
def test_equal_rankings_get_no_credit(interleave):
    for shown in drawn(interleave, "abcd", "abcd", 4, 50):
        assert shown.credits == [0.0] * 4
    assert drawn(team_draft, "abcd", "abcd", 3, 20) == [team_draft("abcd", "abcd", 3, random.Random(5))] * 20
    assert team_draft("abcd", "abcd", 3, random.Random(0)).items == ["a", "b", "c"]


@pytest.mark.parametrize("interleave", [team_draft, probabilistic])
@pytest.mark.parametrize("challenger", ["badc", "cabd", "acbd", "dcba"])
def test_clicks_by_place_alone_favor_neither_model(interleave, challenger):
    """Expected credit of a shopper who clicks places whatever stands there, over all lists and their propensities."""
    lists = {tuple(one.items): one for one in drawn(interleave, "abcd", challenger, 4)}
    for place in range(4):
        expected = sum(chance(one) * one.credits[place] for one in lists.values())
        assert expected == pytest.approx(0, abs=5e-3)  # rare lists may be missing


@pytest.mark.parametrize("interleave", [team_draft, probabilistic])
def test_the_model_that_ranks_the_wanted_product_higher_gets_the_credit(interleave):
    lists = drawn(interleave, "bcdefa", "abcdef", 2)
    credit = [one.credits[one.items.index("a")] for one in lists if "a" in one.items]
    assert sum(credit) > 0.9 * len(credit)
    mirrored = drawn(interleave, "abcdef", "bcdefa", 2)
    credit = [one.credits[one.items.index("a")] for one in mirrored if "a" in one.items]
    assert sum(credit) < -0.9 * len(credit)


def test_a_round_of_the_team_draft_is_a_coin_and_its_answer():
    expected = {
        ("a", "b", "c", "d"): [0.0, -1.0, -1.0, 1.0],
        ("a", "b", "d", "c"): [0.0, -1.0, 1.0, -1.0],
    }
    found = {tuple(one.items): one.credits for one in drawn(team_draft, "abcd", "acbd", 4, 200)}
    assert ("a", "c", "b", "d") in found and found["a", "c", "b", "d"][:2] == [0.0, 1.0]
    assert {items for items in found if items[1] == "b"} <= {("a", "b", "c", "d")} | set(expected)
    assert all(one.propensities[:2] == [1.0, 0.5] for one in drawn(team_draft, "abcd", "acbd", 4, 20))


@pytest.mark.parametrize("interleave", [team_draft, probabilistic])
def test_short_rankings_are_shown_whole(interleave):
    for running, challenger in (("ab", "abc"), ("", "abc"), ("abc", ""), ("ab", "ba"), ("", "")):
        for shown in drawn(interleave, running, challenger, 8, 20):
            assert sorted(shown.items) == sorted({*running, *challenger})
            assert len(shown.credits) == len(shown.propensities) == len(shown.items)


def test_probabilities_of_the_first_place_follow_the_ranks():
    total = sum(rank**-3 for rank in (1, 2, 3))
    chances = [(rank**-3 + (4 - rank) ** -3) / 2 / total for rank in (1, 2, 3)]
    for shown in drawn(probabilistic, "abc", "cba", 1, 100):
        at = "abc".index(shown.items[0])
        assert shown.propensities == [pytest.approx(chances[at])]
        assert shown.credits == [
            pytest.approx(((3 - at) ** -3 - (at + 1) ** -3) / ((3 - at) ** -3 + (at + 1) ** -3))
        ]
