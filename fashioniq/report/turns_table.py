"""Table of several models: measures after every turn and averaged over turns (Fashion IQ, table 6)."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fashioniq.report.tables import csv_table, label, latex_table, rounded, text_table

Figures = Mapping[str, NDArray[np.float64]]  # by measure: S×T, a value for each seed after each turn


def turns_text(models: Mapping[str, Figures], unit: str = "turn", first: int = 1) -> str:
    """Table as plain text with a section for each measure; with several seeds, mean ± deviation.

    Columns are named by `unit` and numbered from `first`.
    """
    header, sections = _header_and_sections(models, unit, first)
    return text_table(header, sections, left=2)


def turns_latex(models: Mapping[str, Figures], unit: str = "turn", first: int = 1) -> str:
    """Table as LaTeX."""
    header, sections = _header_and_sections(models, unit, first)
    return latex_table(header, [row for section in sections for row in section], left=2)


def turns_csv(models: Mapping[str, Figures], unit: str = "turn", first: int = 1) -> str:
    """Table as CSV, one figure per line, not rounded."""
    lines = [
        [
            measure,
            model,
            turn,
            value_S.mean(),
            value_S.std(ddof=1) if len(value_S) > 1 else None,
            len(value_S),
        ]
        for model, figures in models.items()
        for measure, value_ST in figures.items()
        for turn, value_S in _columns(value_ST, unit, first)
    ]
    return csv_table(("measure", "model", unit, "mean", "deviation", "seeds"), lines)


def _columns(value_ST: NDArray[np.float64], unit: str, first: int) -> list[tuple[str, NDArray[np.float64]]]:
    """Name and values of each column: one per turn, then the average over turns."""
    turns = [(f"{unit} {number}", value_S) for number, value_S in enumerate(value_ST.T, first)]
    return [*turns, ("mean", value_ST.mean(1))]


def _header_and_sections(
    models: Mapping[str, Figures], unit: str, first: int
) -> tuple[list[str], list[list[list[str]]]]:
    measured = next(iter(models.values()))
    columns = [name for name, _ in _columns(next(iter(measured.values())), unit, first)]
    sections = [
        [[label(measure), model, *_cells(figures[measure], measure)] for model, figures in models.items()]
        for measure in measured
    ]
    return ["measure", "model", *columns], sections


def _cells(value_ST: NDArray[np.float64], measure: str) -> Sequence[str]:
    return [
        rounded(measure, value_S.mean())
        + (f" ± {rounded(measure, value_S.std(ddof=1))}" if len(value_S) > 1 else "")
        for value_S in (*value_ST.T, value_ST.mean(1))
    ]
