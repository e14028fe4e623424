"""Significance of the difference between two systems on the same targets.

Inputs are paired differences of one measure, one per target.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

SAMPLES = 10_000  # usual ones of the bootstrap, and permutations of the test
_AT_A_TIME = 500  # resamples per batch


def bootstrap_interval(difference_N: NDArray[np.float64], samples: int, seed: int) -> tuple[float, float]:
    """95 % bootstrap percentile interval of the mean of N ≥ 2 paired differences (Efron 1979; Sakai 2006 for
    retrieval)."""
    found = stats.bootstrap(
        (difference_N,), np.mean, n_resamples=samples, batch=_AT_A_TIME, confidence_level=0.95, method="percentile",
        rng=np.random.default_rng(seed),
    )  # fmt: skip
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def randomisation_p(difference_N: NDArray[np.float64], samples: int, seed: int) -> float:
    """Two-sided p-value of Fisher's randomization test, which flips signs (Smucker, Allan and Carterette
    2007).

    The observed differences count as one of the samples (Phipson and Smyth 2010), so p is never 0.
    """
    # scipy's permutation_test takes 20 times as long, since it sorts. Zero differences have no sign.
    moved_M = difference_N[difference_N != 0]
    # tolerance for rounding, since the order of summation differs
    far = abs(moved_M.sum()) - 1e-12 * np.abs(moved_M).sum()
    rng = np.random.default_rng(seed)
    as_far = 1
    for start in range(0, samples, _AT_A_TIME):
        sign_SM = (
            rng.integers(0, 2, (min(_AT_A_TIME, samples - start), len(moved_M)), dtype=np.int8) * 2.0 - 1
        )
        as_far += int((np.abs(sign_SM @ moved_M) >= far).sum())
    return as_far / (samples + 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct the p-values of several comparisons for the family-wise error rate (Holm 1979)."""
    order = sorted(range(len(p_values)), key=lambda number: p_values[number])
    single = (min(1.0, (len(order) - smaller) * p_values[number]) for smaller, number in enumerate(order))
    corrected = dict(zip(order, accumulate(single, max), strict=True))
    return [corrected[number] for number in range(len(order))]


def tested(differences: Sequence[NDArray[np.float64]], seed: int) -> list[dict[str, Any]]:
    """Mean, interval and p of each of several comparisons' paired differences, with p corrected for their number."""
    rows: list[dict[str, Any]] = [
        {
            "difference": float(difference_N.mean()),
            "interval": bootstrap_interval(difference_N, SAMPLES, seed),
            "p": randomisation_p(difference_N, SAMPLES, seed),
        }
        for difference_N in differences
    ]
    corrected = holm([row["p"] for row in rows])
    return [row | {"p_corrected": p} for row, p in zip(rows, corrected, strict=True)]


def per_target(difference_B: NDArray[np.float64], target_B: Sequence[str]) -> NDArray[np.float64]:
    """Combine B differences into one value per target, N, with the same mean.

    Dialogs of the same target are not independent of each other.
    """
    _, number_B = np.unique(np.asarray(target_B), return_inverse=True)
    sum_N = np.bincount(number_B, weights=difference_B)
    return sum_N * len(sum_N) / len(difference_B)
