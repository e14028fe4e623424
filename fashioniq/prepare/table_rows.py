"""Rows of a table, and the text of a cell."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from fashioniq.data.words import composed
from fashioniq.files import UserError


class MissingColumn(UserError):
    """A table lacks the column `column`."""

    def __init__(self, path: Path, column: str, names: Sequence[str]) -> None:
        super().__init__(f"{path} has no column {column!r}: found {', '.join(names) or 'an empty file'}")
        self.column, self.names = column, names


@dataclass(frozen=True)
class Row:
    """Values of a row by column, or the reason why it is unreadable.

    `line` counts from 1; for Excel and Parquet, it counts rows.
    """

    line: int
    values: dict[str, str]
    reason: str = ""


def check_columns(
    path: Path, names: Sequence[str], needed: Sequence[str], wanted: Sequence[str]
) -> dict[str, int]:
    """Positions of the columns to read, by the names that were asked for."""
    names = list(map(composed, names))
    for column in needed:
        if not (count := names.count(composed(column))):
            raise MissingColumn(path, column, names)
        if count > 1:
            raise UserError(f"{path} has the column {column!r} {count} times: rename all but one")
    found = [*needed, *(column for column in wanted if names.count(composed(column)) == 1)]
    return {column: names.index(composed(column)) for column in found}


def cell_text(value: Any) -> str:
    """Value as in a CSV.

    Whole floats become integers, because integer columns with missing values are read as floats. Numbers with three
    decimals get a fourth, because "19.635" in a CSV can also be a price with a separator of thousands.
    """
    if value is None or value != value:  # NaN
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, float | Decimal):
        return re.sub(r"(\.\d{3})$", r"\g<1>0", str(value))
    return (value.decode() if isinstance(value, bytes) else str(value)).strip()
