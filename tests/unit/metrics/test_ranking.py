import ir_measures
import numpy as np
import pytest
import torch
from ir_measures import RR, Qrel, ScoredDoc, Success

from fashioniq.metrics.measures import (
    at_chance,
    average,
    per_dialog,
    percentile,
    ranks_of_scores,
    recall_at,
    success,
    turn_table,
)

GALLERY = 80


@pytest.fixture
def distance_BTN():
    """Distances of 30 dialogs of 4 turns to a gallery of 80; the target is item 0."""
    return torch.rand(30, 4, GALLERY, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def rank_BT(distance_BTN):
    rank_BT = (distance_BTN < distance_BTN[:, :, :1]).sum(2)
    rank_BT[:5, 2] = 0
    return rank_BT


def test_percentiles_by_hand():
    assert percentile(torch.tensor([0, 1, 2, 3]), 4) == pytest.approx(100 * (1 + 0.75 + 0.5 + 0.25) / 4)
    assert percentile(torch.tensor([0, 0]), 1000) == 100
    assert percentile(torch.tensor([999]), 1000) == pytest.approx(0.1)


def test_chance_is_50():
    assert percentile(torch.arange(10_000), 10_000) == pytest.approx(50.005)


def test_percentiles_of_large_galleries_keep_their_digits():
    assert percentile(torch.full((100_000,), 1), 30_000_000) == pytest.approx(100 - 1e-5 / 3, abs=1e-9)


def test_recall_counts_the_ranks_below_n():
    rank_B = torch.tensor([0, 9, 10, 49, 50])
    assert (recall_at(rank_B, 10), recall_at(rank_B, 50), recall_at(rank_B, 1)) == (40, 80, 20)


def test_turns_by_hand():
    table = turn_table(torch.tensor([[0, 60], [20, 4]]), 100)
    assert table == [
        {"turn": 1, "P": 90, "R@1": 50, "R@5": 50, "R@10": 50, "R@50": 100, "Hits@1": 50, "Hits@10": 50,
         "MRR": pytest.approx((1 + 1 / 21) / 2), "mean_rank": 10, "median_rank": 10},
        {"turn": 2, "P": 68, "R@1": 0, "R@5": 50, "R@10": 50, "R@50": 50, "Hits@1": 50, "Hits@10": 100,
         "MRR": pytest.approx((1 / 61 + 1 / 5) / 2), "mean_rank": 32, "median_rank": 32},
    ]  # fmt: skip


def test_the_table_agrees_with_a_naive_computation(rank_BT):
    rank = rank_BT.tolist()
    for number, turn in enumerate(turn_table(rank_BT, GALLERY)):
        now = [row[number] for row in rank]
        until = [min(row[: number + 1]) for row in rank]
        naive = {"P": np.mean([100 * (1 - r / GALLERY) for r in now]), "MRR": np.mean([1 / (r + 1) for r in now]), "mean_rank": np.mean(now),
                 "median_rank": np.median(now), **{f"R@{n}": 100 * np.mean([r < n for r in now]) for n in (1, 5, 10, 50)},
                 **{f"Hits@{n}": 100 * np.mean([r < n for r in until]) for n in (1, 10)}}  # fmt: skip
        assert turn == pytest.approx({"turn": number + 1, **naive})


def test_the_table_agrees_with_ir_measures(distance_BTN):
    rank_BT = (distance_BTN < distance_BTN[:, :, :1]).sum(2)
    for number, turn in enumerate(turn_table(rank_BT, GALLERY)):
        run = [
            ScoredDoc(str(q), str(n), -d)
            for q, row in enumerate(distance_BTN[:, number].tolist())
            for n, d in enumerate(row)
        ]
        wanted = [Qrel(str(q), "0", 1) for q in range(len(rank_BT))]
        theirs = ir_measures.calc_aggregate(
            [RR, Success @ 1, Success @ 5, Success @ 10, Success @ 50], wanted, run
        )
        ours = {RR: turn["MRR"], **{Success @ n: turn[f"R@{n}"] / 100 for n in (1, 5, 10, 50)}}
        assert theirs == pytest.approx(ours)


def test_hits_are_cumulative_and_recall_is_not():
    rank_BT = torch.tensor([[3, 30, 30], [30, 30, 3]])
    assert per_dialog("Hits@10", rank_BT, 100).tolist() == [[100, 100, 100], [0, 0, 100]]
    assert per_dialog("R@10", rank_BT, 100).tolist() == [[100, 0, 0], [0, 0, 100]]


@pytest.mark.parametrize("name", ["R", "R@", "R@0", "R@-1", "recall@10", "P@10", "MRR@10", ""])
def test_an_unknown_measure_is_refused_by_name(name):
    with pytest.raises(ValueError, match="unknown measure"):
        per_dialog(name, torch.tensor([[1]]), 10)


def test_the_average_is_over_turns(rank_BT):
    table = turn_table(rank_BT, GALLERY)
    mean = average(table)
    assert set(mean) == set(table[0]) - {"turn"}
    assert mean["R@10"] == pytest.approx(recall_at(rank_BT.flatten(), 10))


def test_ranks_of_scores_are_by_hand():
    score_QN = torch.tensor([[0.5, 0.9, 0.5, 0.1], [0.5, 0.9, 0.5, 0.1], [0.2, 0.3, -torch.inf, 0.1]])
    assert ranks_of_scores(score_QN, torch.tensor([0, 2, 2])).tolist() == [1, 2, 3]
    assert ranks_of_scores(torch.full((4, 4), -torch.inf), torch.arange(4)).tolist() == [3] * 4  # not found
    assert ranks_of_scores(torch.zeros(4, 4), torch.arange(4)).tolist() == [0, 1, 2, 3]


def test_success_counts_the_first_time_and_leaves_failures_out_of_the_turns():
    rank_BT = torch.tensor([[0, 5, 0], [4, 4, 0], [1, 1, 1], [2, 0, 9]])
    assert success(rank_BT) == {"within": 3, "percent": 75, "mean_turns": 2}
    assert success(rank_BT[2:3]) == {"within": 3, "percent": 0, "mean_turns": None}


def test_random_rankings_are_at_chance_and_better_ones_are_not():
    generator = torch.Generator().manual_seed(0)
    found = [
        at_chance(percentile(torch.randint(0, 50, (200,), generator=generator), 50), 200) for _ in range(200)
    ]
    assert 0.9 < sum(found) / len(found) <= 1
    assert not at_chance(56, 200) and at_chance(56, 20) and at_chance(10, 10_000)
    # of three random ranks, P is 50 with a standard error of 100 / 6
    assert at_chance(83.3, 3) and not at_chance(83.4, 3)
    assert at_chance(100, 1) and not at_chance(10, 0)
