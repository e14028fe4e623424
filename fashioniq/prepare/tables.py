"""Rows of a retailer's table, read one at a time as text from CSV, Parquet or JSON Lines.

An unreadable row is returned with the reason, so that it can be reported. A problem with the whole table
raises UserError.
"""

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from fashioniq.files import UserError, reading, why


class MissingColumn(UserError):
    """A table lacks the column `column`."""

    def __init__(self, path: Path, column: str, names: Sequence[str]) -> None:
        super().__init__(f"{path} has no column {column!r}: found {', '.join(names) or 'an empty file'}")
        self.column, self.names = column, names


@dataclass(frozen=True)
class Row:
    """Values of a row by column, or the reason why it is unreadable.

    `line` counts from 1; for Parquet, it counts rows.
    """

    line: int
    values: dict[str, str]
    reason: str = ""


def read_rows(path: Path, needed: Sequence[str], wanted: Sequence[str] = ()) -> Iterator[Row]:
    """Rows of a table with the columns `needed`, and those of `wanted` that exist. Values are stripped.

    Fields of a CSV are separated by comma, semicolon or tab. Raises UserError if the file or a column is
    missing, a column occurs twice or contains lists, the suffix is unknown, the file is unreadable, or a CSV
    is not UTF-8.
    """
    if not path.exists():
        raise UserError(f"there is no file {path}: give the table of the catalog, {', '.join(_READERS)}")
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise UserError(f"{path}: expected a table with the suffix {', '.join(_READERS)}")
    try:
        with reading(path, "table", "give the table of the catalog"):
            yield from reader(path, needed, wanted)
    except csv.Error as error:
        raise UserError(f"cannot read the table {path}: {why(error)}") from error


def column_names(path: Path) -> list[str]:
    """Columns of a table; empty if no row is readable. Raises UserError as `read_rows`."""
    try:
        for _ in read_rows(path, ["\0"]):  # no column has this name
            pass
    except MissingColumn as error:
        return list(error.names)
    return []


def _present(path: Path, names: Sequence[str], needed: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Columns to read, without duplicates."""
    for column in needed:
        if column not in names:
            raise MissingColumn(path, column, names)
        if names.count(column) > 1:
            raise UserError(
                f"{path} has the column {column!r} {names.count(column)} times: rename all but one"
            )
    return list(dict.fromkeys([*needed, *(column for column in wanted if names.count(column) == 1)]))


def _read_csv(path: Path, needed: Sequence[str], wanted: Sequence[str]) -> Iterator[Row]:
    with open(path, encoding="utf-8-sig", newline="") as file:
        names, delimiter = _header(file, needed, "\t" if path.suffix.lower() == ".tsv" else ",;\t")
        position_of = {column: names.index(column) for column in _present(path, names, needed, wanted)}
        file.seek(0)
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        next(reader, None)
        while True:
            first = reader.line_num + 1
            try:
                fields = next(reader)
            except StopIteration:
                return
            except csv.Error as error:  # an unclosed quote extends over the following lines
                lost = f", lines {first} to {reader.line_num}" if reader.line_num > first else ""
                yield Row(first, {}, f"unreadable row: {why(error)}{lost}")
                continue
            if len(fields) == len(names):
                yield Row(
                    first, {column: fields[position].strip() for column, position in position_of.items()}
                )
            elif fields:
                yield Row(first, {}, f"unreadable row: expected {len(names)} fields, found {len(fields)}")


def _header(file: Any, needed: Sequence[str], delimiters: str) -> tuple[list[str], str]:
    """Column names, and the delimiter that yields the needed ones, or else the most names."""
    found: list[tuple[list[str], str]] = []
    for delimiter in delimiters:
        file.seek(0)
        try:
            names = [name.strip() for name in next(csv.reader(file, delimiter=delimiter, strict=True), [])]
        except csv.Error:  # quoted names with another delimiter
            continue
        if set(needed) <= set(names):
            return names, delimiter
        found.append((names, delimiter))
    if not found:
        raise csv.Error("its header line is not CSV")
    return max(found, key=lambda header: len(header[0]))


def _read_parquet(path: Path, needed: Sequence[str], wanted: Sequence[str]) -> Iterator[Row]:
    import pyarrow  # slow to import, rarely needed
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            schema = file.schema_arrow
            flat = [
                name
                for name in wanted
                if schema.names.count(name) == 1 and not pyarrow.types.is_nested(schema.field(name).type)
            ]
            columns = _present(path, schema.names, needed, flat)
            for column in columns:
                if pyarrow.types.is_nested(kind := schema.field(column).type):
                    raise UserError(
                        f"{path}: expected text, numbers or dates in the column {column!r}, found {kind}"
                    )
            lines = count(1)
            for batch in file.iter_batches(columns=columns):
                texts = [[_text(value) for value in batch.column(column).to_pylist()] for column in columns]
                for values in zip(*texts, strict=True):
                    yield Row(next(lines), dict(zip(columns, values, strict=True)))
    except UnicodeDecodeError:
        raise
    # ValueError and OverflowError: dates outside the range of Python
    except (pyarrow.ArrowException, ValueError, OverflowError) as error:
        reason = why(error)
        raise UserError(
            f"{path} is not valid Parquet ({reason}): download or create the file again"
        ) from error


def _read_json_lines(path: Path, needed: Sequence[str], wanted: Sequence[str]) -> Iterator[Row]:
    names: dict[str, None] = {}  # objects may have different keys
    dropped = 0
    with open(path, "rb") as file:
        for line, content in enumerate(file, 1):
            if not content.strip():
                continue
            try:
                row = _object(content)
                names.update(dict.fromkeys(row))
                values = {
                    column: _flat(column, row.get(column))
                    for column in (*needed, *(name for name in wanted if name in row))
                }
            except ValueError as error:
                dropped += 1
                yield Row(line, {}, f"unreadable row: {why(error)}")
            else:
                yield Row(line, values)
    if names or not dropped:
        _present(path, list(names), needed, ())


def _object(content: bytes) -> dict[str, Any]:
    try:
        row = json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ValueError("not UTF-8 text") from error
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    if not isinstance(row, dict):
        raise ValueError("expected a JSON object")
    return row


def _flat(column: str, value: Any) -> str:
    if isinstance(value, list | dict):
        raise ValueError(f"{column!r} holds {'a list' if isinstance(value, list) else 'an object'}")
    text = _text(value)
    if not text.isascii():
        text.encode()  # JSON can contain half a surrogate pair, which UTF-8 cannot; raises a ValueError
    return text


def _text(value: Any) -> str:
    """Value as in a CSV.

    Whole floats become integers, because integer columns with missing values are read as floats.
    """
    if value is None or value != value:  # NaN
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return (value.decode() if isinstance(value, bytes) else str(value)).strip()


_READERS: dict[str, Callable[[Path, Sequence[str], Sequence[str]], Iterator[Row]]] = {
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".parquet": _read_parquet,
    ".jsonl": _read_json_lines,
    ".ndjson": _read_json_lines,
}
