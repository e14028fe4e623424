"""The interval of a mean of values that depend on each other within clusters, such as the sessions of a log."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats


def cluster_interval(
    value_N: NDArray[np.float64], cluster_N: NDArray[np.int64], rare: float = 0.0, moved_C: Any = 0.0
) -> tuple[float, float]:
    """95 % interval of the mean of values that are independent between clusters only; infinite for one cluster.

    Student's interval of the linearized ratio of sums, corrected for skewness (Hall 1992, "On the removal of skewness
    by transformation"). A few rewards have great weights, and a log in which they are missing looks too certain: on the
    side of `rare`, the greatest such weight, the interval is instead Student's with one more answer of this value.
    What a cluster adds to the sum by its influence on what the values were computed with is in `moved_C`, also of
    clusters without a value.
    """
    size = np.size(moved_C)
    sum_C, count_C = np.bincount(cluster_N, value_N, size), np.bincount(cluster_N, minlength=size)
    clusters, mean = len(sum_C), float(value_N.mean())
    if clusters < 2:
        return -np.inf, np.inf
    residual_C = (sum_C - mean * count_C + moved_C) / count_C.mean()
    square, quantile = float((residual_C**2).mean()), float(stats.t.ppf(0.975, clusters - 1))
    skewness = float((residual_C**3).mean()) / max(square**1.5, 1e-300)

    def moved(by: float) -> float:
        shifted = by / np.sqrt(clusters) - skewness / (6 * clusters)
        root = 3 * (np.cbrt(1 + skewness * shifted) - 1) / skewness if abs(skewness) > 1e-9 else shifted
        return float(root * np.sqrt(square * clusters / (clusters - 1)))

    wide = quantile * math.sqrt(
        (square * clusters + (rare / count_C.mean()) ** 2) / clusters / (clusters - 1)
    )
    low = mean - (wide if rare < 0 else moved(quantile))
    high = mean + (wide if rare > 0 else -moved(-quantile))
    return low, high
