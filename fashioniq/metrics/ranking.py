"""Tables of measures by turn. A rank is 0-based: 0 is the best of the gallery."""

from torch import Tensor

from fashioniq.metrics.measures import best_so_far, hits, measure, percentiles

RECALLS = (1, 5, 10, 50)
TURN_MEASURES = ("P", *(f"R@{n}" for n in RECALLS), "Hits@1", "Hits@10", "MRR", "mean_rank", "median_rank")


def percentile(rank_B: Tensor, gallery: int) -> float:
    """P: the mean of 1 − r/N in percent; a random ranking gives 50 (Guo et al. 2018; Fashion IQ, section 5.2)."""
    return percentiles(rank_B, gallery).mean().item()


def recall_at(rank_B: Tensor, n: int) -> float:
    """R@n of one turn, in percent: how many targets are among the n best. Not cumulative over turns."""
    return hits(rank_B, n).mean().item()


def per_dialog(name: str, rank_BT: Tensor, gallery: int) -> Tensor:
    """P, R@N, Hits@N (cumulative) or MRR of every dialog at every turn, B×T: its mean over the dialogs is the measure.

    Raises ValueError for another name, and for a measure where lower is better.
    """
    found = measure(name)
    if found.direction == "lower":
        raise ValueError(f"there is no measure {name!r} of one dialog: it is P, MRR, R@N or Hits@N, such as R@10")
    return found.function(rank_BT, gallery)


def turn_table(rank_BT: Tensor, gallery: int) -> list[dict[str, float]]:
    """The measures of every turn, counted from 1. R@N is of the turn alone, Hits@N of all turns until then."""
    columns = {name: measure(name).by_turn(rank_BT, gallery) for name in TURN_MEASURES}
    return [
        {"turn": turn + 1, **{name: values[turn] for name, values in columns.items()}} for turn in range(rank_BT.shape[1])
    ]


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
