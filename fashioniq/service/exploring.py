"""Exploration: some conversations also show products that the model ranks lower.

What shoppers choose depends on what they were shown, and that is chosen by the running model. In a conversation that
explores, the last DRAWN places are drawn from the products that follow, so that later models can be judged on
products which this one hides. The log has the probability of each place.
"""

import random
from collections.abc import Sequence

from fashioniq.data.cards import Product

DRAWN = 2  # places
DEEPEST = 50  # rank down to which products are drawn


def explored(products: Sequence[Product], k: int) -> list[Product]:
    """The first k − DRAWN of the nearest products, then DRAWN of the others, drawn without replacement."""
    first = max(0, k - DRAWN)
    rest = products[first:DEEPEST]
    drawn = sorted(random.sample(range(len(rest)), min(k - first, len(rest))))
    return [*products[:first], *(rest[position] for position in drawn)]


def propensities(shown: int, k: int, eligible: int) -> list[float]:
    """Probability of each of the products shown in a conversation that explores, of which `eligible` could be found."""
    first = max(0, k - DRAWN)
    rest = max(1, min(DEEPEST, eligible) - first)
    return [1.0 if place < first else min(1.0, (k - first) / rest) for place in range(shown)]
