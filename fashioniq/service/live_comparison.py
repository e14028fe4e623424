"""`fashioniq compare-live`: begin a comparison of two models in service, and tell how it stands: the difference, its
interval, and whether it is decided.

Of method "split", the value of a conversation is whether its target is known (learning/rules.py), 1 or 0, and the
difference is that of the means of both models. Of an interleaved conversation it is the credit of the target, from −1
(contributed by the running model) to 1; without a target the mean credit of the products that the shopper clicked, and
0 without any. Conversations in which a model failed do not count.

The interval needs independent values, and conversations of one client are alike. So only the first conversation of each
client counts, which later ones do not change.
"""

import secrets
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from fashioniq.categories import canonical
from fashioniq.config import CompareLive
from fashioniq.files import UserError, check_writable
from fashioniq.metrics.sequential import ERROR, LEAST, half_width, needed
from fashioniq.report.new_models import write_live_comparison_page
from fashioniq.service.experiments import check_comparable
from fashioniq.service.learning.rules import CHOICES, Logged, target_of
from fashioniq.service.models import activation, models_of
from fashioniq.service.problems import Problem
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
    """How an experiment stands after its first `most` conversations, or stood when it ended."""
    end = experiment.ended_at or datetime.max.replace(tzinfo=UTC)  # conversations go on
    log = [
        (
            one,
            [turn for turn in turns if turn.created_at <= end],
            [did for did in events if did.server_at <= end],
        )
        for one, turns, events in store.experiment_log(experiment.id)
        if one.created_at <= end
    ]
    counted = [one for one in log if not any("failed" in one for turn in one[1] for one in turn.shown)]
    excluded, counted = len(log) - len(counted), counted[: experiment.most]
    split, count = experiment.method == "split", len(counted)
    value_N = np.array([_success(one) if split else _credit(one) for one in counted])
    challenger_N = np.array([one[0].arm == "challenger" for one in counted], dtype=bool) if split else None
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


def compare_live(settings: CompareLive) -> list[LiveComparison]:
    """Begin a comparison with `run`; print how the latest one of each category stands, and end it if it is decided.

    Raises UserError if there is none, or if the challenger cannot be compared with the active model.
    """
    if settings.out is not None:
        check_writable(settings.out.parent)  # a page there is replaced
        if settings.out.is_dir():
            raise UserError(f"--out is the folder {settings.out}; give a file, such as live.html")
    with closing(Store.open(settings.database, create=False)) as store:
        if settings.run is not None:
            _begin(store, settings, settings.run)
        ended, found = settings.end and canonical(settings.end), []
        for category in store.categories():
            for experiment in store.experiments(category)[-1:]:
                one = live_comparison(store, experiment)
                verdict = one.verdict or ("ended by hand" if ended == category else None)
                if verdict and experiment.ended_at is None:
                    stored = store.end_experiment(experiment.id, verdict)
                    one = replace(one, experiment=stored, needed=None, verdict=stored.verdict)
                print("\n".join(_lines(store, one)))
                found.append(one)
        if ended and ended not in [one.experiment.category for one in found]:
            raise UserError(f"expected a comparison of {ended}, found none; correct --end")
        if not found:
            raise UserError(
                "expected a comparison in the database, found none; begin one with --run CHALLENGER, a run of the "
                "products that are served"
            )
        if settings.out is not None:
            write_live_comparison_page(settings.out, found)
            print(f"page in {settings.out}")
        return found


def _begin(store: Store, settings: CompareLive, run: Path) -> None:
    """Register the challenger, and let the service compare it with the active model of its category."""
    with models_of(store) as models:
        challenger = models.register(run)
        active = store.active_model(challenger.category)
        if active is None or active.id == challenger.version:
            raise UserError(
                f"expected another model of {challenger.category} in service, found "
                f"{'this one' if active else 'none'}; give another --run"
            )
        try:
            check_comparable(models.version(active.id), challenger)
        except Problem as problem:
            raise UserError(f"the active model {active.id} cannot be loaded ({problem.code})") from None
        store.begin_experiment(
            ExperimentRow(
                id=f"cmp_{secrets.token_hex(8)}",
                category=challenger.category,
                running=active.id,
                challenger=challenger.version,
                method=settings.method,
                error=ERROR,
                most=settings.most,
                started_at=store.now(),
            )
        )


def _lines(store: Store, one: LiveComparison) -> list[str]:
    experiment, last = one.experiment, one.standings[-1]
    of = "share of conversations that lead to a product" if experiment.method == "split" else "credit"
    lines = [
        f"{experiment.category}: challenger {experiment.challenger}, running {experiment.running}, "
        f"{experiment.method}, since {experiment.started_at:%Y-%m-%d %H:%M} UTC",
        f"{last.count:,} of at most {experiment.most:,} conversations; {one.excluded:,} more in which a model failed, "
        f"{one.later:,} later ones of the same clients",
    ]
    if last.half < float("inf"):
        lines.append(
            f"difference in {of}: {last.difference:+.3f}, {100 * (1 - experiment.error):g} % interval "
            f"{last.difference - last.half:+.3f} to {last.difference + last.half:+.3f}, valid at any time"
        )
    active = store.active_model(experiment.category)
    if one.verdict == "challenger":
        lines.append(
            "the challenger is better; activate it (behind a proxy, with a KEY of the scope admin): "
            f"{activation(experiment.challenger)}"
        )
    elif one.verdict == "running":
        lines.append("the running model is better")
    elif one.verdict is not None:
        lines.append(f"ended: {one.verdict}" if "ended" not in one.verdict else one.verdict)
    elif active is None or active.id != experiment.running:
        lines.append(
            "no more conversations: another model was activated; end the comparison with --end "
            f"{experiment.category}"
        )
    elif one.needed is not None:
        lines.append(
            f"open; decided after about {one.needed - last.count:,} more conversations if it stays so"
        )
    elif last.count < LEAST:
        lines.append(f"open; there is no interval below {LEAST} conversations")
    else:
        lines.append("open; the difference is too small to be decided by then")
    return lines
