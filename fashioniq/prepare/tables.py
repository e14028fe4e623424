"""Rows of a retailer's table, read one at a time as text from CSV, Excel, Parquet or JSON Lines.

An unreadable row is returned with the reason, so that it can be reported. A problem with the whole table
raises UserError.
"""

import codecs
import csv
import io
import json
import zipfile
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from fashioniq.data.words import composed
from fashioniq.files import UserError, reading, why
from fashioniq.prepare.table_rows import MissingColumn, Row, cell_text, check_columns

_MOST_BYTES = 1_000_000_000  # of an unpacked workbook


def read_rows(
    path: Path,
    needed: Sequence[str],
    wanted: Sequence[str] = (),
    *,
    encoding: str | None = None,
    sheet: str | None = None,
) -> Iterator[Row]:
    """Rows of a table with the columns `needed`, and those of `wanted` that exist. Values are stripped.
    Names may be given in another Unicode form than the table's.

    Fields of a CSV are separated by comma, semicolon or tab; `encoding` is UTF-8 by default. `sheet` is the
    sheet of an .xlsx, by default the first. Raises UserError if the file, a column or the sheet is missing, a
    column occurs twice or contains lists, the suffix is unknown, the file is unreadable, or a CSV has another
    encoding.
    """
    if not path.exists():
        raise UserError(f"there is no file {path}: give the table of the catalog, {', '.join(_READERS)}")
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise UserError(f"{path}: expected a table with the suffix {', '.join(_READERS)}")
    if encoding and reader is not _read_csv:
        raise UserError(f"--encoding is for .csv and .tsv tables: omit it for {path}")
    if sheet and reader is not _read_workbook:
        raise UserError(f"--sheet is for .xlsx tables: omit it for {path}")
    option = _text_encoding(encoding or "utf-8") if reader is _read_csv else sheet
    try:
        with reading(path, "table", "give the table of the catalog"):
            yield from reader(path, needed, wanted, option)
    except csv.Error as error:
        raise UserError(f"cannot read the table {path}: {why(error)}") from error


def column_names(path: Path, encoding: str | None = None, sheet: str | None = None) -> list[str]:
    """Columns of a table; empty if no row is readable. Raises UserError as `read_rows`."""
    try:
        for _ in read_rows(path, ["\0"], encoding=encoding, sheet=sheet):  # no column has this name
            pass
    except MissingColumn as error:
        return list(error.names)
    return []


def _text_encoding(name: str) -> str:
    """Name of an encoding; for UTF-8, the one that skips a byte order mark. Raises UserError if unknown."""
    try:
        codec = codecs.lookup(name)
        io.TextIOWrapper(io.BytesIO(), encoding=name)  # refuses codecs that do not decode to text
    except (LookupError, ValueError) as error:
        raise UserError(
            f"--encoding: expected an encoding such as utf-8, cp1252, latin-1 or utf-16, found {name!r}"
        ) from error
    return "utf-8-sig" if codec.name == "utf-8" else codec.name


def _read_csv(
    path: Path, needed: Sequence[str], wanted: Sequence[str], encoding: str | None
) -> Iterator[Row]:
    try:
        yield from _read_text(path, needed, wanted, encoding)
    except UnicodeError as error:
        expected = "UTF-8" if encoding == "utf-8-sig" else encoding
        with open(path, "rb") as file:
            has_mark = file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
        likely = "utf-16 for Unicode text" if has_mark else "cp1252 for tables"
        raise UserError(
            f"the table {path} is not {expected} text ({why(error)}): give its --encoding, such as {likely} "
            "from Excel, or save it in UTF-8"
        ) from error


def _read_text(
    path: Path, needed: Sequence[str], wanted: Sequence[str], encoding: str | None
) -> Iterator[Row]:
    with open(path, encoding=encoding, newline="") as file:
        names, delimiter = _header(file, needed, "\t" if path.suffix.lower() == ".tsv" else ",;\t")
        position_of = check_columns(path, names, needed, wanted)
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
            # with --encoding utf-16-le, the byte order mark is part of the text
            names = [
                name.removeprefix("\ufeff").strip()
                for name in next(csv.reader(file, delimiter=delimiter, strict=True), [])
            ]
        except csv.Error:  # quoted names with another delimiter
            continue
        if {*map(composed, needed)} <= {*map(composed, names)}:
            return names, delimiter
        found.append((names, delimiter))
    if not found:
        raise csv.Error("its header line is not CSV")
    return max(found, key=lambda header: len(header[0]))


