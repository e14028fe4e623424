"""Are differences between evaluations significant? Bootstrap intervals and randomization tests of the same targets."""

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fashioniq.config import Compare
from fashioniq.evaluation.results import Evaluation, check_comparable, item_cards, read_evaluation
from fashioniq.files import UserError, discard, write_json, write_text
from fashioniq.metrics.measures import measure
from fashioniq.metrics.ranking import per_dialog
from fashioniq.metrics.significance import bootstrap_interval, holm, per_target, randomisation_p
from fashioniq.report.compare_page import write_compare_page
from fashioniq.report.tables import csv_table, latex_table, print_table

HEADER = ("model", "mean", "± seeds", "difference", "95 % interval", "p", "p corrected")


@dataclass(frozen=True)
class _Model:
    """The evaluations of one model's seeds, the measure of each dialog as the mean over them, and the measure of every seed."""

    name: str
    seeds: list[Evaluation]
    value_B: NDArray[np.float64]
    means: list[float]


def compare(settings: Compare) -> None:
    """Print a table of all models against the first, and with --out write it and the pages of dialogs side by side."""
    groups = [[read_evaluation(Path(folder)) for folder in named.split(",") if folder] for named in settings.runs]
    if len(groups) < 2 or not all(groups):
        raise UserError("compare needs two evaluations at least: fashioniq compare RUN RUN, folders that eval-dialogs made")
    evaluations = [one for group in groups for one in group]
    if len({one.folder.resolve() for one in evaluations}) < len(evaluations):
        raise UserError("an evaluation is named twice: every RUN, and every seed of it, is another folder")
    notes = check_comparable(evaluations)
    last = min(one.rank_BT.shape[1] for one in evaluations)
    turn = settings.turn or last
    if turn > last:
        raise UserError(f"--turn is {turn}: the shortest of these evaluations has {last} turns")
    names = _names([group[0].folder for group in groups])
    models = [_model(name, group, settings.measure, turn) for name, group in zip(names, groups, strict=True)]
    targets = evaluations[0].targets
    if len(set(targets)) < 2:
        raise UserError(f"{evaluations[0].folder} holds dialogs of one target only: nothing can be said about others")
    comparison = {
        "measure": settings.measure,
        "turn": turn,
        **{key: evaluations[0].metrics.get(key) for key in ("protocol", "category", "split", "gallery")},
        "dialogs": len(targets),
        "targets": len(set(targets)),
        "samples": settings.samples,
        "seed": settings.seed,
        "notes": notes,
        "models": _against_first(models, targets, settings),
    }
    _tell(comparison)
    if settings.out:
        _write(settings.out, comparison, models, settings.seed)
        print(f"results in {settings.out}, dialogs side by side in {settings.out / _page(1)}")


def _model(name: str, seeds: list[Evaluation], measured: str, turn: int) -> _Model:
    try:
        value_SB = np.stack([per_dialog(measured, one.rank_BT[:, :turn], one.metrics["gallery"])[:, -1].numpy() for one in seeds])
    except ValueError as error:
        raise UserError(f"--measure: {error}") from error
    return _Model(f"{name} ({len(seeds)} seeds)" if len(seeds) > 1 else name, seeds, value_SB.mean(0), value_SB.mean(1).tolist())


def _names(folders: list[Path]) -> list[str]:
    """The folders without the parts that all of them begin and end with."""
    parts = [folder.parts for folder in folders]
    shortest = min(map(len, parts))
    before = next((place for place in range(shortest) if len({part[place] for part in parts}) > 1), shortest - 1)
    after = next((place for place in range(shortest) if len({part[-1 - place] for part in parts}) > 1), shortest - 1)
    return [str(Path(*(part[before : len(part) - after] or part))) for part in parts]


