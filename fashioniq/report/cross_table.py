"""Table of all combinations of users and retrievers: measures per turn and averaged, over seeds."""

from collections.abc import Callable, Sequence
from statistics import fmean, stdev
from typing import Any

from fashioniq.data.evaluations import TurnMetrics
from fashioniq.report.tables import csv_table, label, latex_table, rounded, text_table

PAPER_MEASURES = ("P", "R@10", "R@50")  # measures of the paper's table; the CSV file has all
NAMES = ("attributes", "user", "retriever")


def cross_row(
    attributes: str, user: str, retriever: str, evaluations: Sequence[TurnMetrics]
) -> dict[str, Any]:
    """Mean and standard deviation of every measure over seeds, per turn and averaged over turns.

    `evaluations` has one element per seed.
    """
    return {
        **dict(zip(NAMES, (attributes, user, retriever), strict=True)),
        "seeds": len(evaluations),
        **_over_seeds(evaluations, fmean),
        "deviation": _over_seeds(evaluations, stdev) if len(evaluations) > 1 else None,
    }


def _over_seeds(
    evaluations: Sequence[TurnMetrics], statistic: Callable[[list[float]], float]
) -> dict[str, Any]:
    measures = list(evaluations[0].average or {})

    def over_seeds(seeds: Sequence[Any]) -> dict[str, float]:
        return {name: statistic([one[name] for one in seeds]) for name in measures}

    by_turn = zip(*(one.turns for one in evaluations), strict=True)
    return {
        "turns": [{"turn": turns[0]["turn"], **over_seeds(turns)} for turns in by_turn],
        "average": over_seeds([one.average or {} for one in evaluations]),
    }


def cross_text(rows: Sequence[dict[str, Any]]) -> str:
    """Table as plain text with a section for each measure."""
    header, sections = _header_and_sections(rows)
    return text_table(header, sections, left=1 + len(NAMES))


def cross_latex(rows: Sequence[dict[str, Any]]) -> str:
    """Table as LaTeX."""
    header, sections = _header_and_sections(rows)
    return latex_table(header, [row for section in sections for row in section], left=1 + len(NAMES))


def cross_csv(rows: Sequence[dict[str, Any]]) -> str:
    """All measures as CSV, one per line, not rounded."""
    lines = [
        [measure, *(row[name] for name in NAMES), column, means[measure], spread.get(measure), row["seeds"]]
        for row in rows
        for column, means, spread in _columns(row)
        for measure in row["average"]
    ]
    return csv_table(("measure", *NAMES, "turn", "mean", "deviation", "seeds"), lines)


def _columns(row: dict[str, Any]) -> list[tuple[str, dict[str, float], dict[str, float]]]:
    """Name, measures and deviations of each column: one per turn, then the average over turns."""
    spread = row["deviation"] or {"turns": [{} for _ in row["turns"]], "average": {}}
    turns = [
        (f"turn {turn['turn']}", turn, other)
        for turn, other in zip(row["turns"], spread["turns"], strict=True)
    ]
    return [*turns, ("mean", row["average"], spread["average"])]


def _header_and_sections(rows: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[list[str]]]]:
    header = ["measure", *NAMES, *(column for column, *_ in _columns(rows[0]))]
    sections = [
        [[label(name), *(row[key] for key in NAMES), *_cells(row, name)] for row in rows]
        for name in PAPER_MEASURES
    ]
    return header, sections


def _cells(row: dict[str, Any], name: str) -> list[str]:
    return [
        rounded(name, means[name]) + (f" ± {rounded(name, spread[name])}" if spread else "")
        for _, means, spread in _columns(row)
    ]
