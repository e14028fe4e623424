"""Is a difference between two systems on the same targets more than chance? The values are differences of one measure, one for each target."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats

_AT_A_TIME = 500  # resamples held in memory


def bootstrap_interval(difference_N: NDArray[np.float64], samples: int, seed: int, confidence: float = 0.95) -> tuple[float, float]:
    """The percentile interval of the mean of N paired differences, N ≥ 2, over resampled targets (Efron 1979; Sakai 2006 for retrieval)."""
    found = stats.bootstrap(
        (difference_N,), np.mean, n_resamples=samples, batch=_AT_A_TIME, confidence_level=confidence, method="percentile",
        rng=np.random.default_rng(seed),
    )  # fmt: skip
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def randomisation_p(difference_N: NDArray[np.float64], samples: int, seed: int) -> float:
    """The two-sided p-value of a mean as far from 0 if every sign were a coin's (Fisher's test; Smucker, Allan and Carterette 2007).

    The differences as they are count as one of the samples (Phipson and Smyth 2010), so that p is never 0.
    """
    # scipy's permutation_test sorts where a sign is enough and takes twenty times as long. Ties have no sign.
    moved_M = difference_N[difference_N != 0]
    far = abs(moved_M.sum()) - 1e-12 * np.abs(moved_M).sum()  # sums of the same values in another order differ in their last digits
    rng = np.random.default_rng(seed)
    as_far = 1
    for start in range(0, samples, _AT_A_TIME):
        sign_SM = rng.integers(0, 2, (min(_AT_A_TIME, samples - start), len(moved_M)), dtype=np.int8) * 2.0 - 1
        as_far += int((np.abs(sign_SM @ moved_M) >= far).sum())
    return as_far / (samples + 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values of several comparisons, corrected so that one false alarm among all of them is as unlikely as in one (Holm 1979)."""
    corrected = [0.0] * len(p_values)
    highest = 0.0
    for place, number in enumerate(sorted(range(len(p_values)), key=lambda number: p_values[number])):
        highest = max(highest, min(1.0, (len(p_values) - place) * p_values[number]))
        corrected[number] = highest
    return corrected


def per_target(difference_B: NDArray[np.float64], target_B: Sequence[str]) -> NDArray[np.float64]:
    """One value for each of N targets, with the mean of the B dialogs: dialogs of one target are not independent of each other."""
    _, place_B = np.unique(np.asarray(target_B), return_inverse=True)
    sum_N = np.bincount(place_B, weights=difference_B)
    return sum_N * len(sum_N) / len(difference_B)
