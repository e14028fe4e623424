"""Tables as text, CSV and LaTeX, the labels and decimals of measures in them, and the table of several models: measures
after every turn and averaged over turns (Fashion IQ, table 6).
"""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from tabulate import SEPARATING_LINE, tabulate

from fashioniq.data.evaluations import Success
from fashioniq.files import plain
from fashioniq.metrics.measures import measure

WIDE = 200  # characters per line if the output is not a terminal
RANKS_COUNT = "Mean and median rank start at 0 (best)."
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "–": "--",
    **{sign: "\\" + sign for sign in "&%$#_{}"},
}
Figures = Mapping[str, NDArray[np.float64]]  # by measure: S×T, a value for each seed after each turn


def label(name: str) -> str:
    """Label of a measure; any other name is its own label."""
    try:
        return measure(name).label
    except ValueError:
        return name


def rounded(name: str, value: float | None) -> str:
    """Value with the decimals of its measure, two for an unknown measure; – for None."""
    if value is None:
        return "–"
    try:
        decimals = measure(name).decimals
    except ValueError:
        decimals = 0 if name in ("turn", "round") else 2
    return f"{value:,.{decimals}f}"


def one_decimal(value: float | None) -> str:
    """Percentage with one decimal; – for None."""
    return "–" if value is None else f"{value:.1f}"


def success_line(success: Success) -> str:
    """Line about the share of dialogs that ranked their target first, and after how many turns."""
    soon = f", after {success.mean_turns:.2f} turns on average" if success.mean_turns is not None else ""
    return f"{success.percent:.2f} % of the dialogs ranked their target first within {success.within} turns{soon}"


def ten_of(words: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Ten best and ten worst words by average precision; no word is in both lists."""
    ordered = sorted((word for word in words if word["AP"] is not None), key=lambda word: -word["AP"])
    best = ordered[: min(10, -(-len(ordered) // 2))]
    return best, ordered[len(best) :][:-11:-1]


def csv_table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Table as comma-separated values; None is an empty cell."""
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows([header, *rows])
    return written.getvalue()


def text_table(header: Sequence[str], sections: Sequence[Sequence[Sequence[str]]], left: int = 1) -> str:
    """Table as plain text with an empty line before each section.

    The first `left` columns are left-aligned.
    """
    # The header is passed as a row, since tabulate would widen its columns.
    rows = [header, *(row for section in sections for row in (SEPARATING_LINE, *section))]
    alignment = ["left"] * left + ["right"] * (len(header) - left)
    return tabulate(rows, tablefmt="plain", colalign=alignment, disable_numparse=True) + "\n"


def print_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    left: int = 1,
    title: str = "",
    last: Sequence[str] | None = None,
) -> None:
    """Print a table. The first `left` columns are left-aligned, the others right; a line precedes the `last`
    row.
    """
    terminal = Console()
    table = Table(
        box=SIMPLE_HEAD.substitute(terminal.options),  # ASCII where the output is not UTF-8
        padding=(0, 1, 0, 0),
        show_edge=False,
        title=title or None,
        title_justify="left",
    )
    for number, name in enumerate(header):
        text = number < left
        table.add_column(name, justify="left" if text else "right", no_wrap=not text, overflow="fold")
    for row in rows:
        table.add_row(*map(plain, row))
    if last is not None:
        table.add_section()
        table.add_row(*last)
    written = io.StringIO()
    Console(
        file=written,
        force_terminal=terminal.is_terminal,
        width=terminal.width if terminal.is_terminal else WIDE,  # in a file, long lines are not broken
        markup=False,
        emoji=False,
        highlight=False,
    ).print(table)
    # A console that writes to a closed pipe exits with code 1; print raises BrokenPipeError.
    print(written.getvalue(), end="")


def latex_table(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Table as a LaTeX tabular without packages; the first `left` columns are left-aligned."""
    first, *others = (" & ".join(map(_latex, row)) + r" \\" for row in (header, *rows))
    columns = "l" * left + "r" * (len(header) - left)
    return "\n".join(
        [
            rf"\begin{{tabular}}{{{columns}}}",
            r"\hline",
            first,
            r"\hline",
            *others,
            r"\hline",
            r"\end{tabular}",
            "",
        ]
    )


def _latex(cell: str) -> str:
    return re.sub(r"(?<!\w)-(?=\d)", "$-$", "".join(_LATEX.get(sign, sign) for sign in cell))


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
