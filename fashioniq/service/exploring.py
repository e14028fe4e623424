"""Exploration: some conversations also show products that the model ranks lower, at random places.

What shoppers choose depends on what they were shown and where, and both are chosen by the running model. In a
conversation that explores, DRAWN products from further down stand at random places among the first ones. So each rank
has a known probability of each place: later models can be judged on products which this one hides, and the effect of a
place on its choice can be measured. The log has the rank and the probability of each product shown.
"""

import random
from math import comb
from typing import NamedTuple

DRAWN = 2  # products and places
DEEPEST = 50  # rank down to which products are drawn


class _Plan(NamedTuple):
    """Number of products shown, of those drawn among them, and of the first ones in order, which may be shown."""

    shown: int
    drawn: int
    pool: int

    @classmethod
    def of(cls, k: int, eligible: int) -> "_Plan":
        pool = min(max(k, DEEPEST), eligible)
        return cls(min(k, pool), min(DRAWN, k, pool), pool)

    @property
    def first(self) -> int:
        """Number of products that are always shown."""
        return self.shown - self.drawn


def explored_ranks(k: int, eligible: int) -> list[int]:
    """0-based ranks of the products to show at each of k places, of `eligible` products; fewer if there are fewer."""
    plan = _Plan.of(k, eligible)
    ranks = list(range(plan.first))
    drawn = random.sample(range(plan.first, plan.pool), plan.drawn)
    for place, rank in zip(sorted(random.sample(range(plan.shown), plan.drawn)), drawn, strict=True):
        ranks.insert(place, rank)
    return ranks


def propensity(rank: int, k: int, eligible: int) -> float:
    """Probability that the product at a 0-based rank is shown in a conversation that explores."""
    plan = _Plan.of(k, eligible)
    return 1.0 if rank < plan.first else plan.drawn / (plan.pool - plan.first) if rank < plan.pool else 0.0


def place_probabilities(rank: int, k: int, eligible: int) -> list[float]:
    """Probability of each of k places for the product at a 0-based rank; their sum is its propensity."""
    shown, drawn, _ = plan = _Plan.of(k, eligible)
    if rank >= plan.first:
        return [propensity(rank, k, eligible) / max(1, shown)] * shown + [0.0] * (k - shown)
    ways = [  # drawn places before this one, and after it
        comb(place, place - rank) * comb(shown - 1 - place, drawn - place + rank)
        if rank <= place <= rank + drawn
        else 0
        for place in range(k)
    ]
    return [way / comb(shown, drawn) for way in ways]
