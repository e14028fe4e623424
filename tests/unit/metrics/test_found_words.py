"""Words found in pictures by an attribute predictor."""

import numpy as np
import pytest

from fashioniq.metrics.found_words import families, fit_thresholds, found_shares

WORDS, TYPES = ["red", "blue", "white", "belt"], ["texture", "texture", "texture", "part"]
FAMILIES = families(WORDS, TYPES)


def test_a_word_of_a_family_is_found_if_it_is_among_the_most_probable():
    wanted_NA = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0]])
    scores_NA = np.array([[-3.0, -4, -5, 0], [2, 0, 1, 0], [0, 2, 1, 0]])
    shares = found_shares(scores_NA, wanted_NA, FAMILIES, np.zeros(4))
    assert shares["colors"] == pytest.approx(50) and shares["others"] is None
    assert shares["families"] == {"what color is it?": {"words": 4, "found": 50.0}}


def test_a_word_alone_is_found_above_its_threshold():
    scores_NA = np.array([[0, 0, 0, 0.9], [0, 0, 0, 0.4], [0, 0, 0, 0.1], [0, 0, 0, 0.6]])
    wanted_NA = np.array([[0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0]])
    thresholds_A = fit_thresholds(scores_NA, wanted_NA)
    assert thresholds_A.tolist() == [np.inf, np.inf, np.inf, 0.9]
    assert found_shares(scores_NA, wanted_NA, FAMILIES, thresholds_A)["others"] == 50
    assert found_shares(scores_NA, wanted_NA, FAMILIES, np.zeros(4))["others"] == 100


def test_one_picture_with_a_word_or_without_it_gives_a_threshold():
    scores_N = np.array([4.0, 3, 2, 1])
    for has_N, threshold in (([1, 0, 0, 0], 4), ([1, 1, 1, 0], 2), ([0, 0, 0, 0], np.inf), ([1] * 4, np.inf)):
        assert fit_thresholds(scores_N[:, None], np.array(has_N)[:, None]).tolist() == [threshold]


def test_a_threshold_weighs_pictures_with_and_without_the_word_by_their_shares():
    has_N = np.array([1, 0, 0, 1, 0, 0, 0, 0, 0, 0])
    scores_N = np.arange(10.0, 0.0, -1)
    (threshold,) = fit_thresholds(scores_N[:, None], has_N[:, None])
    assert threshold == 7  # both pictures with the word are above, at the price of a quarter of the others
