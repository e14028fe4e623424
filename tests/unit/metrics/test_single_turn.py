import pytest
import torch

from fashioniq.metrics.single_turn import BOTH, mean, measures


def of(ranks, depths, gallery=100):
    return measures(torch.tensor(ranks), torch.tensor(depths), gallery)


def test_whole_rankings_are_measured_by_hand():
    found = of([0, 9, 10, 60], [100] * 4)
    assert found == pytest.approx(
        {
            "R@1": 25,
            "R@10": 50,
            "R@50": 75,
            BOTH: 62.5,
            "P": 100 - 79 / 4,
            "MRR": (1 + 1 / 10 + 1 / 11 + 1 / 61) / 4,
        }
    )


def test_what_a_short_ranking_without_its_target_cannot_tell_is_none():
    assert of([0, 20], [5, 20]) == {"R@1": 50, "R@10": 50, "R@50": None, BOTH: None, "P": None, "MRR": None}


def test_a_short_ranking_that_names_its_target_tells_all():
    assert None not in of([0, 4], [5, 5]).values()


def test_a_gallery_smaller_than_n_is_whole_at_its_size():
    assert of([0, 6], [7, 7], gallery=7)["R@50"] == 100
    assert of([0, 6], [7, 6], gallery=7)["R@50"] is None


def test_the_mean_is_none_where_one_is():
    assert mean([1.0, 2.0]) == 1.5 and mean([1.0, None]) is None
