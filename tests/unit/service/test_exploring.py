"""Products of conversations that explore stand at each place with the probability that is logged."""

import random
from collections import Counter

import pytest

from fashioniq.service.exploring import explored_ranks, place_probabilities, propensity

SIZES = [
    (8, 1000),
    (8, 50),
    (8, 12),
    (8, 9),
    (8, 8),
    (8, 5),
    (8, 1),
    (8, 0),
    (3, 50),
    (2, 50),
    (1, 50),
    (60, 100),
]


@pytest.mark.parametrize(("k", "eligible"), SIZES)
def test_each_place_has_one_product_and_each_product_its_propensity(k, eligible):
    place_RP = [place_probabilities(rank, k, eligible) for rank in range(eligible + 2)]
    filled = min(k, eligible)
    assert [sum(column) for column in zip(*place_RP, strict=True)] == pytest.approx(
        [1.0] * filled + [0.0] * (k - filled)
    )
    assert [sum(row) for row in place_RP] == pytest.approx(
        [propensity(rank, k, eligible) for rank in range(eligible + 2)]
    )
    assert propensity(max(k, 50), k, eligible) == propensity(eligible, k, eligible) == 0
    ranks = explored_ranks(k, eligible)
    assert len(set(ranks)) == len(ranks) == filled and all(rank < eligible for rank in ranks)


def test_two_of_the_ranks_after_the_first_stand_at_two_random_places():
    random.seed(0)
    counts, draws = Counter(), 20_000
    for _ in range(draws):
        ranks = explored_ranks(5, 9)
        assert [rank for rank in ranks if rank < 3] == [0, 1, 2]
        counts.update(enumerate(ranks))
    for rank in range(9):
        found = [counts[place, rank] / draws for place in range(5)]
        assert found == pytest.approx(place_probabilities(rank, 5, 9), abs=0.015)
    assert place_probabilities(0, 5, 9) == [0.6, 0.3, 0.1, 0.0, 0.0]
    assert place_probabilities(8, 5, 9) == pytest.approx([2 / 6 / 5] * 5)
