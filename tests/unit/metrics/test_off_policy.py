"""Estimates of what another model would have achieved, against what it does achieve."""

from dataclasses import replace
from itertools import combinations, permutations

import numpy as np
import pytest

from fashioniq.metrics.cluster_interval import cluster_interval
from fashioniq.metrics.examination import PositionBias, position_bias
from fashioniq.metrics.off_policy import (
    CLIP,
    FOLDS,
    LoggedAnswers,
    Relevances,
    clipped_ips,
    doubly_robust,
    fitted_relevances,
    self_normalized,
    support,
)
from fashioniq.service.exploring import DRAWN, place_probabilities

ESTIMATORS = clipped_ips, self_normalized, doubly_robust
EXAMINED_K = np.array([1.0, 0.5, 0.25])
POOL, K = 5, 3  # of 6 products, the running model explores the first five, and shows three
RELEVANCE = np.array([0.3, 0.1, 0.2, 0.4, 0.05, 0.6])  # by the rank of the running model


def predicted(log):
    """The doubly robust estimate with some wrong predictions of the relevance by the running rank."""
    relevance = np.array([0.9, 0.0, 0.5, 0.1, 0.7, 0.0])
    running_NK = np.tile(relevance[:K], (len(log.reward_NK), 1))
    return doubly_robust(
        log, Relevances(relevance[log.running_rank_NK], relevance[log.new_list_NK], running_NK)
    )


def explored_lists():
    """Every list that exploring shows, each as probable as the others."""
    first = K - DRAWN
    for places in combinations(range(K), DRAWN):
        for drawn in permutations(range(first, POOL), DRAWN):
            ranks = list(range(first))
            for place, rank in zip(places, drawn, strict=True):
                ranks.insert(place, rank)
            yield ranks


def log_of(new_order, session_N=None):
    """A log of all lists, with the expected reward of each place; `new_order` are ranks of the running model."""
    shown_NK = np.array(list(explored_lists()))
    session_N = np.arange(len(shown_NK)) if session_N is None else session_N
    return shown_log(
        shown_NK, EXAMINED_K * RELEVANCE[shown_NK], new_order, PositionBias.known(EXAMINED_K), session_N
    )


def shown_log(shown_NK, reward_NK, new_order, bias, session_N):
    """A log of lists that exploring shows; `new_order` are ranks of the running model, in each answer the same."""
    count, new_rank = len(shown_NK), np.argsort(new_order)
    return LoggedAnswers(
        reward_NK=reward_NK,
        propensity_NK=np.ones(shown_NK.shape),
        place_RK=np.array([place_probabilities(rank, K, POOL) for rank in range(POOL)]),
        running_rank_NK=shown_NK,
        new_rank_NK=new_rank[shown_NK],
        new_list_NK=np.tile(new_order[:K], (count, 1)),
        running_list_NK=np.tile(new_rank[:K], (count, 1)),
        bias=bias,
        session_N=session_N,
        deepest=POOL,
    )


def random_log(count=200, seed=0):
    """A log of random lists of 8 places and random rewards, two answers per session."""
    rng = np.random.default_rng(seed)
    order_N, examined_K = [rng.permutation(60) for _ in range(count)], 1 / np.arange(1, 9)
    shown_NK = np.array([[*range(6), *(6 + rng.permutation(44)[:2])] for _ in range(count)])
    return LoggedAnswers(
        reward_NK=(rng.random((count, 8)) < 0.2).astype(float),
        propensity_NK=np.ones(shown_NK.shape),
        place_RK=np.array([place_probabilities(rank, 8, 60) for rank in range(50)]),
        running_rank_NK=shown_NK,
        new_rank_NK=np.array([order[shown] for order, shown in zip(order_N, shown_NK, strict=True)]),
        new_list_NK=np.array([np.argsort(order)[:8] for order in order_N]),
        running_list_NK=np.array([order[:8] for order in order_N]),
        bias=PositionBias.known(examined_K),
        session_N=np.arange(count) // 2,
    )


@pytest.mark.parametrize("estimator", [clipped_ips, self_normalized, predicted])
@pytest.mark.parametrize("new_order", [(0, 1, 2, 3, 4, 5), (3, 0, 2, 1, 4, 5), (4, 3, 2, 1, 0, 5)])
def test_over_all_lists_that_exploring_shows_an_estimate_is_the_truth(estimator, new_order):
    found = estimator(log_of(new_order))
    assert found.running == pytest.approx(EXAMINED_K @ RELEVANCE[:K])
    assert found.new == pytest.approx(EXAMINED_K @ RELEVANCE[list(new_order[:K])])
    assert found.low <= found.new - found.running <= found.high


@pytest.mark.parametrize("estimator", [clipped_ips, self_normalized, predicted])
def test_products_that_exploring_never_shows_count_as_never_chosen(estimator):
    log = log_of((3, 5, 0, 1, 2, 4))
    assert estimator(log).new == pytest.approx(EXAMINED_K @ (RELEVANCE[[3, 5, 0]] * [1, 0, 1]))
    assert support(log).unsupported == pytest.approx(0.5 / 1.75)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_model_with_the_same_lists_differs_by_exactly_nothing(estimator):
    log = random_log()
    place_NK = np.tile(np.arange(8), (len(log.reward_NK), 1))
    same = replace(log, new_rank_NK=log.running_rank_NK, new_list_NK=place_NK, running_list_NK=place_NK)
    found = estimator(same)
    assert found.new == found.running and found.low == found.high == 0


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_without_exploring_the_value_of_the_running_model_is_the_mean_reward(estimator):
    log = random_log()
    place_NK = np.tile(np.arange(8), (len(log.reward_NK), 1))
    fixed = {"running_rank_NK": place_NK, "running_list_NK": log.new_rank_NK, "place_RK": np.eye(8)}
    found = estimator(replace(log, **fixed))
    assert found.running == pytest.approx(log.reward_NK.sum(1).mean())


