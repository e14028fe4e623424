"""Measures of single-turn retrieval, also of rankings that name only the first products: what these cannot tell is None."""

from collections.abc import Sequence

from torch import Tensor

from fashioniq.metrics.measures import BOTH
from fashioniq.metrics.ranking import per_dialog

RECALLS = (1, 10, 50)
MEASURES = (*(f"R@{n}" for n in RECALLS), BOTH, "P", "MRR")


def measures(rank_Q: Tensor, depth_Q: Tensor, gallery: int) -> dict[str, float | None]:
    """R@N, their mean, P and MRR of 0-based ranks; `depth_Q` is how many products each ranking names: a rank of that much is not named.

    R@N is None where a ranking without its target names fewer than N; P and MRR where any is without its target.
    """
    open_Q = rank_Q >= depth_Q
    shortest = int(depth_Q[open_Q].min()) if open_Q.any() else gallery
    known = {f"R@{n}": shortest >= min(n, gallery) for n in RECALLS} | {"P": shortest >= gallery, "MRR": shortest >= gallery}
    rank_Q1 = rank_Q.masked_fill(open_Q, gallery).unsqueeze(1)
    found = {name: per_dialog(name, rank_Q1, gallery).mean().item() if told else None for name, told in known.items()}
    found[BOTH] = mean([found["R@10"], found["R@50"]])
    return {name: found[name] for name in MEASURES}


def mean(values: Sequence[float | None]) -> float | None:
    """The mean, None where one is None."""
    there = [value for value in values if value is not None]
    return sum(there) / len(there) if len(there) == len(values) else None
