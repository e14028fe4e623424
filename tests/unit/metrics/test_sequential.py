import math

import numpy as np
import pytest

from fashioniq.metrics.sequential import LEAST, half_width, needed

LAST = 4000


def test_the_width_is_that_of_the_formula():
    rho = math.sqrt((-2 * math.log(0.05) + math.log(-2 * math.log(0.05) + 1)) / 1000)
    for count, deviation in ((LEAST, 1.0), (1000, 0.5), (5000, 2.0)):
        inside = 2 * (count * rho**2 + 1) / (count**2 * rho**2)
        width = deviation * math.sqrt(inside * math.log(math.sqrt(count * rho**2 + 1) / 0.05))
        assert half_width(count, deviation**2) == pytest.approx(width)
    assert half_width(LEAST - 1, 1.0) == math.inf


def test_it_is_narrowest_for_its_count_where_it_is_said_to_be():
    scaled = {count: half_width(count, 1.0) * math.sqrt(count) for count in (100, 500, 1000, 2000, 10_000)}
    assert min(scaled, key=scaled.get) == 1000 and scaled[1000] == pytest.approx(3.0352, abs=1e-4)


@pytest.mark.parametrize("share", [0.04, 0.5])
def test_the_mean_is_rarely_ever_outside(share):
    """Scores of −1, 0 and 1 without a difference, looked at after each."""
    rng, count_T = np.random.default_rng(0), np.arange(1, LAST + 1)
    width_T = np.array([half_width(int(count), 1.0) for count in count_T])
    missed = looked_at_last = 0
    for _ in range(600):
        score_T = rng.choice([-1, 0, 1], LAST, p=[share / 2, 1 - share, share / 2])
        mean_T = np.cumsum(score_T) / count_T
        deviation_T = np.sqrt(np.cumsum(score_T**2) / count_T - mean_T**2)
        outside_T = (np.abs(mean_T) > 1.96 * deviation_T / np.sqrt(count_T))[LEAST - 1 :]
        looked_at_last += bool(outside_T.any())
        outside_T = np.abs(mean_T)[LEAST - 1 :] > (width_T[LEAST - 1 :] * deviation_T[LEAST - 1 :])
        missed += bool(outside_T.any())
    assert missed <= 0.05 * 600 < 0.3 * 600 < looked_at_last


def test_the_number_that_is_needed_is_the_first_one_that_decides():
    for mean in (0.03, -0.2):
        count = needed(mean, 0.7)
        assert half_width(count, 0.7) < abs(mean) <= half_width(count - 1, 0.7)
    assert needed(0.0, 1.0) is None and needed(1e-9, 1.0) is None
    assert needed(5.0, 1.0) == LEAST
    assert half_width(1000, 1.0, 0.01) > half_width(1000, 1.0)
