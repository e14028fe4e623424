"""What another model would have achieved, from a log whose products were shown with known probabilities.

Off-policy evaluation with the item-position model (Li et al. 2018, "Offline evaluation of ranking policies with click
models"; Joachims, Swaminathan and Schnabel 2017): the expected reward of an answer is the sum over its places of
examination × relevance. The value of a model is the mean reward of its first K products per answer.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fashioniq.metrics.cluster_interval import cluster_interval
from fashioniq.metrics.examination import Floats, PositionBias

CLIP = 100.0  # greatest weight of a reward; those of 8 places and 50 ranks stay below it
FOLDS = 5  # of sessions; the reward model of a fold is fitted to the others
STRENGTH = 20.0  # examined products of the prior of a cell of the reward model
DEEPEST = 50  # ranks of the running model that the exploration draws from
STEP = 0.01  # of the logarithm of the examination of a place, for derivatives


@dataclass(frozen=True)
class LoggedAnswers:
    """N answers of K places, chosen by an exploring policy, and what two models would have shown instead.

    Ranks are 0-based among all products: in the order of the running model, which explored, and of the new one, each of
    which shows its first K. They are −1 where an answer or a list has fewer products.
    """

    reward_NK: Floats  # of the product at each place, 0 or 1
    propensity_NK: Floats  # probability that this product is shown
    place_RK: Floats  # probability of each place of a shown product, by its running rank; the last row is for the rest
    running_rank_NK: NDArray[np.int64]  # of this product, by the running model
    new_rank_NK: NDArray[np.int64]  # of this product, by the new model
    new_list_NK: NDArray[np.int64]  # rank by the running model of the first K products of the new one
    running_list_NK: NDArray[np.int64]  # rank by the new model of the first K products of the running one
    bias: PositionBias  # examination of each place, that of the first is 1
    session_N: NDArray[Any]  # answers of one session or client are not independent
    deepest: int = DEEPEST  # ranks of the running model from here on were never shown

    def __post_init__(self) -> None:
        shapes = {getattr(self, name).shape for name in self.__annotations__ if name.endswith("_NK")}
        shapes |= {(len(self.session_N), self.place_RK.shape[1])}
        if shapes != {(len(self.session_N), len(self.examination_K))} or not len(self.session_N):
            raise ValueError(
                f"expected arrays of N ≥ 1 answers of K places, found the shapes {sorted(shapes)}"
            )

    @property
    def examination_K(self) -> Floats:
        """Examination of each place."""
        return self.bias.examination_P

    @cached_property
    def exposure_NK(self) -> Floats:
        """Of each product: sum over the places of their probability × examination."""
        row_NK = np.minimum(self.running_rank_NK, len(self.place_RK) - 1)
        return self.propensity_NK * (self.place_RK @ self.examination_K)[row_NK]

    @cached_property
    def shown_NK(self) -> NDArray[np.bool_]:
        """Whether there is a product at the place."""
        return self.running_rank_NK >= 0

    @cached_property
    def cluster_N(self) -> NDArray[np.int64]:
        """Sessions as numbers."""
        return self._clusters[: len(self.session_N)]

    @cached_property
    def cluster_M(self) -> NDArray[np.int64]:
        """Sessions of the position bias as numbers."""
        return self._clusters[len(self.session_N) :]

    @cached_property
    def _clusters(self) -> NDArray[np.int64]:
        return np.unique(np.concatenate([self.session_N, self.bias.session_M]), return_inverse=True)[1]

    def examined(self, rank_NK: NDArray[np.int64]) -> Floats:
        """Examination of the place at which a model shows products of these ranks, 0 where it does not show them."""
        inside_NK = (rank_NK >= 0) & (rank_NK < len(self.examination_K))
        return np.where(inside_NK, self.examination_K[np.where(inside_NK, rank_NK, 0)], 0.0)

    def weights(self, rank_NK: NDArray[np.int64]) -> Floats:
        """Examination of the products shown under another policy, relative to the exploring one."""
        return self.examined(rank_NK) / np.where(self.shown_NK, self.exposure_NK, 1.0)


class PolicyComparison(NamedTuple):
    """Mean reward per answer of both models, and the 95 % interval of new − running."""

    running: float
    new: float
    low: float
    high: float


class LogSupport(NamedTuple):
    """What a log can say of the new model.

    `effective` is the number of answers of the new model's own that would be as informative (Kish 1965), `clipped` the
    share of its weight that CLIP removes, and `unsupported` the share of its examination that falls on products which
    exploration never shows. Their reward counts as 0, so that an estimate is too low by at most that share.
    """

    effective: float
    clipped: float
    unsupported: float


def support(log: LoggedAnswers) -> LogSupport:
    """What the log can say of the new model."""
    weight_NK = log.weights(log.new_rank_NK)
    examined_NK = np.where(log.shown_NK, log.examination_K, 0.0)
    weight_N = (weight_NK * examined_NK).sum(1)
    there_NK, hidden_NK = log.new_list_NK >= 0, log.new_list_NK >= log.deepest
    return LogSupport(
        effective=float(weight_N.sum() ** 2 / max((weight_N**2).sum(), 1e-12)),
        clipped=float(np.maximum(weight_NK - CLIP, 0).sum() / max(weight_NK.sum(), 1e-12)),
        unsupported=float(
            (log.examination_K * hidden_NK).sum() / max((log.examination_K * there_NK).sum(), 1e-12)
        ),
    )


def clipped_ips(log: LoggedAnswers, clip: float = CLIP) -> PolicyComparison:
    """Inverse propensity score: rewards weighted by examination / exposure, at most `clip` (Bottou et al. 2013).

    Unbiased for supported products if no weight is clipped.
    """

    def values(log: LoggedAnswers) -> list[Floats]:
        return [
            (np.minimum(log.weights(rank_NK), clip) * log.reward_NK).sum(1)
            for rank_NK in (log.running_rank_NK, log.new_rank_NK)
        ]

    return _compared(log, values)


def self_normalized(log: LoggedAnswers, clip: float = CLIP) -> PolicyComparison:
    """Inverse propensity score divided by the mean of its weights (Swaminathan and Joachims 2015).

    The expected weight of an answer is the examination of those products of a model which exploration may show. The
    interval is that of the linearized ratio.
    """
    place_NK = np.broadcast_to(np.arange(len(log.examination_K)), log.running_list_NK.shape)
    running_list_NK = np.where(log.running_list_NK >= 0, place_NK, -1)

    def values(log: LoggedAnswers) -> list[Floats]:
        examined_NK, found = np.where(log.shown_NK, log.examination_K, 0.0), []
        for rank_NK, list_NK in (
            (log.running_rank_NK, running_list_NK),
            (log.new_rank_NK, log.new_list_NK),
        ):
            weight_NK = np.minimum(log.weights(rank_NK), clip)
            reward_N, weight_N = (weight_NK * log.reward_NK).sum(1), (weight_NK * examined_NK).sum(1)
            supported_N = (log.examination_K * ((list_NK >= 0) & (list_NK < log.deepest))).sum(1)
            weight, ratio = weight_N.mean(), reward_N.mean() / max(weight_N.mean(), 1e-12)
            moved_N = (reward_N - ratio * weight_N) * supported_N.mean() / max(weight, 1e-12)
            found.append(ratio * supported_N + moved_N)
        return found

    return _compared(log, values)


class Relevances(NamedTuple):
    """Predicted probability that a product is chosen if it is examined: of those shown, and of both models' lists."""

    shown_NK: Floats
    new_NK: Floats
    running_NK: Floats


