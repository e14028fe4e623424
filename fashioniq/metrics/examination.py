"""How probable it is that a shopper looks at a place at all: position bias, from places that were chosen at random."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
# row of each product N×P, whether it was chosen, and whether it counts as shown
Looks = tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]

_PRIOR = 1.0  # choices of each place if all were examined alike, and of each row at the mean rate
_ROUNDS = 10_000
_CLOSE = 1e-10


class PositionBias(NamedTuple):
    """Examination of each of P places, and the influence that each of M sessions had on it.

    The sum of the influences is about the logarithm of the estimate less that of the truth.
    """

    examination_P: Floats
    influence_MP: Floats
    session_M: NDArray[Any]

    @classmethod
    def known(cls, examination_P: Any) -> Self:
        """A position bias that no session had an influence on."""
        examination_P = np.asarray(examination_P, dtype=float)
        return cls(examination_P, np.zeros((0, len(examination_P))), np.zeros(0, np.int64))


def position_bias(
    rank_NP: Any, chosen_NP: Any, first: int, final_NP: Any, session_N: Any
) -> PositionBias | None:
    """The position bias of N answers that explored, as `counted` and `examination` find it; None without any choice."""
    counts = counted(rank_NP, chosen_NP, first, final_NP)
    examination_P = examination(*counts)
    if examination_P is None:
        return None
    looks = _looks(np.asarray(rank_NP), chosen_NP, first, final_NP)
    return PositionBias(examination_P, _influence(looks, *counts, examination_P), np.asarray(session_N))


def examination(clicks_RP: Any, impressions_RP: Any) -> Floats | None:
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
    examined_P = np.ones(len(clicks_P))
    for _ in range(_ROUNDS):
        before_P = examined_P
        relevance_R = _relevance(clicks_R, impressions_RP, examined_P)
        examined_P = (clicks_P + _PRIOR) / (relevance_R @ impressions_RP + _PRIOR)
        examined_P = examined_P / examined_P[0]
        if np.abs(examined_P - before_P).max() < _CLOSE:
            break
    return examined_P


def _relevance(clicks_R: Any, impressions_RP: Any, examined_P: Floats) -> Floats:
    rate = clicks_R.sum() / impressions_RP.sum()
    return (clicks_R + _PRIOR) / (impressions_RP @ examined_P + _PRIOR / rate)


def counted(
    rank_NP: Any, chosen_NP: Any, first: int, final_NP: Any = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Clicks and impressions by row and place, (first + 1)×P, of N answers that explored.

    `rank_NP` are the 0-based ranks of the products at each place, −1 where there is none, `chosen_NP` whether they were
    chosen; ranks from `first` on were drawn, and share the last row. `final_NP` are the choices of what was looked for:
    their rows come first, then those of other choices, so that there are 2·first + 2. In the latter, places after a
    final choice do not count, as shoppers may have looked no further.
    """
    rank_NP = np.asarray(rank_NP)
    rows = (first + 1) * (1 if final_NP is None else 2)
    place_NP = np.broadcast_to(np.arange(rank_NP.shape[1]), rank_NP.shape)
    clicks_RP, impressions_RP = (np.zeros((rows, rank_NP.shape[1]), dtype=np.int64) for _ in range(2))
    for row_NP, clicked_NP, shown_NP in _looks(rank_NP, chosen_NP, first, final_NP):
        np.add.at(impressions_RP, (row_NP[shown_NP], place_NP[shown_NP]), 1)
        clicked_NP = shown_NP & clicked_NP
        np.add.at(clicks_RP, (row_NP[clicked_NP], place_NP[clicked_NP]), 1)
    return clicks_RP, impressions_RP


def _influence(looks: Iterable[Looks], clicks_RP: Any, impressions_RP: Any, examined_P: Floats) -> Floats:
    """Influence of each answer on the logarithm of the examination that was estimated from all of them, N×P.

    It is the score of the answer, without what the relevance of the rows accounts for, times the inverse of the
    information.
    """
    relevance_R = _relevance(clicks_RP.sum(1), impressions_RP, examined_P)
    expected_RP = impressions_RP * examined_P * relevance_R[:, None]
    share_RP = expected_RP / np.maximum(expected_RP.sum(1, keepdims=True), 1e-12)
    information_PP = np.diag(expected_RP.sum(0) + _PRIOR * examined_P) - share_RP.T @ expected_RP
    score_NP: Any = 0.0
    for row_NP, clicked_NP, shown_NP in looks:
        surplus_NP = np.where(shown_NP, clicked_NP - relevance_R[row_NP] * examined_P, 0.0)
        score_NP = score_NP + surplus_NP
        for row_N, surplus_N in zip(row_NP.T, surplus_NP.T, strict=True):
            score_NP -= surplus_N[:, None] * share_RP[row_N]
    influence_NP = np.zeros_like(score_NP)  # that of the first place is 1 by definition
    influence_NP[:, 1:] = score_NP[:, 1:] @ np.linalg.inv(information_PP[1:, 1:])
    return influence_NP


def _looks(rank_NP: NDArray[np.int64], chosen_NP: Any, first: int, final_NP: Any) -> Iterator[Looks]:
    """Those of final choices, if they are told apart, and of others."""
    row_NP, chosen_NP = np.minimum(rank_NP, first), np.asarray(chosen_NP, dtype=bool)
    if final_NP is None:
        yield row_NP, chosen_NP, rank_NP >= 0
        return
    final_NP = np.asarray(final_NP, dtype=bool)
    before_final_NP = final_NP.cumsum(1) - final_NP == 0
    yield row_NP, final_NP, rank_NP >= 0
    yield row_NP + first + 1, chosen_NP & ~final_NP, (rank_NP >= 0) & before_final_NP
