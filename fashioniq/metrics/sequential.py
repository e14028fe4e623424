"""Intervals that hold at every moment of an experiment, so that it may be looked at, and ended, at any time."""

import math
from bisect import bisect_left

ERROR = 0.05  # probability that the interval ever misses the mean
TIGHTEST = 1000  # observations at which it is narrowest
LEAST = 100  # observations below which the normal approximation is not trusted
LONGEST = 10**9


def half_width(count: int, variance: float, error: float = ERROR) -> float:
    """Half the width of the asymptotic confidence sequence of a mean (Waudby-Smith et al. 2021, theorem 2.2).

    The mean of all observations lies within it at every count at once with probability 1 − `error`. `variance` is that
    of the observations. Infinite below LEAST observations.
    """
    if count < LEAST:
        return math.inf
    squared = -2 * math.log(error) + math.log(1 - 2 * math.log(error))
    spread = count * squared / TIGHTEST
    return math.sqrt(2 * variance * (spread + 1) / (count * spread) * math.log(math.sqrt(spread + 1) / error))


def needed(mean: float, variance: float, error: float = ERROR) -> int | None:
    """Observations until the interval excludes zero, if mean and variance stay; None for a mean of zero."""
    counts = range(LEAST, LONGEST + 1)
    found = bisect_left(counts, True, key=lambda count: half_width(count, variance, error) < abs(mean))
    return counts[found] if found < len(counts) else None