def doubly_robust(
    log: LoggedAnswers, relevance: Relevances | None = None, clip: float = CLIP
) -> PolicyComparison:
    """Predicted rewards of both lists, corrected by the weighted errors of the predictions for what was shown (Dudík et
    al. 2014).

    Unbiased as the inverse propensity score is, with a smaller variance the better the predictions are; by default they
    are those of `fitted_relevances`. With predictions of 0 it is the clipped inverse propensity score.
    """
    predicted = relevance or fitted_relevances(log)

    def values(log: LoggedAnswers) -> list[Floats]:
        error_NK = log.reward_NK - np.where(log.shown_NK, log.examination_K, 0.0) * predicted.shown_NK
        return [
            (log.examination_K * of_list_NK).sum(1)
            + (np.minimum(log.weights(rank_NK), clip) * error_NK).sum(1)
            for of_list_NK, rank_NK in (
                (predicted.running_NK, log.running_rank_NK),
                (predicted.new_NK, log.new_rank_NK),
            )
        ]

    return _compared(log, values)


def fitted_relevances(log: LoggedAnswers) -> Relevances:
    """Relevance by the ranks of both models: a table over their logarithms, fitted to the sessions of other folds.

    A cell is shrunk to the product of its row and column, and these to the mean. Products that exploration never shows,
    and empty places, have 0.
    """
    place_NK = np.broadcast_to(np.arange(len(log.examination_K)), log.new_list_NK.shape)
    shown, new, running = (
        (log.running_rank_NK, log.new_rank_NK), (log.new_list_NK, place_NK), (place_NK, log.running_list_NK)
    )  # fmt: skip
    fold_N = log.cluster_N % FOLDS
    table_FC = np.stack([_table(log, fold_N != fold) for fold in range(FOLDS)])

    def predicted(by_running_NK: NDArray[np.int64], by_new_NK: NDArray[np.int64]) -> Floats:
        known_NK = (by_running_NK >= 0) & (by_new_NK >= 0) & (by_running_NK < log.deepest)
        return known_NK * table_FC[fold_N[:, None], _cell(by_running_NK, by_new_NK)]

    return Relevances(*(predicted(*ranks) for ranks in (shown, new, running)))


