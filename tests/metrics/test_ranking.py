import pytest
import torch

from fashioniq.metrics.ranking import mean_rank, percentile, recall_at, turn_table


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


def test_the_mean_rank_counts_from_0():
    assert mean_rank(torch.tensor([0, 1, 5])) == 2


def test_turns_are_counted_from_1_and_are_not_cumulative():
    table = turn_table(torch.tensor([[0, 60], [20, 5]]), 100)
    assert table == [
        {"turn": 1, "P": 90, "R@10": 50, "R@50": 100, "mean_rank": 10},
        {"turn": 2, "P": 67.5, "R@10": 50, "R@50": 50, "mean_rank": 32.5},
    ]
