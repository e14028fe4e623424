"""Measures of single-turn retrieval, also for truncated rankings, for which some measures are None."""

from collections.abc import Sequence

from torch import Tensor

from fashioniq.metrics.measures import BOTH
from fashioniq.metrics.ranking import per_dialog

RECALLS = (1, 10, 50)
MEASURES = (*(f"R@{n}" for n in RECALLS), BOTH, "P", "MRR")


def measures(rank_Q: Tensor, depth_Q: Tensor, gallery: int) -> dict[str, float | None]:
    """Compute R@N, their mean, P and MRR of 0-based ranks.

    `depth_Q` is the length of each ranking; a rank of that value means that the target is not in it. R@N
    is None if a ranking without its target is shorter than N; P and MRR are None if any ranking lacks its
    target.
    """
    open_Q = rank_Q >= depth_Q
    shortest = int(depth_Q[open_Q].min()) if open_Q.any() else gallery
    known = {f"R@{n}": shortest >= min(n, gallery) for n in RECALLS} | {
        "P": shortest >= gallery,
        "MRR": shortest >= gallery,
    }
    rank_Q1 = rank_Q.masked_fill(open_Q, gallery).unsqueeze(1)
    found = {
        name: per_dialog(name, rank_Q1, gallery).mean().item() if defined else None
        for name, defined in known.items()
    }
    found[BOTH] = mean([found["R@10"], found["R@50"]])
    return {name: found[name] for name in MEASURES}


def mean(values: Sequence[float | None]) -> float | None:
    """Return the mean, or None if any value is None."""
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if len(numbers) == len(values) else None