def _cell(by_running_NK: NDArray[np.int64], by_new_NK: NDArray[np.int64]) -> NDArray[np.int64]:
    """Cells of two ranks, of a table with 7 × 7, for the ranks 0, 1–2, 3–6, 7–14, 15–30, 31–62, and the rest."""
    row_NK, column_NK = (
        np.minimum(np.log2(np.maximum(rank_NK, 0) + 1), 6).astype(np.int64)
        for rank_NK in (by_running_NK, by_new_NK)
    )
    return 7 * row_NK + column_NK


def _table(log: LoggedAnswers, chosen_N: NDArray[np.bool_]) -> Floats:
    """Relevance by the cells of both ranks."""
    which_NK = log.shown_NK & chosen_N[:, None]
    cells = _cell(log.running_rank_NK, log.new_rank_NK)[which_NK]
    examined_NK = np.broadcast_to(log.examination_K, which_NK.shape)
    reward_CC, examined_CC = (
        np.bincount(cells, one_NK[which_NK], 49).reshape(7, 7) for one_NK in (log.reward_NK, examined_NK)
    )

    def shrunk(axis: int | None, prior: Any) -> Any:
        reward, examined = reward_CC.sum(axis, keepdims=True), examined_CC.sum(axis, keepdims=True)
        return (reward + STRENGTH * prior) / (examined + STRENGTH)

    mean = reward_CC.sum() / max(examined_CC.sum(), 1e-12)
    prior_CC = shrunk(1, mean) * shrunk(0, mean) / max(mean, 1e-12)
    return np.minimum((reward_CC + STRENGTH * prior_CC) / (examined_CC + STRENGTH), 1.0).ravel()


def _compared(log: LoggedAnswers, values: Callable[[LoggedAnswers], list[Floats]]) -> PolicyComparison:
    """Comparison by the values of both models, whose interval knows that the position bias is an estimate."""
    running_N, new_N = values(log)
    difference_N = new_N - running_N
    moved_M = log.bias.influence_MP @ _slopes(log, values, float(difference_N.mean())) * len(difference_N)
    moved_C = np.bincount(log.cluster_M, moved_M, log.cluster_N.max() + 1)
    weight_NK = log.weights(log.new_rank_NK) - log.weights(log.running_rank_NK)
    rare = float(weight_NK.flat[np.abs(weight_NK).argmax()])
    low, high = cluster_interval(difference_N, log.cluster_N, max(-CLIP, min(rare, CLIP)), moved_C)
    return PolicyComparison(float(running_N.mean()), float(new_N.mean()), low, high)


def _slopes(log: LoggedAnswers, values: Callable[[LoggedAnswers], list[Floats]], difference: float) -> Floats:
    """Derivatives of the estimated difference by the logarithm of the examination of each place; 0 for a known one."""
    slope_K = np.zeros(len(log.examination_K))
    if not len(log.bias.session_M):
        return slope_K
    for place in range(1, len(slope_K)):  # that of the first place is 1
        examined_K = log.examination_K.copy()
        examined_K[place] *= math.exp(STEP)
        running_N, new_N = values(replace(log, bias=log.bias._replace(examination_P=examined_K)))
        slope_K[place] = ((new_N - running_N).mean() - difference) / STEP
    return slope_K
