"""Ranges of prices with round bounds: as filters, and as what is cheap or expensive in a shop."""

import math
from itertools import count, pairwise

import msgspec
import numpy as np

MOST_RANGES = 5
SAMPLE = 50_000  # prices that the bounds of ranges are chosen from


class PriceRange(msgspec.Struct, frozen=True):
    """Prices from `gte` to `lte`, both included, in minor units of a currency; None where it is open."""

    currency: str
    gte: int | None
    lte: int | None


def price_ranges(price_N: np.ndarray, currency: str, unit: int) -> list[PriceRange]:
    """At most MOST_RANGES ranges with about as many prices each, and round bounds.

    `unit` is the number of minor units in one unit of the currency, such as 100. No range if all prices are alike.
    """
    step = -(-len(price_N) // SAMPLE)
    prices = np.sort(price_N[:: max(step, 1)])
    if not len(prices):
        return []
    quantile = [prices[len(prices) * part // MOST_RANGES] for part in range(1, MOST_RANGES)]
    grid = _round_step((quantile[-1] - quantile[0]) / MOST_RANGES, unit)
    rounded = (grid * math.floor(price / grid + 0.5) for price in quantile)
    bounds = sorted({bound for bound in rounded if prices[0] < bound <= prices[-1]})
    edges = [None, *bounds, None] if bounds else []
    return [
        PriceRange(currency, lower, None if upper is None else upper - 1) for lower, upper in pairwise(edges)
    ]


def _round_step(least: float, unit: int) -> int:
    """The smallest of 1, 2, 5, 10, … units of a currency that is not below `least` minor units."""
    steps = (digit * 10**power * unit for power in count() for digit in (1, 2, 5))
    return next(step for step in steps if step >= least)
