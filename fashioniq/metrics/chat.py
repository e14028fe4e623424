"""Measures of chat-based retrieval. Round 0 is the caption alone; ranks are 0-based, Q dialogs × rounds."""

from collections.abc import Sequence

import torch
from torch import Tensor

from fashioniq import plugins
from fashioniq.data.words import tokenize
from fashioniq.metrics.measures import RECALLS, best_log_rank_integral, measure

HITS = "Hits@10"
_MEASURES = (HITS, *(f"R@{n}" for n in RECALLS), "P", "ATR", "BRI")


def round_measures() -> list[str]:
    """Names of the measures of a round: those of the field, and those of installed packages."""
    return [*_MEASURES, *plugins.names("measures")]


def round_table(rank_QR: Tensor, gallery: int) -> list[dict[str, float | None]]:
    """Return the measures of every round. BRI is None at round 0.

    Hits@10 is cumulative (ChatIR, Levy et al. 2023): a hit counts for all later rounds. R@N counts hits of
    the round only. ATR, the average target rank, is 1-based and not cumulative.
    """
    named = round_measures()
    means: dict[str, list] = {
        name: measure(name).by_turn(rank_QR, gallery) for name in named if name != "BRI"
    }
    means["BRI"] = [None, *best_log_rank_integral(rank_QR)[:, 1:].mean(0).tolist()]
    return [
        {"round": number, **{name: means[name][number] for name in named}}
        for number in range(rank_QR.shape[1])
    ]


def stable_round(top_QRK: Tensor) -> Tensor:
    """First round of each dialog that left its K best products the same, in any order; the last one if none
    did, Q. The products found after each round are Q×R×K.
    """
    sorted_QRK = top_QRK.sort(-1).values
    same_QR = (sorted_QRK[:, 1:] == sorted_QRK[:, :-1]).all(-1)
    rounds = same_QR.shape[1]
    first_Q = same_QR.int().argmax(1) + 1 if rounds else same_QR.sum(1)
    return first_Q.where(same_QR.any(1), rounds)


def early_stop(rank_QR: Tensor, top_QRK: Tensor, gallery: int) -> tuple[float, dict[str, float | None]]:
    """Mean of `stable_round`, and the measures if every dialog ended after that round."""
    round_Q = stable_round(top_QRK)
    number_R = torch.arange(rank_QR.shape[1])
    final_QR = rank_QR.gather(1, torch.minimum(number_R, round_Q[:, None]))
    measures = round_table(final_QR, gallery)[-1]
    return float(round_Q.double().mean()), {name: measures[name] for name in round_measures()}


def repetition(questions: Sequence[Sequence[str]]) -> dict[str, float]:
    """Mean number per dialog of exact repeats of earlier questions, ignoring case, and of distinct words."""
    repeats, words = 0, 0
    for asked in questions:
        plain = [" ".join(question.lower().split()) for question in asked]
        repeats += len(plain) - len(set(plain))
        words += len({word for question in plain for word in tokenize(question)})
    return {"exact_repeats": repeats / len(questions), "unique_tokens": words / len(questions)}
