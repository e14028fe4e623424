import math

import pytest
import torch

from fashioniq.metrics.chat import repetition, round_table
from fashioniq.metrics.measures import best_log_rank_integral

RANK_QR = torch.tensor([[20, 4, 70, 0], [99, 60, 10, 9]])


def test_hits_are_cumulative_and_recalls_are_not():
    table = round_table(RANK_QR, 100)
    assert [row["round"] for row in table] == [0, 1, 2, 3]
    assert [row["Hits@10"] for row in table] == [0, 50, 50, 100]
    assert [row["R@10"] for row in table] == [0, 50, 0, 100]
    assert [row["R@1"] for row in table] == [0, 0, 0, 50] and [row["R@50"] for row in table] == [
        50,
        50,
        50,
        100,
    ]


def test_the_average_target_rank_counts_from_1_and_goes_on_after_a_hit():
    assert [row["ATR"] for row in round_table(RANK_QR, 100)] == [60.5, 33, 41, 5.5]
    assert [row["P"] for row in round_table(RANK_QR, 100)] == pytest.approx([40.5, 68, 60, 95.5])


def test_bri_is_the_integral_of_the_best_log_rank():
    first = [(math.log(21) + math.log(5)) / 2, math.log(5), math.log(5) / 2]  # best ranks 20, 4, 4, 0
    second = [
        (math.log(100) + math.log(61)) / 2,
        (math.log(61) + math.log(11)) / 2,
        (math.log(11) + math.log(10)) / 2,
    ]
    found = best_log_rank_integral(RANK_QR)
    assert found[:, 0].isnan().all()
    for row, steps in zip(found.tolist(), (first, second), strict=True):
        assert row[1:] == pytest.approx([sum(steps[:end]) / end for end in (1, 2, 3)])
    table = round_table(RANK_QR, 100)
    assert table[0]["BRI"] is None and table[3]["BRI"] == pytest.approx((sum(first) + sum(second)) / 6)


def test_a_caption_alone_has_no_integral():
    assert [row["BRI"] for row in round_table(RANK_QR[:, :1], 100)] == [None]


def test_repeated_questions_and_words_are_counted():
    asked = [["Is it big?", "is it  BIG?", "is it red?"], ["what colour?", "who is there?", "why?"]]
    assert repetition(asked) == {"exact_repeats": 0.5, "unique_tokens": (4 + 6) / 2}
