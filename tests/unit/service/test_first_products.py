"""First products that are typical and differ from each other."""

import torch

from fashioniq.service.served_model import LIKE_MEAN, diverse


def naive(vectors_ND, mean_D, count):
    """Maximal marginal relevance, computed anew for each place."""
    cosine = torch.nn.functional.cosine_similarity
    chosen = []
    while len(chosen) < min(count, len(vectors_ND)):
        gains = []
        for position, vector_D in enumerate(vectors_ND):
            alike = max((cosine(vector_D, vectors_ND[one], 0).item() for one in chosen), default=0.0)
            gain = LIKE_MEAN * cosine(vector_D, mean_D, 0).item() - (1 - LIKE_MEAN) * alike
            gains.append(-1e9 if position in chosen else gain)
        chosen.append(gains.index(max(gains)))
    return chosen


def test_each_product_is_typical_and_unlike_those_before():
    vectors_ND = torch.randn(40, 8, generator=torch.Generator().manual_seed(0)) + 0.5
    mean_D = vectors_ND.mean(0)
    assert diverse(vectors_ND, mean_D, 12) == naive(vectors_ND, mean_D, 12)
    assert sorted(diverse(vectors_ND, mean_D, 50)) == list(range(40))


def test_of_equal_products_one_is_chosen_first():
    groups_KD = torch.eye(3) + 1.0
    vectors_ND = groups_KD.repeat_interleave(10, 0)
    first = diverse(vectors_ND, vectors_ND.mean(0), 3)
    assert {position // 10 for position in first} == {0, 1, 2}
