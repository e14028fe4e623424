"""Evaluations side by side: measures after every turn or round, and whether differences are significant, by bootstrap
intervals and randomisation tests, paired by target.
"""

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fashioniq.config import Compare
from fashioniq.evaluation.output import check_results
from fashioniq.evaluation.results import (
    EvaluationFolder,
    item_cards,
    notes_on_differences,
    read_evaluation,
    stated,
)
from fashioniq.files import UserError, one_line, together, write_json, write_text
from fashioniq.metrics.chat import HITS
from fashioniq.metrics.measures import measure, per_dialog
from fashioniq.metrics.significance import SAMPLES, per_target, tested
from fashioniq.report.compare_page import write_compare_page
from fashioniq.report.tables import csv_table, latex_table, print_table, turns_csv, turns_latex, turns_text

MEASURE = {"turn": "R@10", "round": HITS}  # compared by default
BY_TURN = {"turn": ("P", "R@10", "R@50"), "round": (HITS, "R@10", "P")}  # of Fashion IQ's tables, of ChatIR's
HEADER = ("model", "mean", "± seeds", "difference", "95 % interval", "p", "p corrected")


@dataclass(frozen=True)
class _Model:
    """Evaluations of the seeds of one model: the measure per dialog, averaged over seeds, the mean per seed, and
    measures by seed and turn.
    """

    name: str
    seeds: list[EvaluationFolder]
    value_B: NDArray[np.float64]
    means: list[float]
    by_turn: dict[str, NDArray[np.float64]]


def compare(settings: Compare) -> dict[str, Any]:
    """Print a table that compares all models with the first; with --out write it and pages of paired dialogs."""
    groups = [
        [read_evaluation(Path(folder)) for folder in named.split(",") if folder] for named in settings.runs
    ]
    if len(groups) < 2 or not all(groups):
        raise UserError(
            "expected at least two folders of eval-dialogs, such as fashioniq compare RUN/dialogs-test "
            "RUN/dialogs-test"
        )
    if settings.out:
        check_results(settings.out)
    evaluations = [one for group in groups for one in group]
    if len({one.folder.resolve() for one in evaluations}) < len(evaluations):
        raise UserError("an evaluation is listed twice; give each folder once")
    notes = notes_on_differences(evaluations)
    unit, first = evaluations[0].metrics.UNIT, evaluations[0].first_turn
    turns = min(one.rank_BT.shape[1] for one in evaluations)
    last = first + turns - 1
    turn = last if settings.turn is None else settings.turn
    if not first <= turn <= last:
        raise UserError(
            f"--turn is {turn}, but the shortest of these evaluations has {turns} {unit}s; give {first} to {last}"
        )
    names, measured = _names([group[0].folder for group in groups]), settings.measure or MEASURE[unit]
    models = [
        _model(name, group, measured, turn - first, turns) for name, group in zip(names, groups, strict=True)
    ]
    targets = evaluations[0].targets
    if len(set(targets)) < 2:
        raise UserError(
            f"expected at least two targets, found one in {evaluations[0].folder}; a test needs several"
        )
    comparison = {
        "measure": measured,
        unit: turn,
        **{
            key: stated(evaluations[0].metrics, key) or None
            for key in ("protocol", "category", "split", "gallery")
        },
        "dialogs": len(targets),
        "targets": len(set(targets)),
        "samples": SAMPLES,
        "seed": settings.seed,
        "notes": notes,
        "models": _against_first(models, targets, settings),
    }
    _print_comparison(comparison, f"{unit} {turn}")
    if settings.out:
        with together(settings.out, "comparison.json", "compare*.html"):
            _write(settings.out, comparison, models, settings.seed)
        print(
            f"results in {settings.out}, measures after every {unit} in {settings.out / 'turns.txt'}, paired "
            f"dialogs in {settings.out / _page(1)}"
        )
    return comparison


def _model(name: str, seeds: list[EvaluationFolder], measured: str, column: int, turns: int) -> _Model:
    try:
        value_SBT = {
            one: np.stack(
                [per_dialog(one, seed.rank_BT[:, :turns], seed.metrics.gallery).numpy() for seed in seeds]
            )
            for one in dict.fromkeys((*BY_TURN[seeds[0].metrics.UNIT], measured))
        }
    except ValueError as error:
        raise UserError(f"--measure: {error}") from error
    value_SB = value_SBT[measured][:, :, column]
    return _Model(
        f"{name} ({len(seeds)} seeds)" if len(seeds) > 1 else name,
        seeds,
        value_SB.mean(0),
        value_SB.mean(1).tolist(),
        {one: value.mean(1) for one, value in value_SBT.items()},
    )


def _names(folders: list[Path]) -> list[str]:
    """Folders without the parts that all of them begin or end with."""
    parts = [folder.parts for folder in folders]
    shortest = min(map(len, parts))
    before = next(
        (depth for depth in range(shortest) if len({part[depth] for part in parts}) > 1), shortest - 1
    )
    after = next(
        (depth for depth in range(shortest) if len({part[-1 - depth] for part in parts}) > 1), shortest - 1
    )
    return [str(Path(*(part[before : len(part) - after] or part))) for part in parts]


