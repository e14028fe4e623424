"""Off-policy estimates and gates on logs of simulated shoppers with exploration, beside the truth.

The truth is the expected success of the next answer: how probable it is that the shopper examines the target in the
list of a model, averaged over the conversations so far that the running model led to.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from live_shoppers import DEEPEST, Answer, Bools, Floats, Ints, Log, Street

from fashioniq.metrics.examination import PositionBias, position_bias
from fashioniq.metrics.off_policy import (
    LoggedAnswers,
    PolicyComparison,
    clipped_ips,
    doubly_robust,
    self_normalized,
    support,
)
from fashioniq.metrics.significance import bootstrap_interval, per_target
from fashioniq.service.exploring import DRAWN, explored_ranks, place_probabilities
from fashioniq.service.learning.off_policy_gate import LEAST_EFFECTIVE

ESTIMATORS: dict[str, Callable[[LoggedAnswers], PolicyComparison]] = {
    "clipped": clipped_ips,
    "self-normalized": self_normalized,
    "doubly robust": doubly_robust,
}
ANSWERS = (1000, 4000, 16_000)  # logged answers of an experiment
ANY = 10**6  # products that may be shown, more than DEEPEST
BEYOND = 63  # rank of a product that is not among the first DEEPEST
LISTED = 0.5  # share of the shoppers without success whose target is known: they buy the product elsewhere
SAMPLES = 1000  # of the bootstrap of the replay


def exploring(rankings: Sequence[Sequence[int]], k: int, draw: random.Random) -> Answer:
    """Answer of the running model with products from further down at random places."""
    random.seed(draw.random())  # the service has no seed
    return Answer([rankings[0][rank] for rank in explored_ranks(k, ANY)], [0.0] * k, [1.0] * k)


class Experiment(NamedTuple):
    """Logged answers N: rows of the pool, numbers of shoppers, ranks shown, and what was clicked and chosen."""

    row_N: Ints
    session_N: Ints
    rank_NK: Ints
    clicked_NK: Bools
    chosen_NK: Bools


class Explored:
    """A pool of R answers in conversations that explored, with the rankings of both models.

    With `equal`, shoppers with whom one model is better are left out until both are equally good in the next answer.
    An experiment draws shoppers with replacement, and for each of their answers anew what is explored, examined and
    chosen, given the conversation so far.
    """

    def __init__(self, log: Log, street: Street, seed: int, equal: bool = False) -> None:
        self.log, self.street, self.shown = log, street, log.item_RK.shape[1]
        self.truth_K = street.behavior.examination_K
        running_RD, new_RD = log.ranked_RMD[:, 0], log.ranked_RMD[:, 1]
        self.new_of_running_RD, self.running_of_new_RD = (
            _places(running_RD, new_RD),
            _places(new_RD, running_RD),
        )
        self.target_RM = np.stack(
            [_places(log.target_R[:, None], one)[:, 0] for one in (running_RD, new_RD)], 1
        )
        examined_P = np.append(self.truth_K, np.zeros(BEYOND + 1 - self.shown))
        value_RM = examined_P[self.target_RM]
        self.probability_DK = np.array(
            [place_probabilities(rank, self.shown, ANY) for rank in range(DEEPEST)]
        )
        size = len(log.success_B)
        self.order_R = np.argsort(log.shopper_R, kind="stable")
        self.length_B = np.bincount(log.shopper_R, minlength=size)
        self.begins_B = np.cumsum(self.length_B) - self.length_B
        better_B = np.bincount(log.shopper_R, value_RM[:, 1] - value_RM[:, 0], size)
        self.kept_S = _balanced(better_B, np.random.default_rng((seed, 3))) if equal else np.arange(size)
        kept_R = np.isin(log.shopper_R, self.kept_S)
        value_RM = value_RM[kept_R]
        # expected success of the new model's answers less that of the running one's, and what of it exploration never shows
        self.truth = float((value_RM[:, 1] - value_RM[:, 0]).mean())
        self.hidden = float((value_RM[:, 1] * (self.target_RM[kept_R, 0] == BEYOND)).mean())
        self.known_B = log.success_B | (np.random.default_rng((seed, 2)).random(size) < LISTED)

    def drawn(self, answers: int, draw: np.random.Generator) -> Experiment:
        """About this many answers to shoppers drawn with replacement."""
        count = round(answers / self.length_B[self.kept_S].mean())
        shopper_S = draw.choice(self.kept_S, count)
        length_S = self.length_B[shopper_S]
        session_N = np.repeat(np.arange(count), length_S)
        turn_N = np.arange(len(session_N)) - (np.cumsum(length_S) - length_S)[session_N]
        row_N = self.order_R[self.begins_B[shopper_S][session_N] + turn_N]
        random.seed(int(draw.integers(2**31)))  # the service has no seed
        rank_NK = np.array([explored_ranks(self.shown, ANY) for _ in row_N])
        examined_NK = draw.random(rank_NK.shape) < self.truth_K
        chosen_NK = examined_NK & (rank_NK == self.target_RM[row_N, :1])
        examined_NK &= chosen_NK.cumsum(1) - chosen_NK == 0  # nothing after the target
        item_NK = np.take_along_axis(self.log.ranked_RMD[row_N, 0], rank_NK, 1)
        alike_NK = self.street.alike_NN[self.log.target_R[row_N, None], item_NK]
        behavior = self.street.behavior
        perceived_NK = alike_NK + behavior.noise * draw.standard_normal(rank_NK.shape)
        clicked_NK = examined_NK & ((perceived_NK > behavior.clicks) | chosen_NK)
        return Experiment(row_N, session_N, rank_NK, clicked_NK, chosen_NK)

    def answers(self, one: Experiment, bias: PositionBias) -> LoggedAnswers:
        """The log of an experiment, for a given position bias."""
        new_ND = self.new_of_running_RD[one.row_N]
        return LoggedAnswers(
            reward_NK=one.chosen_NK.astype(float),
            propensity_NK=np.ones(one.rank_NK.shape),
            place_RK=self.probability_DK,
            running_rank_NK=one.rank_NK,
            new_rank_NK=np.take_along_axis(new_ND, one.rank_NK, 1),
            new_list_NK=self.running_of_new_RD[one.row_N, : self.shown],
            running_list_NK=new_ND[:, : self.shown],
            bias=bias,
            session_N=one.session_N,
        )

    def bias(self, one: Experiment) -> PositionBias:
        """The position bias by the places of clicks and choices."""
        found = position_bias(
            one.rank_NK, one.clicked_NK, self.shown - DRAWN, one.chosen_NK, one.session_N
        )
        return found or PositionBias.known(np.ones(self.shown))

    def replayed(self, row_N: Ints) -> bool:
        """Whether the gate that replays conversations with a known target would activate the new model."""
        row_N = row_N[self.known_B[self.log.shopper_R[row_N]]]
        rank_NM, target_N = self.log.rank_RM[row_N], self.log.target_R[row_N].tolist()
        measures = (100.0 * (rank_NM < 10), 1 / (1 + rank_NM))
        differences = [per_target(value_NM[:, 1] - value_NM[:, 0], target_N) for value_NM in measures]
        return all(one.any() and bootstrap_interval(one, SAMPLES, seed=0)[0] > 0 for one in differences)


def _balanced(better_B: Floats, draw: np.random.Generator) -> Ints:
    """Shoppers without so many of those with whom one model is better, chosen at random, that none is on average."""
    total, left_out = float(better_B.sum()), list[int]()
    for shopper in draw.permutation(np.nonzero(better_B * total > 0)[0]).tolist():
        if abs(total) < abs(better_B[shopper]):
            continue
        total -= float(better_B[shopper])
        left_out.append(shopper)
    return np.setdiff1d(np.arange(len(better_B)), left_out)


def _places(item_RK: Ints, ranked_RD: Ints) -> Ints:
    """Ranks of products in lists, BEYOND where they are not in it."""
    found_RK = np.empty(item_RK.shape, np.int64)
    for rows in (slice(start, start + 2000) for start in range(0, len(item_RK), 2000)):
        there_RKD = item_RK[rows, :, None] == ranked_RD[rows, None, :]
        found_RK[rows] = np.where(there_RKD.any(2), there_RKD.argmax(2), BEYOND)
    return found_RK


def off_policy(pool: Explored, experiments: int, seed: int) -> dict[str, Any]:
    """Coverage, bias and width of the estimators, in percentage points, and how often each gate would activate."""
    found: dict[str, Any] = {
        "truth": 100 * pool.truth,
        "supported truth": 100 * (pool.truth - pool.hidden),
        "by answers": {},
    }
    for answers in ANSWERS:
        draw, intervals, activated = np.random.default_rng((seed, answers)), {}, []
        biases, effective, passed = [], [], []
        for _ in range(experiments):
            one = pool.drawn(answers, draw)
            bias = pool.bias(one)
            biases.append(bias.examination_P)
            activated.append(pool.replayed(one.row_N))
            certain, known, ignored = (
                pool.answers(one, PositionBias.known(examined_K))
                for examined_K in (bias.examination_P, pool.truth_K, np.ones(pool.shown))
            )
            log = pool.answers(one, bias)
            estimates = {name: estimate(log) for name, estimate in ESTIMATORS.items()}
            estimates["doubly robust, bias as if known"] = doubly_robust(certain)
            estimates["doubly robust, bias given"] = doubly_robust(known)
            estimates["doubly robust, bias ignored"] = doubly_robust(ignored)
            for name, of in estimates.items():
                intervals.setdefault(name, []).append((of.new - of.running, of.low, of.high))
            can = support(log)
            effective.append(can)
            passed.append(can.effective >= LEAST_EFFECTIVE and estimates["doubly robust"].low > 0)
        found["by answers"][str(answers)] = {
            "estimators": {name: _summary(pool, np.array(rows)) for name, rows in intervals.items()},
            "off-policy gate activates": 100 * float(np.mean(passed)),
            "replay activates": 100 * float(np.mean(activated)),
            "position bias": np.mean(biases, 0).tolist(),
            "standard deviation of the position bias": np.std(biases, 0).tolist(),
            "support": dict(
                zip(("effective", "clipped", "unsupported"), np.mean(effective, 0).tolist(), strict=True)
            ),
        }
    return found


def _summary(pool: Explored, estimate_E3: Floats) -> dict[str, float]:
    estimate_E, low_E, high_E = estimate_E3.T
    covered = [
        100 * float(((low_E <= truth) & (truth <= high_E)).mean())
        for truth in (pool.truth, pool.truth - pool.hidden)
    ]
    return {
        "covered": covered[0],
        "supported truth covered": covered[1],
        "bias": 100 * float(estimate_E.mean() - pool.truth),
        "standard deviation": 100 * float(estimate_E.std()),
        "half width": 50 * float((high_E - low_E).mean()),
        "above the truth": 100 * float((low_E > pool.truth - pool.hidden).mean()),
        "activates": 100 * float((low_E > 0).mean()),
    }
