"""Measures of ranks, each declared once: name, label, decimals, direction, source and function.

Ranks are 0-based: 0 is the best. Functions take the ranks of B dialogs at T turns, rank_BT, and the size
of the gallery, and return one value per dialog and turn, B×T. P, R@N and Hits@N are in percent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fashioniq import plugins

if TYPE_CHECKING:
    from torch import Tensor  # slow to import, and pages only need labels and decimals


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
