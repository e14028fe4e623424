"""Measures of ranks. A rank is 0-based: 0 is the best of the gallery. P, R@N and Hits@N are in percent, reciprocal ranks are fractions."""

from torch import Tensor

RECALLS = (1, 5, 10, 50)


def percentiles(rank: Tensor, gallery: int) -> Tensor:
    """Of every rank the part of the gallery that is not before it; 100 for the best."""
    return 100 * (1 - rank.double() / gallery)


def hits(rank: Tensor, n: int) -> Tensor:
    """Of every rank 100 where it is among the n best, else 0."""
    return 100 * (rank < n).double()


def reciprocals(rank: Tensor) -> Tensor:
    """Of every rank one by its place: 1 for the best, ½ for the next (Voorhees 1999)."""
    return 1 / (rank.double() + 1)


def best_so_far(rank_BT: Tensor) -> Tensor:
    """At every turn the best rank of this turn and those before it, B×T: what makes a hit cumulative (ChatIR, Levy et al. 2023)."""
    return rank_BT.cummin(1).values


def percentile(rank_B: Tensor, gallery: int) -> float:
    """P: the mean of 1 − r/N in percent; 50 by chance (Guo et al. 2018; Fashion IQ, section 5.2)."""
    return percentiles(rank_B, gallery).mean().item()


def recall_at(rank_B: Tensor, n: int) -> float:
    """R@n of one turn, in percent: how many targets are among the n best. Not cumulative over turns."""
    return hits(rank_B, n).mean().item()


def per_dialog(measure: str, rank_BT: Tensor, gallery: int) -> Tensor:
    """P, R@N, Hits@N (cumulative) or MRR of every dialog at every turn, B×T: its mean over the dialogs is the measure of a turn.

    Raises ValueError for another name.
    """
    kind, _, number = measure.partition("@")
    if measure == "P":
        return percentiles(rank_BT, gallery)
    if measure == "MRR":
        return reciprocals(rank_BT)
    if kind in ("R", "Hits") and number.isdecimal() and int(number):
        return hits(rank_BT if kind == "R" else best_so_far(rank_BT), int(number))
    raise ValueError(f"there is no measure {measure!r}: it is P, MRR, R@N or Hits@N, as R@10")


def turn_table(rank_BT: Tensor, gallery: int) -> list[dict[str, float]]:
    """The measures of every turn, counted from 1. R@N is of the turn alone, Hits@N of all turns until then."""
    names = ("P", *(f"R@{n}" for n in RECALLS), "Hits@1", "Hits@10", "MRR")
    means = {name: per_dialog(name, rank_BT, gallery).mean(0).tolist() for name in names}
    means["mean_rank"] = rank_BT.double().mean(0).tolist()
    means["median_rank"] = rank_BT.double().quantile(0.5, 0).tolist()
    return [{"turn": turn + 1, **{name: values[turn] for name, values in means.items()}} for turn in range(rank_BT.shape[1])]


def average(table: list[dict[str, float]]) -> dict[str, float]:
    """The mean over the turns of every measure of a turn table."""
    return {name: sum(turn[name] for turn in table) / len(table) for name in table[0] if name != "turn"}


def success(rank_BT: Tensor) -> dict[str, float | None]:
    """How many dialogs, in percent, find their target, and after how many turns on average: found is ranked 0 at any turn.

    Dialogs that never find it lower the percentage and do not count in `mean_turns`, which is None where none does.
    """
    found_BT = best_so_far(rank_BT) == 0
    found_B = found_BT[:, -1]
    turns_B = (~found_BT).sum(1) + 1
    mean_turns = turns_B[found_B].double().mean().item() if found_B.any() else None
    return {"within": rank_BT.shape[1], "percent": 100 * found_B.double().mean().item(), "mean_turns": mean_turns}
