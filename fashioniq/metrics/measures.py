"""Measures of ranks, each declared once: name, label, decimals, direction, source and function; and their tables by
turn.

Ranks are 0-based: 0 is the best. Functions take the ranks of B dialogs at T turns, rank_BT, and the size
of the gallery, and return one value per dialog and turn, B×T. P, R@N and Hits@N are in percent.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from fashioniq import plugins
from fashioniq.files import explaining

if TYPE_CHECKING:
    from torch import Tensor  # slow to import, and pages only need labels and decimals

RECALLS = (1, 5, 10, 50)
TURN_MEASURES = ("P", *(f"R@{n}" for n in RECALLS), "Hits@1", "Hits@10", "MRR", "mean_rank", "median_rank")


def percentiles(rank: Tensor, gallery: int) -> Tensor:
    """Percentage of the gallery that does not rank above the target: 100 is best, 50 is chance level."""
    return 100 * (1 - rank.double() / gallery)


def hits(rank: Tensor, n: int) -> Tensor:
    """Return 100 for ranks in the top n, else 0."""
    return 100 * (rank < n).double()


def reciprocals(rank: Tensor) -> Tensor:
    """Reciprocal rank, 1 / (rank + 1)."""
    return 1 / (rank.double() + 1)


def best_so_far(rank_BT: Tensor) -> Tensor:
    """Best rank up to each turn, B×T, for cumulative measures."""
    return rank_BT.cummin(1).values


def best_log_rank_integral(rank_BT: Tensor) -> Tensor:
    """BRI of each dialog up to each turn, B×T; lower is better, NaN at the first turn (PlugIR, Lee et al.
    2024).

    It is the mean over steps between turns of ½ (ln b_t + ln b_t+1), where b is the best 1-based rank so
    far.
    """
    import torch

    log_BT = (best_so_far(rank_BT).double() + 1).log()
    steps_BT = (log_BT[:, 1:] + log_BT[:, :-1]) / 2
    means_BT = steps_BT.cumsum(1) / torch.arange(1, steps_BT.shape[1] + 1)
    return torch.cat([torch.full_like(log_BT[:, :1], torch.nan), means_BT], 1)


@dataclass(frozen=True)
class Measure:
    """A measure and its display format. `statistic` aggregates the values of B dialogs at each turn."""

    name: str  # the key in metrics.json
    function: Callable[[Tensor, int], Tensor]
    label: str
    decimals: int
    direction: Literal["higher", "lower"]  # which values are better
    source: str
    statistic: Literal["mean", "median"] = "mean"
    offset: int = 0  # added to the statistic: 1 for 1-based ranks

    def by_turn(self, rank_BT: Tensor, gallery: int) -> list[float]:
        """Return the measure of every turn."""
        value_BT = self.function(rank_BT, gallery).double()
        value_T = value_BT.quantile(0.5, 0) if self.statistic == "median" else value_BT.mean(0)
        return (value_T + self.offset).tolist()


def _ranks(rank: Tensor, gallery: int) -> Tensor:
    return rank


BOTH = "(R@10+R@50)/2"
_DECLARED = (
    Measure("P", percentiles, "P", 2, "higher", "Guo et al. 2018; Fashion IQ, section 5.2"),
    Measure("MRR", lambda rank, _: reciprocals(rank), "MRR", 3, "higher", "Voorhees 1999"),
    Measure(
        BOTH,
        lambda rank, _: (hits(rank, 10) + hits(rank, 50)) / 2,
        BOTH,
        2,
        "higher",
        "Fashion IQ challenge 2020",
    ),
    Measure("mean_rank", _ranks, "mean rank", 2, "lower", "0-based"),
    Measure("median_rank", _ranks, "median rank", 2, "lower", "0-based", "median"),
    Measure("ATR", _ranks, "ATR", 2, "lower", "average target rank: PlugIR, Lee et al. 2024", offset=1),
    Measure(
        "BRI", lambda rank, _: best_log_rank_integral(rank), "BRI", 2, "lower", "PlugIR, Lee et al. 2024"
    ),
)
MEASURES = {one.name: one for one in _DECLARED}


def measure(name: str) -> Measure:
    """Return the measure P, MRR, mean_rank, median_rank, ATR, BRI, R@N or Hits@N.

    Raises ValueError for others.
    """
    kind, _, digits = name.partition("@")
    if name in MEASURES:
        return MEASURES[name]
    if plugins.is_part("measures", name):
        found: Measure = plugins.find("measures", name)
        return found
    if kind not in ("R", "Hits") or not digits.isdecimal() or not int(digits):
        installed = "".join(f"{one}, " for one in plugins.names("measures"))
        raise ValueError(f"unknown measure {name!r}; expected {installed}P, MRR, R@N or Hits@N, such as R@10")
    n = int(digits)
    if kind == "R":
        return Measure(
            name, lambda rank, _: hits(rank, n), name, 2, "higher", "Fashion IQ, section 5.2; of one turn"
        )
    return Measure(
        name, lambda rank, _: hits(best_so_far(rank), n), name, 2, "higher", "ChatIR, Levy et al. 2023"
    )


def percentile(rank_B: Tensor, gallery: int) -> float:
    """P, the mean of 1 − r/N in percent; chance level is 50 (Guo et al. 2018; Fashion IQ, section 5.2).

    >>> import torch
    >>> percentile(torch.tensor([0, 25]), gallery=100)
    87.5
    """
    return percentiles(rank_B, gallery).mean().item()


def at_chance(p: float, dialogs: int) -> bool:
    """Whether the P of some dialogs is no better than that of random rankings, within two standard errors."""
    return dialogs > 0 and p < 50 + 200 / math.sqrt(12 * dialogs)


def recall_at(rank_B: Tensor, n: int) -> float:
    """R@n of one turn: percentage of targets among the n best. Not cumulative over turns.

    >>> import torch
    >>> recall_at(torch.tensor([0, 9, 10, 400]), 10)
    50.0
    """
    return hits(rank_B, n).mean().item()


def ranks_of_scores(score_QN: Tensor, target_Q: Tensor) -> Tensor:
    """0-based ranks of the targets by scores, higher is better; ties are in the order of the items, −inf is last."""
    import torch

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
    import torch

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
