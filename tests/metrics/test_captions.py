import math

import pytest

from fashioniq.metrics.captions import bleu


def test_the_same_words_score_100():
    assert bleu(["is longer and has sleeves"], [["has no sleeves", "is longer and has sleeves"]]) == pytest.approx([100] * 4, abs=1e-4)


def test_scores_by_hand():
    scores = bleu(["the red dress is long"], [["the blue dress is long"]])
    precisions = [4 / 5, 2 / 4, 1 / 3, 1e-15]
    expected = [100 * math.prod(precisions[: n + 1]) ** (1 / (n + 1)) for n in range(3)]
    assert scores[:3] == pytest.approx(expected, rel=1e-4) and scores[3] < 0.1


def test_short_captions_pay_for_their_brevity():
    assert bleu(["is red"], [["is red and long"]])[0] == pytest.approx(100 * math.exp(1 - 4 / 2), rel=1e-4)


def test_the_closest_length_of_several_counts():
    assert bleu(["is red"], [["is red and long", "is bright"]])[0] == pytest.approx(100, rel=1e-4)


def test_words_are_counted_over_all_captions():
    assert bleu(["red", "is long and wide"], [["blue"], ["is long and wide"]])[0] == pytest.approx(80, rel=1e-4)


def test_case_and_punctuation_do_not_count():
    assert bleu(["Is longer, and has sleeves!"], [["is longer and has sleeves."]])[3] == pytest.approx(100, rel=1e-4)


def test_as_many_captions_as_references_are_needed():
    with pytest.raises(ValueError):
        bleu(["red"], [])
