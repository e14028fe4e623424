"""Measures of chat-based retrieval. Round 0 is the caption alone; ranks are 0-based, Q dialogs × rounds."""

from collections.abc import Sequence

from torch import Tensor

from fashioniq.data.words import tokenize
from fashioniq.metrics.measures import best_log_rank_integral, measure
from fashioniq.metrics.ranking import RECALLS

HITS = "Hits@10"
MEASURES = (HITS, *(f"R@{n}" for n in RECALLS), "P", "ATR", "BRI")


def round_table(rank_QR: Tensor, gallery: int) -> list[dict[str, float | None]]:
    """Return the measures of every round. BRI is None at round 0.

    Hits@10 is cumulative (ChatIR, Levy et al. 2023): a hit counts for all later rounds. R@N counts hits of
    the round only. ATR, the average target rank, is 1-based and not cumulative.
    """
    means: dict[str, list] = {name: measure(name).by_turn(rank_QR, gallery) for name in MEASURES[:-1]}
    means["BRI"] = [None, *best_log_rank_integral(rank_QR)[:, 1:].mean(0).tolist()]
    return [
        {"round": number, **{name: means[name][number] for name in MEASURES}}
        for number in range(rank_QR.shape[1])
    ]


def repetition(questions: Sequence[Sequence[str]]) -> dict[str, float]:
    """Mean number per dialog of exact repeats of earlier questions, ignoring case, and of distinct words."""
    repeats, words = 0, 0
    for asked in questions:
        plain = [" ".join(question.lower().split()) for question in asked]
        repeats += len(plain) - len(set(plain))
        words += len({word for question in plain for word in tokenize(question)})
    return {"exact_repeats": repeats / len(questions), "unique_tokens": words / len(questions)}
