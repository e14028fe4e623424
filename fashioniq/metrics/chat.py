"""Measures of chat-based retrieval. Rounds start at 0, the caption alone; ranks are 0-based, dialogs × rounds."""

from collections.abc import Sequence

from torch import Tensor

from fashioniq.data.words import tokenize
from fashioniq.metrics.measures import best_log_rank_integral, measure
from fashioniq.metrics.ranking import RECALLS

HITS = "Hits@10"
MEASURES = (HITS, *(f"R@{n}" for n in RECALLS), "P", "ATR", "BRI")


def round_table(rank_QR: Tensor, gallery: int) -> list[dict[str, float | None]]:
    """The measures of every round. BRI is None at round 0.

    Hits@10 is cumulative (ChatIR, Levy et al. 2023): a dialog that hit once counts from then on. R@N is of the round
    alone. ATR, the average target rank, is 1-based and changes after a hit too.
    """
    means: dict[str, list] = {name: measure(name).by_turn(rank_QR, gallery) for name in MEASURES[:-1]}
    means["BRI"] = [None, *best_log_rank_integral(rank_QR)[:, 1:].mean(0).tolist()]
    return [{"round": number, **{name: means[name][number] for name in MEASURES}} for number in range(rank_QR.shape[1])]


def repetition(questions: Sequence[Sequence[str]]) -> dict[str, float]:
    """Means per dialog of its questions: exact repeats of an earlier one, ignoring case, and distinct words."""
    repeats, words = 0, 0
    for asked in questions:
        plain = [" ".join(question.lower().split()) for question in asked]
        repeats += len(plain) - len(set(plain))
        words += len({word for question in plain for word in tokenize(question)})
    return {"exact_repeats": repeats / len(questions), "unique_tokens": words / len(questions)}
