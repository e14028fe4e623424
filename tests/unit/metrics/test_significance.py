import itertools

import numpy as np
import pytest
from scipy import stats

from fashioniq.metrics import significance
from fashioniq.metrics.significance import bootstrap_interval, holm, per_target, randomisation_p

SAMPLES = 4000


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_the_interval_is_near_the_normal_one(rng):
    difference = rng.normal(0.3, 2, 400)
    normal = stats.norm.interval(0.95, difference.mean(), difference.std(ddof=1) / 20)
    assert bootstrap_interval(difference, SAMPLES, seed=0) == pytest.approx(normal, abs=0.02)


def test_intervals_hold_the_true_difference_about_as_often_as_they_say(rng):
    held = 0
    for seed in range(200):
        low, high = bootstrap_interval(rng.normal(1, 3, 60), 400, seed)
        held += low <= 1 <= high
    assert 180 <= held <= 198


def test_p_agrees_with_all_sign_flips(rng):
    difference = rng.normal(0.5, 1, 10)
    every = [
        abs(np.dot(signs, difference)) >= abs(difference.sum()) - 1e-9
        for signs in itertools.product((-1, 1), repeat=10)
    ]
    assert randomisation_p(difference, 20_000, seed=0) == pytest.approx(np.mean(every), abs=0.01)


def test_p_agrees_with_scipy(rng):
    difference = rng.choice([-100.0, 0, 0, 100, 100], 40)
    theirs = stats.permutation_test(
        (difference,), np.mean, permutation_type="samples", n_resamples=SAMPLES, vectorized=True, rng=1
    )
    assert randomisation_p(difference, SAMPLES, seed=0) == pytest.approx(theirs.pvalue, abs=0.03)


@pytest.mark.parametrize("unit", [0.1, 1e5, 1e-9])
def test_the_unit_of_a_measure_does_not_change_p(rng, unit):
    """Many sums of signed numbers are equal, but for rounding."""
    difference = rng.integers(-3, 6, 20).astype(float)
    assert randomisation_p(unit * difference, 1000, seed=0) == randomisation_p(difference, 1000, seed=0)


def test_p_of_no_difference_is_rarely_small(rng):
    values = [randomisation_p(rng.normal(0, 1, 50), 500, seed) for seed in range(200)]
    assert 2 <= sum(p <= 0.05 for p in values) <= 20


def test_p_is_never_0_and_is_1_where_nothing_differs():
    assert randomisation_p(np.ones(200), SAMPLES, seed=0) == 1 / (SAMPLES + 1)
    assert randomisation_p(np.zeros(200), SAMPLES, seed=0) == 1
    assert bootstrap_interval(np.zeros(200), SAMPLES, seed=0) == (0, 0)


def test_the_direction_does_not_change_p(rng):
    difference = rng.normal(0.2, 1, 50)
    assert randomisation_p(difference, SAMPLES, seed=0) == randomisation_p(-difference, SAMPLES, seed=0)


def test_the_seed_makes_the_result(rng):
    difference = rng.normal(0.2, 1, 50)
    assert (
        bootstrap_interval(difference, SAMPLES, 3)
        == bootstrap_interval(difference, SAMPLES, 3)
        != bootstrap_interval(difference, SAMPLES, 4)
    )
    assert (
        randomisation_p(difference, SAMPLES, 3)
        == randomisation_p(difference, SAMPLES, 3)
        != randomisation_p(difference, SAMPLES, 4)
    )


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1, 1]
    assert holm([0.02]) == [0.02]
    assert holm([]) == []


def test_dialogs_of_one_target_become_one_value_and_keep_the_mean(rng):
    difference = rng.normal(0, 1, 7)
    targets = ["b", "a", "a", "c", "b", "a", "d"]
    values = per_target(difference, targets)
    assert len(values) == 4 and values.mean() == pytest.approx(difference.mean())
    assert values[0] == pytest.approx(difference[[1, 2, 5]].sum() * 4 / 7)


def test_one_dialog_a_target_stays_as_it_is(rng):
    difference = rng.normal(0, 1, 5)
    assert per_target(difference, list("abcde")) == pytest.approx(difference)


def test_samples_in_parts_are_as_many_as_are_asked_for(monkeypatch):
    monkeypatch.setattr(significance, "_AT_A_TIME", 7)
    assert randomisation_p(np.ones(200), 20, seed=0) == 1 / 21
    assert randomisation_p(np.array([1.0]), 20, seed=0) == 1  # any sign is as far
