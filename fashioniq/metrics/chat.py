"""Measures of chat-based retrieval. Rounds count from 0, the caption alone; ranks are 0-based, dialogs × rounds."""

from collections.abc import Sequence

import torch
from torch import Tensor

from fashioniq.data.words import tokenize
from fashioniq.metrics.ranking import RECALLS, best_so_far, per_dialog

HITS = "Hits@10"
MEASURES = (HITS, *(f"R@{n}" for n in RECALLS), "P", "ATR", "BRI")


def best_log_rank_integral(rank_QR: Tensor) -> Tensor:
    """BRI of every dialog until every round, Q×R, lower is better: the mean over the steps between rounds of ½ (ln b_t + ln b_t+1),

    b the best place so far, counted from 1 (PlugIR, Lee et al. 2024). Until round 0 there is no step: NaN.
    """
    log_QR = (best_so_far(rank_QR).double() + 1).log()
    steps_QR = (log_QR[:, 1:] + log_QR[:, :-1]) / 2
    means_QR = steps_QR.cumsum(1) / torch.arange(1, steps_QR.shape[1] + 1)
    return torch.cat([torch.full_like(log_QR[:, :1], torch.nan), means_QR], 1)


def round_table(rank_QR: Tensor, gallery: int) -> list[dict[str, float | None]]:
    """The measures of every round. Hits@10 is cumulative (ChatIR, Levy et al. 2023): a dialog that hit once counts from then on; R@N is of the

    round alone. P is the percentile; ATR the average target rank, 1-based, which goes on after a hit; BRI is None at round 0.
    """
    means = {name: per_dialog(name, rank_QR, gallery).mean(0).tolist() for name in MEASURES[:-2]}
    means["ATR"] = (rank_QR.double().mean(0) + 1).tolist()
    means["BRI"] = [None, *best_log_rank_integral(rank_QR)[:, 1:].mean(0).tolist()]
    return [{"round": number, **{name: means[name][number] for name in MEASURES}} for number in range(rank_QR.shape[1])]


def repetition(questions: Sequence[Sequence[str]]) -> dict[str, float]:
    """How varied the questions of a dialog are, on average: exact repeats of an earlier one (case apart), and different words."""
    repeats, words = 0, 0
    for asked in questions:
        plain = [" ".join(question.lower().split()) for question in asked]
        repeats += len(plain) - len(set(plain))
        words += len({word for question in plain for word in tokenize(question)})
    return {"exact_repeats": repeats / len(questions), "unique_tokens": words / len(questions)}
