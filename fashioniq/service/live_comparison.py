"""How a comparison of two models in the service stands: the difference, its interval, and whether it is decided.

Of method "split", the value of a conversation is whether its target is known (learning/signals.py), 1 or 0, and the
difference is that of the means of both models. Of an interleaved conversation it is the credit of the target, from −1
(contributed by the running model) to 1; without a target the mean credit of the products that the shopper clicked, and
0 without any. Conversations in which a model failed do not count.

The interval needs independent values, and conversations of one client are alike. So only the first conversation of each
client counts, which later ones do not change.
"""

import msgspec
import numpy as np
from numpy.typing import NDArray

from fashioniq.metrics.sequential import half_width, needed
from fashioniq.service.learning.rules import Logged
from fashioniq.service.learning.signals import CHOICES, target_of
from fashioniq.service.store import ExperimentRow, Store

POINTS = 60  # of the plot


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """Difference between the challenger and the running model after `count` conversations, and half its interval."""

    count: int
    difference: float
    half: float


class LiveComparison(msgspec.Struct, frozen=True, kw_only=True):
    """An experiment at the moment; the last of `standings` has all conversations that count.

    `excluded` are those in which a model failed, `later` those of clients who had an earlier one. `needed` are those
    after which it is decided if the difference stays as it is, None if that is too small. `verdict` is "challenger",
    "running" or "undecided", None while it is open.
    """

    experiment: ExperimentRow
    standings: list[Standing]
    excluded: int
    later: int
    needed: int | None
    verdict: str | None


def live_comparison(store: Store, experiment: ExperimentRow) -> LiveComparison:
    """How an experiment stands after its first `most` conversations."""
    log = store.experiment_log(experiment.id)
    counted = [one for one in log if not any("failed" in one for turn in one[1] for one in turn.shown)]
    excluded, counted = len(log) - len(counted), counted[: experiment.most]
    split, count = experiment.method == "split", len(counted)
    value_N = np.array([_success(one) if split else _credit(one) for one in counted])
    arms = [one[0].arm == "challenger" for one in counted]
    challenger_N = np.array(arms, dtype=bool) if split else None
    standings, variance = [], 0.0
    for number in sorted({*range(0, count, max(1, count // POINTS)), count}):
        some_N = None if challenger_N is None else challenger_N[:number]
        difference, variance = _difference(value_N[:number], some_N)
        half = half_width(number, variance, experiment.error)
        standings.append(Standing(count=number, difference=difference, half=half))
    last, verdict, wanted = standings[-1], experiment.verdict, None
    if verdict is None and abs(last.difference) > last.half:
        verdict = "challenger" if last.difference > 0 else "running"
    elif verdict is None and store.is_full(experiment):
        verdict = "undecided"
    elif verdict is None and (wanted := needed(last.difference, variance, experiment.error)):
        wanted = wanted if wanted <= experiment.most else None
    return LiveComparison(
        experiment=experiment,
        standings=standings,
        excluded=excluded,
        later=store.count_later(experiment.id),
        needed=wanted,
        verdict=verdict,
    )


def _difference(value_N: NDArray[np.float64], challenger_N: NDArray[np.bool_] | None) -> tuple[float, float]:
    """Difference of the models, and the variance of a conversation's part in it; 0 and infinite while unknown."""
    groups = [value_N] if challenger_N is None else [value_N[challenger_N], value_N[~challenger_N]]
    if not all(map(len, groups)):
        return 0.0, float("inf")
    means = [float(group.mean()) for group in groups]
    variance = len(value_N) * sum(float(group.var()) / len(group) for group in groups)
    return means[0] - (means[1] if len(means) > 1 else 0.0), variance


def _success(logged: Logged) -> float:
    _, turns, events = logged
    return float(target_of(events, {turn.query_id: turn.created_at for turn in turns}) is not None)


def _credit(logged: Logged) -> float:
    """Mean credit of the target where it was chosen, else of the products clicked, each once per answer."""
    _, turns, events = logged
    target = target_of(events, {turn.query_id: turn.created_at for turn in turns})
    credits = {
        (turn.query_id, one["id"]): one["credit"] for turn in turns for one in turn.shown if "credit" in one
    }
    clicked = {(one.query_id, one.product_id) for one in events if one.action in CHOICES}
    chosen = {(query, name) for query, name in clicked if target and name == target.product} & credits.keys()
    found = [credits[one] for one in chosen or clicked & credits.keys()]
    return sum(found) / len(found) if found else 0.0
