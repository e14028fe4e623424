import math

import pytest
import torch

from fashioniq.metrics.chat import early_stop, repetition, round_table, stable_round
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


@pytest.mark.parametrize(
    ("positions", "printed"),
    [([100, 100, 100], 4.6), ([100, 10, 10], 2.9), ([100, 100, 10], 4.0), ([100, 5], 3.1)],
)
def test_bri_has_the_values_of_plugirs_paper(positions, printed):
    found = best_log_rank_integral(torch.tensor([positions]) - 1)[0, -1].item()
    assert round(found, 1) == printed


def test_a_dialog_ends_early_when_its_best_products_stay_the_same():
    top_QRK = torch.tensor(
        [[[0, 1], [2, 1], [1, 2], [3, 4]], [[0, 1], [2, 3], [4, 5], [6, 7]], [[5, 6], [6, 5], [1, 2], [1, 2]]]
    )
    assert stable_round(top_QRK).tolist() == [2, 3, 1]
    rank_QR = torch.tensor([[30, 20, 5, 0], [30, 20, 12, 0], [30, 0, 20, 20]])
    rounds, measures = early_stop(rank_QR, top_QRK, 100)
    assert (
        rounds == 2 and measures["R@10"] == pytest.approx(100) and measures["R@1"] == pytest.approx(200 / 3)
    )
    assert measures["BRI"] < round_table(rank_QR, 100)[1]["BRI"]
    assert stable_round(top_QRK[:, :1]).tolist() == [0, 0, 0]
