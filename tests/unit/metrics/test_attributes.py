import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from fashioniq.metrics.attributes import average_precision, mean_by_type, prevalence, recall_at, summary

LABELS_NA = np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0]], dtype=np.int8)
SCORES_NA = np.array([[0.9, 0.8, 0.0], [0.5, 0.7, 0.0], [0.4, 0.1, 0.0]], dtype=np.float32)
# first word: hits at places 1 and 3, (1 + 2/3) / 2; second: at 2 and 3, (1/2 + 2/3) / 2; the third is nowhere
# and does not count
BY_HAND = [100 * 5 / 6, 100 * 7 / 12, np.nan]


def test_average_precision_by_hand():
    assert average_precision(SCORES_NA, LABELS_NA) == pytest.approx(BY_HAND, nan_ok=True)


def test_equal_scores_say_no_more_than_chance():
    assert average_precision(np.zeros((3, 3)), LABELS_NA) == pytest.approx(
        [200 / 3, 200 / 3, np.nan], nan_ok=True
    )
    assert prevalence(LABELS_NA) == pytest.approx([200 / 3, 200 / 3, 0])


def test_unknown_labels_are_as_if_the_picture_were_not_there():
    rng = np.random.default_rng(0)
    labels_NA, scores_NA = rng.integers(-1, 2, (50, 4)).astype(np.int8), rng.normal(size=(50, 4))
    precision_A, chance_A = average_precision(scores_NA, labels_NA), prevalence(labels_NA)
    for column in range(4):
        known = labels_NA[:, column] != -1
        assert precision_A[column] == pytest.approx(
            100 * average_precision_score(labels_NA[known, column], scores_NA[known, column])
        )
        assert chance_A[column] == pytest.approx(100 * labels_NA[known, column].mean())
    with np.errstate(all="raise"):  # no warnings
        assert np.isnan(prevalence(np.full((2, 1), -1))).all()
        assert np.isnan(average_precision(np.zeros((2, 1)), np.full((2, 1), -1))).all()


def test_recall_counts_the_true_words_among_the_best():
    assert recall_at(SCORES_NA, LABELS_NA, 1) == pytest.approx(100 * 3 / 4)
    assert recall_at(SCORES_NA, LABELS_NA) == 100  # fewer words than 8
    assert recall_at(SCORES_NA, np.where(LABELS_NA == 1, 1, -1), 1) == pytest.approx(100 * 3 / 4)
    assert recall_at(SCORES_NA, np.zeros_like(LABELS_NA)) == 0


@pytest.mark.parametrize("k", [1, 2, 8, 100])
def test_recall_is_that_of_sorted_scores(k):
    rng = np.random.default_rng(0)
    scores_NA, labels_NA = rng.normal(size=(40, 500)), (rng.random((40, 500)) < 0.3).astype(np.int8)
    best_NK = np.argsort(-scores_NA, axis=1)[:, :k]
    expected = 100 * np.take_along_axis(labels_NA, best_NK, axis=1).sum() / labels_NA.sum()
    assert recall_at(scores_NA, labels_NA, k) == pytest.approx(expected)


def test_random_scores_have_the_precision_of_chance():
    rng = np.random.default_rng(0)
    labels_NA = (rng.random((4000, 20)) < 0.1).astype(np.int8)
    assert np.mean(average_precision(rng.normal(size=labels_NA.shape), labels_NA)) == pytest.approx(
        np.mean(prevalence(labels_NA)), abs=0.6
    )


def test_types_are_means_of_their_measured_words():
    assert mean_by_type(np.array([1.0, 3.0, np.nan, np.nan]), ["part", "part", "part", "style"]) == {
        "part": 2.0
    }


def test_a_summary_tells_of_all_words_of_types_and_of_each_word():
    told = summary(["x", "y", "z"], ["part", "style", "part"], [7, 8, 9], SCORES_NA, LABELS_NA)
    assert (
        told["mAP"] == pytest.approx((BY_HAND[0] + BY_HAND[1]) / 2)
        and told["chance"] == pytest.approx(200 / 3)
        and told["recall@8"] == 100
    )
    assert told["types"] == [
        {"type": "part", "words": 1, "mAP": pytest.approx(BY_HAND[0]), "chance": pytest.approx(200 / 3)},
        {"type": "style", "words": 1, "mAP": pytest.approx(BY_HAND[1]), "chance": pytest.approx(200 / 3)},
    ]
    assert told["words"][1] == {
        "word": "y", "type": "style", "train": 8, "val": 2, "AP": pytest.approx(BY_HAND[1]), "chance": pytest.approx(200 / 3)
    }  # fmt: skip
    assert told["words"][2] == {"word": "z", "type": "part", "train": 9, "val": 0, "AP": None, "chance": None}
