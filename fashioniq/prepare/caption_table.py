"""CSV files of pairs to caption, for people who work in a spreadsheet."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from fashioniq.data.catalog import SPLITS, Catalog
from fashioniq.files import UserError, read_text, write_text
from fashioniq.prepare.caption_files import CaptionError, CaptionFiles, Written, checked_caption, checked_name
from fashioniq.prepare.pairs_to_caption import Comparison

COLUMNS = (
    "split",
    "candidate",
    "target",
    "candidate_title",
    "target_title",
    "candidate_picture",
    "target_picture",
    "caption",
    "person",
)
_NEEDED = ("split", "candidate", "target", "caption")
_FORMULA = tuple("=+-@\t\r")  # a spreadsheet evaluates text that starts with one of these
_UNNAMED = "unnamed"  # person of a row without one


class Imported(NamedTuple):
    """Number of captions saved, of rows without one, and of pairs with a caption by people before."""

    saved: int
    empty: int
    before: int


def export_pairs(catalog: Catalog, pairs: Sequence[Comparison], path: Path) -> None:
    """Write pairs with titles, picture paths relative to the catalog, and empty captions.

    Raises UserError if the file exists, as it may contain captions, or cannot be written.
    """
    if path.exists():
        raise UserError(f"{path} exists and may contain captions; give --export a new file")
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    for pair in pairs:
        both = (pair.candidate, pair.target)
        titles = [catalog.titles.get(name, "") for name in both]
        pictures = [
            catalog.images[name].relative_to(catalog.root).as_posix() if name in catalog.images else ""
            for name in both
        ]
        cells = (pair.split, *both, *titles, *pictures, "", "")
        table.writerow(["'" + cell if cell.startswith(_FORMULA) else cell for cell in cells])
    write_text(path, "\ufeff" + text.getvalue())  # without a byte order mark, Excel does not read UTF-8


def import_captions(catalog: Catalog, path: Path) -> Imported:
    """Save the captions of a CSV file, all or none.

    Pairs with a caption by people keep it. Raises UserError that names the line of an unusable row.
    """
    written, empty = _read(catalog, path)
    files = CaptionFiles(catalog)
    with files.locked():
        before = {pair for split in SPLITS for pair in files.by_people(split)}
        new = [one for one in written if one.pair not in before]
        if new:
            files.add(new)
    return Imported(len(new), empty, len(written) - len(new))


def _read(catalog: Catalog, path: Path) -> tuple[list[Written], int]:
    """Captions in a CSV file, and the number of rows without one."""
    text = read_text(path, "CSV file", "create it with --export")
    delimiter = max(
        ",;\t", key=text.partition("\n")[0].count
    )  # spreadsheets save semicolons in countries with decimal commas
    table = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    written: dict[Comparison, Written] = {}
    empty = 0
    try:
        if missing := [name for name in _NEEDED if name not in (table.fieldnames or ())]:
            raise UserError(f"{path} lacks the column {missing[0]}; expected {', '.join(COLUMNS)}")
        if double := [name for name in COLUMNS if (table.fieldnames or []).count(name) > 1]:
            raise UserError(f"{path} has the column {double[0]} more than once; remove the others")
        for row in table:
            where = f"{path}, line {table.line_num}"
            if None in row:  # an unquoted separator would cut the caption
                raise UserError(
                    f"{where}: expected as many cells as in the header, found more; quote the caption"
                )
            cells = {name: (row.get(name) or "").strip() for name in COLUMNS}
            if not cells["caption"]:
                empty += 1
                continue
            one = _written(catalog, cells, where)
            if one.pair in written:
                raise UserError(
                    f"{where}: the pair {one.pair.candidate}, {one.pair.target} occurs twice; remove one of its rows"
                )
            written[one.pair] = one
    except csv.Error as error:
        raise UserError(
            f"{path}, line {table.reader.line_num}: not valid CSV ({error}); save the file again"
        ) from error
    return list(written.values()), empty


def _written(catalog: Catalog, cells: dict[str, str], where: str) -> Written:
    """Caption in a row. Raises UserError if the row is unusable."""
    split = cells["split"]
    if split not in SPLITS:
        raise UserError(f"{where}: expected a split, train, val or test, found {split!r}")
    ids = set(catalog.ids(split))
    candidate, target = (_unquoted(cells[name], ids) for name in ("candidate", "target"))
    for column, name in (("candidate", candidate), ("target", target)):
        if name not in ids:
            raise UserError(
                f"{where}: the {column} {name!r} is not in the {split} split of {catalog.category}; "
                "restore the id, which a spreadsheet may have changed to a number"
            )
    if candidate == target:
        raise UserError(f"{where}: candidate and target are both {target!r}; give two products")
    try:
        person = checked_name(_unquoted(cells["person"], ()) or _UNNAMED)
        return Written(Comparison(split, candidate, target), checked_caption(cells["caption"]), person)
    except CaptionError as error:
        raise UserError(f"{where}: {error}") from error


def _unquoted(cell: str, ids: set[str] | tuple[()]) -> str:
    return cell if cell in ids else cell.removeprefix("'")
