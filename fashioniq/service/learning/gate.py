"""Comparison of the new model with the running one on conversations that neither was trained on.

Each conversation is replayed: the model reads the words about the items that were shown, and the target is ranked
after every turn. What the new model would have shown instead is not known. A conversation ends with the answer
that showed the target. The running model thus has its success there by construction, and no success before; under
the hypothesis that both models succeed equally often at any turn, the expected number of successes until that
stop is nevertheless equal, so all turns count, not the last one alone.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import torch

from fashioniq.data.words import tokenize
from fashioniq.loop.dialog import Dialog, DialogStep
from fashioniq.loop.rollout import System
from fashioniq.metrics.significance import SAMPLES, bootstrap_interval, per_target, randomisation_p
from fashioniq.service.learning.export import MeasureComparison, Verdict
from fashioniq.service.learning.rules import LiveSession

RARE = 5  # training sessions below which a word is rare
MOST_WORSE = 3.0  # points of R@10 that a slice may lose
MOST_WORSE_SIMULATED = 1.0  # points of R@10 after the last turn of simulated dialogs


@torch.inference_mode()
def replay(system: System, sessions: Sequence[LiveSession]) -> list[list[int]]:
    """0-based ranks of the target after each turn of each session; a turn without a known word changes nothing."""
    positions = system.gallery.items.positions
    ranks: list[list[int]] = []
    for session in sessions:
        live, target_1 = Dialog.start(system), torch.tensor([positions[session.target]])
        target_1 = target_1.to(system.gallery.vectors_ND.device)
        ranks.append([])
        for said in session.steps:
            live = live.after(DialogStep((said.text,), said.item))
            ranks[-1].append(int(system.gallery.rank(live.query, target_1)))
    return ranks


def judge(
    sessions: Sequence[LiveSession],
    running: Sequence[Sequence[int]],
    new: Sequence[Sequence[int]],
    simulated: tuple[float, float] | None,
    *,
    training: Sequence[LiveSession],
    shown: set[str],
    min_targets: int,
) -> Verdict:
    """Compare the ranks of two models in the same held-out sessions.

    `simulated` is R@10 of the running and the new model in simulated dialogs, if there are any; `shown` are the
    products shown before the held-out sessions.
    """
    turns = [(one, number, said) for one in sessions for number, said in enumerate(one.steps)]
    targets = [one.target for one, _, _ in turns]
    rank_2R = np.array([[rank for ranks in of for rank in ranks] for of in (running, new)], dtype=float)
    hits_2R, inverse_2R = 100 * (rank_2R < 10), 1 / (1 + rank_2R)
    count = len(set(targets))
    reasons = []
    if count < min_targets:
        reasons.append(f"{count} held-out targets, fewer than {min_targets}")
    if count < 2:
        return Verdict(targets=count, rows=[], reasons=reasons or ["no held-out targets"])
    rows = []
    for name, value_2R in (("R@10", hits_2R), ("MRR", inverse_2R)):
        difference_N = per_target(value_2R[1] - value_2R[0], targets)
        low, high = bootstrap_interval(difference_N, SAMPLES, seed=0)
        p = randomisation_p(difference_N, SAMPLES, seed=0)
        row = _measured(name, value_2R, low > 0)
        rows.append(msgspec.structs.replace(row, low=low, high=high, p=p))
    common = _common(training)
    slices: dict[str, Callable[[LiveSession, int, str], bool]] = {
        "first turn": lambda one, number, text: number == 0,
        "turns with rare words": lambda one, number, text: bool(set(tokenize(text)) - common),
        "products not shown before": lambda one, number, text: one.target not in shown,
    }
    for name, holds in slices.items():
        chosen_R = np.array([holds(one, number, said.text) for one, number, said in turns])
        if chosen_R.any():
            values = hits_2R[:, chosen_R]
            worse = float(values[0].mean() - values[1].mean())
            rows.append(_measured(f"R@10, {name}", values, worse <= MOST_WORSE))
    if simulated is not None:
        simulated_2R = np.array(simulated)[:, None]
        held = simulated[0] - simulated[1] <= MOST_WORSE_SIMULATED
        row = _measured("R@10, last turn of simulated dialogs", simulated_2R, held)
        rows.append(msgspec.structs.replace(row, count=0))
    reasons += [
        f"{row.name} is {row.new:.2f}, with the running model {row.running:.2f}"
        + (", which chance may explain" if row.low is not None else "")
        for row in rows
        if not row.passed
    ]
    return Verdict(targets=count, rows=rows, reasons=reasons)


def against_untrained(
    name: str, untrained: Sequence[Sequence[int]], new: Sequence[Sequence[int]]
) -> MeasureComparison:
    """Compare the ranks of a new model with those of an untrained search in the same sessions."""
    rank_2R = np.array([[rank for ranks in of for rank in ranks] for of in (untrained, new)], dtype=float)
    hits_2R = 100 * (rank_2R < 10)
    better = hits_2R[1].mean() > hits_2R[0].mean()
    return _measured(f"R@10, and of the untrained search by {name}", hits_2R, better)


def _measured(name: str, value_2R: Any, passed: bool) -> MeasureComparison:
    running, new = value_2R.mean(1).tolist()
    return MeasureComparison(
        name=name, running=running, new=new, count=value_2R.shape[1], passed=bool(passed)
    )


def _common(training: Sequence[LiveSession]) -> set[str]:
    """Words of at least RARE training sessions."""
    counts = Counter(
        word for one in training for word in {word for said in one.steps for word in tokenize(said.text)}
    )
    return {word for word, count in counts.items() if count >= RARE}