def _read_workbook(
    path: Path, needed: Sequence[str], wanted: Sequence[str], sheet: str | None
) -> Iterator[Row]:
    """Rows of a sheet of an Excel workbook, the first by default. Formulas have their last computed value."""
    try:
        import openpyxl  # an optional package
    except ImportError as error:
        raise UserError(
            f"{path}: .xlsx tables need the package openpyxl; pip install 'fashioniq[xlsx]', or save it as .csv"
        ) from error
    try:
        with zipfile.ZipFile(path) as packed:
            if sum(member.file_size for member in packed.infolist()) > _MOST_BYTES:
                raise UserError(f"{path} unpacks to more than {_MOST_BYTES:,} bytes: save the table as .csv")
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        names = [found.title for found in book.worksheets]
        if not names or (sheet and sheet not in names):
            wish = f"no sheet {sheet!r}" if sheet else "no sheet with rows"
            raise UserError(f"{path} has {wish}: found {', '.join(names) or 'none'}")
        found = book[sheet or names[0]]
        found.reset_dimensions()  # some programs write wrong ones
        yield from _rows_of_cells(path, found.iter_rows(values_only=True), needed, wanted)
    except (UserError, OSError):
        raise
    except Exception as error:  # openpyxl raises errors of many kinds for damaged files
        raise UserError(
            f"{path} is not a valid .xlsx workbook ({why(error)}): save it again, or as .csv"
        ) from error


def _rows_of_cells(
    path: Path, cells: Iterator[Sequence[Any]], needed: Sequence[str], wanted: Sequence[str]
) -> Iterator[Row]:
    names = [cell_text(value) for value in next(cells, ())]
    while names and not names[-1]:
        names.pop()
    position_of = check_columns(path, names, needed, wanted)
    for line, row in enumerate(cells, 2):
        values = [cell_text(value) for value in row[: len(names)]]
        if any(values):
            values += [""] * (len(names) - len(values))
            yield Row(line, {column: values[position] for column, position in position_of.items()})


def _read_parquet(path: Path, needed: Sequence[str], wanted: Sequence[str], _: None) -> Iterator[Row]:
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
            position_of = check_columns(path, schema.names, needed, flat)
            for column, position in position_of.items():
                if pyarrow.types.is_nested(kind := schema.field(position).type):
                    raise UserError(
                        f"{path}: expected text, numbers or dates in the column {column!r}, found {kind}"
                    )
            lines = count(1)
            names = [schema.names[position] for position in position_of.values()]
            for batch in file.iter_batches(columns=names):
                texts = [[cell_text(value) for value in batch.column(name).to_pylist()] for name in names]
                for values in zip(*texts, strict=True):
                    yield Row(next(lines), dict(zip(position_of, values, strict=True)))
    except UnicodeDecodeError:
        raise
    # ValueError and OverflowError: dates outside the range of Python
    except (pyarrow.ArrowException, ValueError, OverflowError) as error:
        raise UserError(
            f"{path} is not valid Parquet ({why(error)}): download or create the file again"
        ) from error


def _read_json_lines(path: Path, needed: Sequence[str], wanted: Sequence[str], _: None) -> Iterator[Row]:
    names: dict[str, None] = {}  # objects may have different keys
    dropped = 0
    with open(path, "rb") as file:
        for line, content in enumerate(file, 1):
            if not content.strip():
                continue
            try:
                row = {composed(name): value for name, value in _object(content).items()}
                names.update(dict.fromkeys(row))
                values = {
                    column: _flat(column, row.get(composed(column)))
                    for column in (*needed, *(name for name in wanted if name in row))
                }
            except ValueError as error:
                dropped += 1
                yield Row(line, {}, f"unreadable row: {why(error)}")
            else:
                yield Row(line, values)
    if names or not dropped:
        check_columns(path, list(names), needed, ())


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
    text = cell_text(value)
    if not text.isascii():
        text.encode()  # JSON can contain half a surrogate pair, which UTF-8 cannot; raises a ValueError
    return text


_READERS: dict[str, Callable[[Path, Sequence[str], Sequence[str], Any], Iterator[Row]]] = {
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".xlsx": _read_workbook,
    ".parquet": _read_parquet,
    ".jsonl": _read_json_lines,
    ".ndjson": _read_json_lines,
}
