"""Tables of measures by turn. Ranks are 0-based: 0 is the best."""

import math
from typing import Any

import torch
from torch import Tensor

from fashioniq import plugins
from fashioniq.files import explaining
from fashioniq.metrics.measures import best_so_far, hits, measure, percentiles

RECALLS = (1, 5, 10, 50)
TURN_MEASURES = ("P", *(f"R@{n}" for n in RECALLS), "Hits@1", "Hits@10", "MRR", "mean_rank", "median_rank")


def percentile(rank_B: Tensor, gallery: int) -> float:
    """P, the mean of 1 − r/N in percent; chance level is 50 (Guo et al. 2018; Fashion IQ, section 5.2).

    >>> percentile(torch.tensor([0, 25]), gallery=100)
    87.5
    """
    return percentiles(rank_B, gallery).mean().item()


def at_chance(p: float, dialogs: int) -> bool:
    """Whether the P of some dialogs is no better than that of random rankings, within two standard errors."""
    return dialogs > 0 and p < 50 + 200 / math.sqrt(12 * dialogs)


def recall_at(rank_B: Tensor, n: int) -> float:
    """R@n of one turn: percentage of targets among the n best. Not cumulative over turns.

    >>> recall_at(torch.tensor([0, 9, 10, 400]), 10)
    50.0
    """
    return hits(rank_B, n).mean().item()


def ranks_of_scores(score_QN: Tensor, target_Q: Tensor) -> Tensor:
    """0-based ranks of the targets by scores, higher is better; ties are in the order of the items, −inf is last."""
    own_Q1 = score_QN.gather(1, target_Q.unsqueeze(1))
    # A system that gives every item the same score would have rank 0 everywhere if ties counted for the target,
    # so that ties are ordered by something that no system can choose: the position in the gallery.
    before_QN = torch.arange(score_QN.shape[1]) < target_Q.unsqueeze(1)
    rank_Q = ((score_QN > own_Q1) | ((score_QN == own_Q1) & before_QN)).sum(1)
    return rank_Q.where(own_Q1[:, 0] > -torch.inf, score_QN.shape[1] - 1)


def per_dialog(name: str, rank_BT: Tensor, gallery: int) -> Tensor:
    """Values of P, R@N, Hits@N (cumulative) or MRR per dialog and turn, B×T; their mean is the measure.

    Raises ValueError for other names, and for measures where lower is better.
    """
    found = measure(name)
    if found.direction == "lower":
        raise ValueError(
            f"{name!r} is not a measure per dialog; expected P, MRR, R@N or Hits@N, such as R@10"
        )
    return found.function(rank_BT, gallery)


def turn_table(rank_BT: Tensor, gallery: int) -> list[dict[str, float]]:
    """Return the measures of every turn, counted from 1. R@N is per turn, Hits@N cumulative."""
    columns = {
        **{name: measure(name).by_turn(rank_BT, gallery) for name in TURN_MEASURES},
        **{name: _installed_by_turn(name, rank_BT, gallery) for name in plugins.names("measures")},
    }
    return [
        {"turn": turn + 1, **{name: values[turn] for name, values in columns.items()}}
        for turn in range(rank_BT.shape[1])
    ]


def check_measures() -> None:
    """Try the measures of installed packages on a few ranks. Raises UserError that names the first one that fails."""
    for name in plugins.names("measures"):
        _installed_by_turn(name, torch.tensor([[0, 1, 2], [2, 1, 0]]), 3)


def _installed_by_turn(name: str, rank_BT: Tensor, gallery: int) -> list[float]:
    found = measure(name)
    with explaining(  # code of another package can raise anything
        f"the installed measure {name} fails",
        "; expected a function of ranks, a torch tensor B×T, and the size of the gallery that returns a tensor B×T: "
        "correct or uninstall its package",
    ):
        values = found.by_turn(rank_BT, gallery)
        if len(values) != rank_BT.shape[1]:
            raise ValueError(f"{len(values)} values for {rank_BT.shape[1]} turns")
    return values


def average(table: list[dict[str, float]]) -> dict[str, float]:
    """Average each measure of a turn table over the turns."""
    return {name: sum(turn[name] for turn in table) / len(table) for name in table[0] if name != "turn"}


def success(rank_BT: Tensor) -> dict[str, Any]:
    """Percentage of dialogs whose target has rank 0 at any turn, and the mean number of turns until then.

    `mean_turns` covers successful dialogs only, and is None without any.
    """
    found_BT = best_so_far(rank_BT) == 0
    found_B = found_BT[:, -1]
    turns_B = (~found_BT).sum(1) + 1
    mean_turns = turns_B[found_B].double().mean().item() if found_B.any() else None
    return {
        "within": rank_BT.shape[1],
        "percent": 100 * found_B.double().mean().item(),
        "mean_turns": mean_turns,
    }
