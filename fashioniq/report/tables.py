"""Tables of measures: how a measure is named and rounded wherever people read it, and tables for spreadsheets and papers."""

import csv
import io
import re
from collections.abc import Sequence
from typing import Any

LABELS = {"mean_rank": "mean rank", "median_rank": "median rank"}
RANKS_COUNT = "Mean and median rank start at 0 (best)."
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "–": "--",
}
_LATEX |= {sign: "\\" + sign for sign in "&%$#_{}"}


def label(measure: str) -> str:
    """A measure's name as people read it."""
    return LABELS.get(measure, measure)


def rounded(measure: str, value: float | None, decimals: int = 1) -> str:
    """A measure's value as people read it: reciprocal ranks with three decimals, the others with `decimals`; – for none."""
    if value is None:
        return "–"
    return (
        f"{value:,.0f}"
        if measure in ("turn", "round")
        else f"{value:,.{3 if measure == 'MRR' else decimals}f}"
    )


def success_line(success: dict[str, Any]) -> str:
    """In words, how many dialogs found their target and how soon."""
    soon = (
        f", after {success['mean_turns']:.2f} turns on average" if success["mean_turns"] is not None else ""
    )
    return f"{success['percent']:.2f} % of the dialogs ranked their target first within {success['within']} turns{soon}"


def csv_table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table as comma-separated values; None is an empty cell."""
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows([header, *rows])
    return written.getvalue()


def text_table(header: Sequence[str], sections: Sequence[Sequence[Sequence[str]]], left: int = 1) -> str:
    """A table for a terminal or a letter, an empty line between sections of rows; the `left` first columns to the left, the others to the right."""
    widths = [
        max(map(len, column))
        for column in zip(header, *(row for section in sections for row in section), strict=True)
    ]

    def line(row: Sequence[str]) -> str:
        cells = [
            cell.ljust(width) if place < left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(cells).rstrip() + "\n"

    return line(header) + "".join("\n" + "".join(map(line, section)) for section in sections)


def latex_table(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """A table as a LaTeX tabular that needs no package: the `left` first columns to the left, the others to the right."""
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
