"""Measures of single-turn retrieval, also for truncated rankings, for which some measures are None."""

from collections.abc import Sequence

from torch import Tensor

from fashioniq.metrics.measures import BOTH, per_dialog

RECALLS = (1, 10, 50)
MEASURES = (*(f"R@{n}" for n in RECALLS), BOTH, "P", "MRR")


def measures(
    rank_Q: Tensor, depth_Q: Tensor, gallery: int, names: Sequence[str] = MEASURES
) -> dict[str, float | None]:
    """Compute R@N, the mean of R@10 and R@50, P and MRR of 0-based ranks, whichever are in `names`.

    `depth_Q` is the length of each ranking; a rank of that value means that the target is not in it. R@N
    is None if a ranking without its target is shorter than N; P and MRR are None if any ranking lacks its
    target.
    """
    open_Q = rank_Q >= depth_Q
    shortest = int(depth_Q[open_Q].min()) if open_Q.any() else gallery
    rank_Q1 = rank_Q.masked_fill(open_Q, gallery).unsqueeze(1)

    def value(name: str) -> float | None:
        if name == BOTH:
            return mean([value("R@10"), value("R@50")])
        needed = int(name.removeprefix("R@")) if name.startswith("R@") else gallery
        known = shortest >= min(needed, gallery)
        return per_dialog(name, rank_Q1, gallery).mean().item() if known else None

    return {name: value(name) for name in names}


def mean(values: Sequence[float | None]) -> float | None:
    """Return the mean, or None if any value is None."""
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if len(numbers) == len(values) else None
