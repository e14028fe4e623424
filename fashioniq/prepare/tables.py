"""The rows of a retailer's table, one at a time and as text: CSV, Parquet or JSON lines, told apart by the suffix.

A row that cannot be read comes with the reason, so that it can be listed; what makes the whole table useless is a UserError.
"""

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from fashioniq.files import UserError, reading


@dataclass(frozen=True)
class Row:
    """The values of a row by column, or the reason why it could not be read. `line` is that of the file, in Parquet the row, from 1."""

    line: int
    values: dict[str, str]
    reason: str = ""


def read_rows(path: Path, needed: Sequence[str], wanted: Sequence[str] = ()) -> Iterator[Row]:
    """The rows of a table with the columns `needed`, and with those of `wanted` that it has; values have no spaces around them.

    A CSV's fields may be apart by comma, semicolon or tab. Raises UserError for a missing file or column, a column that is there twice
    or holds lists, another suffix, an unreadable file, and a CSV in another encoding than UTF-8.
    """
    if not path.exists():
        raise UserError(f"there is no file {path}: give the table of the catalog, {', '.join(_READERS)}")
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise UserError(f"{path} is no table that can be read: its name should end in {', '.join(_READERS)}")
    try:
        with reading(path, "table", "give the table of the catalog"):
            yield from reader(path, needed, wanted)
    except csv.Error as error:
        raise UserError(f"cannot read the table {path}: {' '.join(str(error).split())}") from error


def _present(path: Path, names: Sequence[str], needed: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """The columns to take, each once, of those that the table has."""
    for column in needed:
        if column not in names:
            raise UserError(f"{path} has no column {column!r}: it has {', '.join(names) or 'none, the file is empty'}")
        if names.count(column) > 1:
            raise UserError(f"{path} has the column {column!r} {names.count(column)} times: rename all but one")
    return list(dict.fromkeys([*needed, *(column for column in wanted if names.count(column) == 1)]))


def _read_csv(path: Path, needed: Sequence[str], wanted: Sequence[str]) -> Iterator[Row]:
    with open(path, encoding="utf-8-sig", newline="") as file:
        names, delimiter = _header(file, needed, "\t" if path.suffix.lower() == ".tsv" else ",;\t")
        places = {column: names.index(column) for column in _present(path, names, needed, wanted)}
        file.seek(0)
        reader = csv.reader(file, delimiter=delimiter, strict=True)
        next(reader, None)
        while True:
            first = reader.line_num + 1
            try:
                fields = next(reader)
            except StopIteration:
                return
            except csv.Error as error:  # an open quote swallows the lines below it
                lost = f", lines {first} to {reader.line_num}" if reader.line_num > first else ""
                yield Row(first, {}, f"unreadable row: {error}{lost}")
                continue
            if len(fields) == len(names):
                yield Row(first, {column: fields[place].strip() for column, place in places.items()})
            elif fields:
                yield Row(first, {}, f"unreadable row: expected {len(names)} fields, found {len(fields)}")


def _header(file: Any, needed: Sequence[str], delimiters: str) -> tuple[list[str], str]:
    """The names of the columns, and the delimiter that gives the needed ones; where none does, the one that gives most names."""
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
    import pyarrow  # slow to import, seldom needed
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            schema = file.schema_arrow
            flat = [name for name in wanted if schema.names.count(name) == 1 and not pyarrow.types.is_nested(schema.field(name).type)]
            columns = _present(path, schema.names, needed, flat)
            for column in columns:
                if pyarrow.types.is_nested(kind := schema.field(column).type):
                    raise UserError(f"{path}: the column {column!r} holds {kind}: only columns of text, numbers and dates can be used")
            lines = count(1)
            for batch in file.iter_batches(columns=columns):
                texts = [[_text(value) for value in batch.column(column).to_pylist()] for column in columns]
                for values in zip(*texts, strict=True):
                    yield Row(next(lines), dict(zip(columns, values, strict=True)))
    except UnicodeDecodeError:
        raise
    except (pyarrow.ArrowException, ValueError, OverflowError) as error:  # the last two of dates that Python does not know
        raise UserError(f"{path} is not whole Parquet ({' '.join(str(error).split())[:160]}): get or make the file again") from error


def _read_json_lines(path: Path, needed: Sequence[str], wanted: Sequence[str]) -> Iterator[Row]:
    names: dict[str, None] = {}  # each object may have others
    dropped = 0
    with open(path, "rb") as file:
        for line, content in enumerate(file, 1):
            if not content.strip():
                continue
            try:
                row = _object(content)
                names.update(dict.fromkeys(row))
                values = {column: _flat(column, row.get(column)) for column in (*needed, *(name for name in wanted if name in row))}
            except ValueError as error:
                dropped += 1
                yield Row(line, {}, f"unreadable row: {error}")
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
        text.encode()  # JSON can spell half characters, which no file can hold; UnicodeEncodeError is a ValueError
    return text


def _text(value: Any) -> str:
    """A value as a CSV would have it. A whole float loses its point: numbers of a column with gaps are kept as floats."""
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
