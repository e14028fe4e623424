"""Exploration: some conversations also show products that the model ranks lower, at random places.

What shoppers choose depends on what they were shown and where, and both are chosen by the running model. In a
conversation that explores, DRAWN products from further down stand at random places among the first ones. So each rank
has a known probability of each place: later models can be judged on products which this one hides, and the effect of a
place on its choice can be measured. The log has the rank and the probability of each product shown.
"""

import random
from math import comb

DRAWN = 2  # products and places
DEEPEST = 50  # rank down to which products are drawn


def _plan(k: int, eligible: int) -> tuple[int, int, int, int]:
    """Number of products that are always shown, of those drawn, of both, and of the first ones in order, which may be
    shown.
    """
    pool = min(max(k, DEEPEST), eligible)
    shown, drawn = min(k, pool), min(DRAWN, k, pool)
    return shown - drawn, drawn, shown, pool


def explored_ranks(k: int, eligible: int) -> list[int]:
    """0-based ranks of the products to show at each of k places, of `eligible` products; fewer if there are fewer."""
    first, count, shown, pool = _plan(k, eligible)
    ranks = list(range(first))
    drawn = random.sample(range(first, pool), count)
    for place, rank in zip(sorted(random.sample(range(shown), count)), drawn, strict=True):
        ranks.insert(place, rank)
    return ranks


def propensity(rank: int, k: int, eligible: int) -> float:
    """Probability that the product at a 0-based rank is shown in a conversation that explores."""
    first, drawn, _, pool = _plan(k, eligible)
    return 1.0 if rank < first else drawn / (pool - first) if rank < pool else 0.0


def place_probabilities(rank: int, k: int, eligible: int) -> list[float]:
    """Probability of each of k places for the product at a 0-based rank; their sum is its propensity."""
    first, drawn, shown, _ = _plan(k, eligible)
    if rank >= first:
        return [propensity(rank, k, eligible) / max(1, shown)] * shown + [0.0] * (k - shown)
    ways = [  # drawn places before this one, and after it
        comb(place, place - rank) * comb(shown - 1 - place, drawn - place + rank)
        if rank <= place <= rank + drawn
        else 0
        for place in range(k)
    ]
    return [way / comb(shown, drawn) for way in ways]
