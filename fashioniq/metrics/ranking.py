"""Measures of ranks. A rank is 0-based: 0 is the best of the gallery."""

from torch import Tensor


def percentile(rank_B: Tensor, gallery: int) -> float:
    """P: the mean of 1 − r/N in percent; 50 by chance (Guo et al. 2018; Fashion IQ, section 5.2)."""
    return 100 * (1 - rank_B.double() / gallery).mean().item()


def recall_at(rank_B: Tensor, n: int) -> float:
    """R@n of one turn, in percent: how many targets are among the n best. Not cumulative over turns."""
    return 100 * (rank_B < n).double().mean().item()


def mean_rank(rank_B: Tensor) -> float:
    """The mean of the 0-based ranks."""
    return rank_B.double().mean().item()


def turn_table(rank_BT: Tensor, gallery: int) -> list[dict[str, float]]:
    """The measures of every turn, counted from 1: P, R@10, R@50 and the mean rank."""
    return [
        {
            "turn": turn + 1,
            "P": percentile(rank_B, gallery),
            "R@10": recall_at(rank_B, 10),
            "R@50": recall_at(rank_B, 50),
            "mean_rank": mean_rank(rank_B),
        }
        for turn, rank_B in enumerate(rank_BT.unbind(1))
    ]
