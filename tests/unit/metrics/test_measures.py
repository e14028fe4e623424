import pytest
import torch

from fashioniq.metrics.measures import MEASURES, measure, per_dialog

RANK_BT = torch.tensor([[3, 0], [9, 4], [12, 30]])


@pytest.mark.parametrize("name", [*MEASURES, "R@10", "Hits@10"])
def test_the_direction_of_a_measure_is_that_of_better_ranks(name):
    declared = measure(name)
    worse, better = (declared.by_turn(rank_BT, 100)[-1] for rank_BT in (RANK_BT + 40, RANK_BT))
    assert declared.name == name and declared.label and declared.source
    assert better > worse if declared.direction == "higher" else better < worse


def test_ranks_start_at_0_and_the_average_target_rank_at_1():
    assert measure("mean_rank").by_turn(RANK_BT, 100) == pytest.approx([8, 34 / 3])
    assert measure("median_rank").by_turn(RANK_BT, 100) == [9, 4]
    assert measure("ATR").by_turn(RANK_BT, 100) == pytest.approx([9, 34 / 3 + 1])


def test_recalls_are_shares_of_targets_in_the_first_ranks():
    rank_BT = torch.tensor([[9], [10], [49], [50]])
    found = [measure(name).by_turn(rank_BT, 100) for name in ("R@10", "R@50", "(R@10+R@50)/2")]
    assert found == [[25], [75], [50]]


@pytest.mark.parametrize("name", ["ATR", "BRI", "mean_rank", "median_rank"])
def test_dialogs_are_compared_only_by_measures_where_higher_is_better(name):
    with pytest.raises(ValueError, match="not a measure per dialog"):
        per_dialog(name, RANK_BT, 100)