def test_with_predictions_of_zero_the_doubly_robust_estimate_is_the_inverse_propensity_score():
    log = random_log()
    nothing_NK = np.zeros(log.reward_NK.shape)
    assert doubly_robust(log, Relevances(nothing_NK, nothing_NK, nothing_NK)) == clipped_ips(log)


def test_weights_above_the_clip_are_reported():
    log = random_log()
    rare = replace(log, propensity_NK=log.propensity_NK / 100)
    assert support(log).clipped == 0 < 0.8 < support(rare).clipped < 1
    assert clipped_ips(rare).new <= CLIP * log.reward_NK.sum(1).mean()


def test_the_effective_number_of_answers_is_all_of_them_if_the_new_model_shows_what_was_shown():
    log = random_log()
    place_NK = np.tile(np.arange(8), (len(log.reward_NK), 1))
    as_shown = replace(log, new_rank_NK=place_NK, running_rank_NK=place_NK, place_RK=np.eye(8))
    assert support(as_shown).effective == pytest.approx(len(place_NK))
    assert support(log).effective < len(place_NK) / 2


def test_predictions_for_a_session_do_not_depend_on_its_own_rewards():
    log = random_log()
    other_NK = log.reward_NK.copy()
    other_NK[:2] = 1 - other_NK[:2]
    before, after = fitted_relevances(log), fitted_relevances(replace(log, reward_NK=other_NK))
    same_N = log.cluster_N % FOLDS == 0
    for one, other in zip(before, after, strict=True):
        assert (one[same_N] == other[same_N]).all()
    assert (before.shown_NK != after.shown_NK).any()
    assert ((before.new_NK == 0) == (log.new_list_NK >= 50)).all()


def test_a_repeated_answer_of_a_session_does_not_narrow_the_interval():
    difference_N, session_N = np.random.default_rng(0).exponential(size=40) - 1, np.arange(40)
    once = cluster_interval(difference_N, session_N)
    assert cluster_interval(np.repeat(difference_N, 3), np.repeat(session_N, 3)) == pytest.approx(once)
    apart = cluster_interval(np.repeat(difference_N, 3), np.arange(120))
    assert apart[1] - apart[0] < 0.7 * (once[1] - once[0])


def test_one_session_gives_no_interval():
    assert cluster_interval(np.array([0.1, 0.2]), np.array([0, 0])) == (-np.inf, np.inf)


def test_empty_places_count_for_nothing():
    log = random_log()
    full = {
        name: getattr(log, name)
        for name in ("running_rank_NK", "new_rank_NK", "new_list_NK", "running_list_NK")
    }
    empty = {name: np.where(np.arange(8) == 7, -1, value) for name, value in full.items()}
    for estimator in ESTIMATORS:
        found = [
            estimator(
                replace(log, **empty, reward_NK=log.reward_NK * (np.arange(8) < 7), propensity_NK=shown_NK)
            )
            for shown_NK in (log.propensity_NK, 1.0 * (np.arange(8) < 7) + np.zeros(log.reward_NK.shape))
        ]
        assert found[0] == found[1]


def test_arrays_of_different_shapes_are_refused():
    with pytest.raises(ValueError, match="expected arrays"):
        replace(random_log(), reward_NK=np.zeros((200, 7)))


def explored_log(count, seed):
    """A log of lists that exploring shows, with rewards at places that are looked at, and its position bias."""
    rng, lists = np.random.default_rng(seed), np.array(list(explored_lists()))
    shown_NK = lists[rng.integers(len(lists), size=count)]
    reward_NK = rng.random((count, K)) < EXAMINED_K * np.array([0.4, 0, 0, 0.1, 0.1, 0])[shown_NK]
    session_N = np.arange(count) // 2
    bias = position_bias(shown_NK, reward_NK, K - DRAWN, None, session_N)
    return shown_log(shown_NK, reward_NK.astype(float), (1, 2, 0, 3, 4, 5), bias, session_N)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_an_interval_knows_that_the_position_bias_is_an_estimate(estimator):
    found, certain = [], []
    for seed in range(100):
        log, bias = explored_log(2000, seed), explored_log(2000, 1000 + seed).bias
        elsewhere = replace(log, bias=bias._replace(session_M=bias.session_M + 2000))
        found.append(estimator(elsewhere))
        certain.append(estimator(replace(log, bias=PositionBias.known(bias.examination_P))))
    assert all(one[:2] == other[:2] for one, other in zip(found, certain, strict=True))
    deviation = np.std([one.new - one.running for one in found])
    width, narrow = (np.mean([one.high - one.low for one in some]) for some in (found, certain))
    assert width == pytest.approx(2 * 1.96 * deviation, rel=0.15)
    assert narrow < 0.7 * width


def test_sessions_without_an_answer_count_for_the_uncertainty_of_the_position_bias():
    log = explored_log(400, 0)
    influence_MP = 0.02 * np.random.default_rng(0).standard_normal((300, K))
    other = PositionBias(log.examination_K, influence_MP, np.arange(1000, 1300))
    known = clipped_ips(replace(log, bias=PositionBias.known(log.examination_K)))
    found = clipped_ips(replace(log, bias=other))
    assert found[:2] == known[:2] and found.low < known.low and found.high > known.high
