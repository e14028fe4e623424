"""Tables as text, CSV and LaTeX, and the labels and decimals of measures in them."""

import csv
import io
import re
from collections.abc import Sequence
from typing import Any

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
}
_LATEX |= {sign: "\\" + sign for sign in "&%$#_{}"}


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
