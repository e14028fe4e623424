"""How probable it is that a shopper looks at a place at all: position bias, from places that were chosen at random."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

_PRIOR = 1.0  # choices of each place if all were examined alike, and of each row at the mean rate
_ROUNDS = 10_000
_CLOSE = 1e-10


def examination(clicks_RP: Any, impressions_RP: Any) -> NDArray[np.float64] | None:
    """Probability that each of P places is examined, relative to the first, P; None without any choice.

    A row R has all products of the same rank by the model, or all that were drawn. Within a row, the place must not
    depend on the product (intervention harvesting: Agarwal et al. 2019, "Estimating position bias without intrusive
    interventions"; Joachims, Swaminathan and Schnabel 2017). Choices are Poisson with the mean impressions ×
    examination × relevance of the row; the most likely values with a weak prior are found by alternating updates.
    From few choices it is uncertain, but estimators of rewards do far better with it than without any.
    Raises ValueError for counts that are negative or of different shapes.
    """
    clicks_RP, impressions_RP = np.asarray(clicks_RP, dtype=float), np.asarray(impressions_RP, dtype=float)
    if (
        clicks_RP.shape != impressions_RP.shape
        or clicks_RP.ndim != 2
        or min(clicks_RP.min(), impressions_RP.min()) < 0
    ):
        raise ValueError("expected clicks and impressions as two matrices of the same shape, none negative")
    clicks_R, clicks_P = clicks_RP.sum(1), clicks_RP.sum(0)
    if not clicks_P.sum():
        return None
    rate = clicks_RP.sum() / impressions_RP.sum()
    examined_P = np.ones(len(clicks_P))
    for _ in range(_ROUNDS):
        before_P = examined_P
        relevance_R = (clicks_R + _PRIOR) / (impressions_RP @ examined_P + _PRIOR / rate)
        examined_P = (clicks_P + _PRIOR) / (relevance_R @ impressions_RP + _PRIOR)
        examined_P = examined_P / examined_P[0]
        if np.abs(examined_P - before_P).max() < _CLOSE:
            break
    return examined_P


def counted(
    rank_NK: Any, chosen_NK: Any, first: int, final_NK: Any = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Clicks and impressions by row and place, (first + 1)×K, of N answers that explored.

    `rank_NK` are the 0-based ranks of the products at each place, −1 where there is none, `chosen_NK` whether they were
    chosen; ranks from `first` on were drawn, and share the last row. `final_NK` are the choices of what was looked for:
    their rows come first, then those of other choices, so that there are 2·first + 2. In the latter, places after a
    final choice do not count, as shoppers may have looked no further.
    """
    rank_NK, chosen_NK = np.asarray(rank_NK), np.asarray(chosen_NK, dtype=bool)
    if final_NK is not None:
        final_NK = np.asarray(final_NK, dtype=bool)
        looked_NK = np.where(final_NK.cumsum(1) - final_NK > 0, -1, rank_NK)
        parts = counted(rank_NK, final_NK, first), counted(looked_NK, chosen_NK & ~final_NK, first)
        clicks, impressions = (np.concatenate(both) for both in zip(*parts, strict=True))
        return clicks, impressions
    row_NK = np.minimum(rank_NK, first)
    place_NK = np.broadcast_to(np.arange(rank_NK.shape[1]), rank_NK.shape)

    def count(which_NK: NDArray[np.bool_]) -> NDArray[np.int64]:
        found_RP = np.zeros((first + 1, rank_NK.shape[1]), dtype=np.int64)
        np.add.at(found_RP, (row_NK[which_NK], place_NK[which_NK]), 1)
        return found_RP

    shown_NK = rank_NK >= 0
    return count(shown_NK & chosen_NK), count(shown_NK)