def _against_first(models: list[_Model], targets: list[str], settings: Compare) -> list[dict[str, Any]]:
    """A row for each model; differences are to the first one, whose own are None."""
    rows: list[dict[str, Any]] = [
        {
            "model": model.name,
            "runs": [str(one.folder) for one in model.seeds],
            "means": model.means,
            "mean": statistics.fmean(model.means),
            "deviation": statistics.stdev(model.means) if len(model.means) > 1 else None,
            **dict.fromkeys(("difference", "interval", "p", "p_corrected")),
        }
        for model in models
    ]
    differences = [per_target(model.value_B - models[0].value_B, targets) for model in models[1:]]
    tests: list[dict[str, Any]] = [{}, *tested(differences, settings.seed)]
    return [row | test for row, test in zip(rows, tests, strict=True)]


def _cells(row: dict[str, Any], decimals: int) -> list[str]:
    deviation = "–" if row["deviation"] is None else f"{row['deviation']:.{decimals}f}"
    mean = f"{row['mean']:.{decimals}f}"
    if row["p"] is None:
        return [row["model"], mean, deviation, "–", "–", "–", "–"]
    return [
        row["model"],
        mean,
        deviation,
        f"{row['difference']:+.{decimals}f}",
        _interval(row, decimals),
        f"{row['p']:.4f}",
        f"{row['p_corrected']:.4f}",
    ]


def _print_comparison(comparison: dict[str, Any], after: str) -> None:
    of = f"{comparison['category']}, {comparison['split']} split, " if comparison["category"] else ""
    counts = f"{comparison['dialogs']} dialogs, gallery {comparison['gallery']}"
    print(one_line(f"{comparison['measure']} after {after}: {of}{counts}"))
    decimals = measure(comparison["measure"]).decimals
    print_table(HEADER, [_cells(row, decimals) for row in comparison["models"]])
    print(
        f"difference to {comparison['models'][0]['model']} over {comparison['targets']} targets, averaged "
        "over seeds; paired bootstrap "
        f"and paired\nrandomisation test, {comparison['samples']:,} samples each; p corrected by Holm for "
        f"{len(comparison['models']) - 1} comparison(s)"
    )
    for note in comparison["notes"]:
        print(one_line(f"note: {note}"))


def _write(out: Path, comparison: dict[str, Any], models: list[_Model], seed: int) -> None:
    first = models[0]
    unit, first_turn = first.seeds[0].metrics.UNIT, first.seeds[0].first_turn
    named = [one.metrics for model in models for one in model.seeds if one.metrics.facts.data]
    cards, missing = item_cards((named or [first.seeds[0].metrics])[0])
    rows, decimals = comparison["models"], measure(comparison["measure"]).decimals
    keys = ("model", "mean", "deviation", "difference", "low", "high", "p", "p_corrected")
    flat = [
        {**row, **dict(zip(("low", "high"), row["interval"] or (None, None), strict=True))} for row in rows
    ]
    write_text(out / "comparison.csv", csv_table(keys, [[row[key] for key in keys] for row in flat]))
    by_turn = {model.name: model.by_turn for model in models}
    for file, table in (("turns.txt", turns_text), ("turns.csv", turns_csv), ("turns.tex", turns_latex)):
        write_text(out / file, table(by_turn, unit, first_turn))
    write_text(out / "comparison.tex", latex_table(HEADER, [_cells(row, decimals) for row in rows]))
    for number, other in enumerate(models[1:], 1):
        row = rows[number]
        finding = (
            f"{comparison['measure']} after {unit} {comparison[unit]}: A {rows[0]['mean']:.{decimals}f}, B "
            f"{row['mean']:.{decimals}f}; "
            f"B minus A {row['difference']:+.{decimals}f}, 95 % interval {_interval(row, decimals)}, "
            f"p {row['p']:.4f} ({row['p_corrected']:.4f} corrected)."
        )
        several = any(len(model.seeds) > 1 for model in (first, other))
        note = "Means are over several seeds; dialogs, plots and tables show the first seed of each model."
        notes = [*([note] if several else []), *missing, *comparison["notes"]]
        ours, theirs = first.seeds[0], other.seeds[0]
        write_compare_page(
            out / _page(number),
            names=(first.name, other.name),
            metrics=(ours.metrics, theirs.metrics),
            dialogs=(ours.dialogs, theirs.dialogs),
            turn=comparison[unit],
            finding=finding,
            notes=notes,
            cards=cards,
            seed=seed,
        )
    write_json(out / "comparison.json", comparison)


def _page(number: int) -> str:
    return "compare.html" if number == 1 else f"compare-{number}.html"


def _interval(row: dict[str, Any], decimals: int) -> str:
    low, high = row["interval"]
    return f"{low:+.{decimals}f} to {high:+.{decimals}f}"
