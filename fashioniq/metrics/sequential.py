"""Intervals that hold at every moment of an experiment, so that it may be looked at, and ended, at any time."""

import math

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
    low, high = LEAST, LONGEST
    if half_width(high, variance, error) >= abs(mean):
        return None
    while low < high:
        middle = (low + high) // 2
        if half_width(middle, variance, error) < abs(mean):
            high = middle
        else:
            low = middle + 1
    return low