def _against_first(models: list[_Model], targets: list[str], settings: Compare) -> list[dict[str, Any]]:
    """A row for each model; the first is compared with no other."""
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
    for row, model in zip(rows[1:], models[1:], strict=True):
        difference_N = per_target(model.value_B - models[0].value_B, targets)
        row["difference"] = float(difference_N.mean())
        row["interval"] = bootstrap_interval(difference_N, settings.samples, settings.seed)
        row["p"] = randomisation_p(difference_N, settings.samples, settings.seed)
    for row, corrected in zip(rows[1:], holm([row["p"] for row in rows[1:]]), strict=True):
        row["p_corrected"] = corrected
    return rows


def _cells(row: dict[str, Any], decimals: int) -> list[str]:
    deviation = "–" if row["deviation"] is None else f"{row['deviation']:.{decimals}f}"
    mean = f"{row['mean']:.{decimals}f}"
    if row["p"] is None:
        return [row["model"], mean, deviation, "–", "–", "–", "–"]
    low, high = row["interval"]
    interval = f"{low:+.{decimals}f} to {high:+.{decimals}f}"
    return [row["model"], mean, deviation, f"{row['difference']:+.{decimals}f}", interval, f"{row['p']:.4f}", f"{row['p_corrected']:.4f}"]


def _tell(comparison: dict[str, Any]) -> None:
    print(
        f"{comparison['measure']} after turn {comparison['turn']}: {comparison['category']}, {comparison['split']} split, "
        f"{comparison['dialogs']} dialogs, gallery {comparison['gallery']}"
    )
    decimals = measure(comparison["measure"]).decimals
    print_table(HEADER, [_cells(row, decimals) for row in comparison["models"]])
    print(_method(comparison))
    for note in comparison["notes"]:
        print(f"note: {note}")


def _method(comparison: dict[str, Any]) -> str:
    return (
        f"difference to {comparison['models'][0]['model']}, over {comparison['targets']} targets, seeds averaged: paired bootstrap and paired\n"
        f"randomisation test of {comparison['samples']} samples each; p corrected by Holm for {len(comparison['models']) - 1} comparison(s)"
    )


def _write(out: Path, comparison: dict[str, Any], models: list[_Model], seed: int) -> None:
    discard(out, "comparison.json", "compare*.html")
    rows, decimals = comparison["models"], measure(comparison["measure"]).decimals
    keys = ("model", "mean", "deviation", "difference", "low", "high", "p", "p_corrected")
    flat = [{**row, **dict(zip(("low", "high"), row["interval"] or (None, None), strict=True))} for row in rows]
    write_text(out / "comparison.csv", csv_table(keys, [[row[key] for key in keys] for row in flat]))
    write_text(out / "comparison.tex", latex_table(HEADER, [_cells(row, decimals) for row in rows]))
    first = models[0]
    seen, missing = item_cards(first.seeds[0].metrics)
    for number, other in enumerate(models[1:], 1):
        row = rows[number]
        said = (
            f"{comparison['measure']} after turn {comparison['turn']}: A {rows[0]['mean']:.{decimals}f}, B {row['mean']:.{decimals}f}; "
            f"B minus A {row['difference']:+.{decimals}f}, {_surely(row, decimals)}"
        )
        several = any(len(model.seeds) > 1 for model in (first, other))
        seeds = ["These means are over several seeds; the dialogs, plots and tables below are of the first seed of each."] if several else []
        ours, theirs = first.seeds[0], other.seeds[0]
        write_compare_page(
            out / _page(number), (first.name, other.name), (ours.metrics, theirs.metrics), (ours.dialogs, theirs.dialogs),
            comparison["turn"], said, [*seeds, *missing, *comparison["notes"]], seen, seed=seed,
        )  # fmt: skip
    write_json(out / "comparison.json", comparison)


def _page(number: int) -> str:
    return "compare.html" if number == 1 else f"compare-{number}.html"


def _surely(row: dict[str, Any], decimals: int) -> str:
    low, high = row["interval"]
    return f"95 % interval {low:+.{decimals}f} to {high:+.{decimals}f}, p {row['p']:.4f} ({row['p_corrected']:.4f} corrected)."
