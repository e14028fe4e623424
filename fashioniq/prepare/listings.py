"""What a retailer says of products: the rows of a table, or the names of pictures where there is no table.

Each gives an Listing, or the reason why it gives none. What stands before the colon of a reason is what reasons are counted by.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fashioniq.data.attributes import add_word, find_attributes, place_value
from fashioniq.data.titles import NO_VALUE, TEXTS, values_of
from fashioniq.files import UserError
from fashioniq.prepare.archives import is_safe
from fashioniq.prepare.picking import Pictures, title_of
from fashioniq.prepare.tables import Row, read_rows


@dataclass(frozen=True)
class Source:
    """A table and the names of its columns, a folder or archive of pictures: as `fashioniq import-catalog --help` explains them.

    Raises UserError for parts that do not go together.
    """

    table: Path | None = None
    images: Path | None = None
    id: str | None = None
    title: str | None = None
    picture: str | None = None
    url: str | None = None
    where: str | None = None
    attributes: Sequence[str] = ()
    group: str | None = None

    def __post_init__(self) -> None:
        given = [name for name in ("id", "title", "picture", "url", "where", "attributes", "group") if getattr(self, name) not in (None, (), [])]
        if not self.table and given:
            raise UserError(f"--{given[0]} is about a column: give the table that has it with --table")
        if self.table and not self.id:
            raise UserError("--table needs --id, the column with the product's id")
        if (self.images is None) == (self.url is None):
            raise UserError("pictures come either from --images, a folder or an archive, or from --url, a column of --table: give one of them")
        if self.picture and self.url:
            raise UserError("--picture names files in --images: it has no use with --url")


@dataclass(frozen=True)
class Listing:
    """A product and its pictures, the preferred one first: files, or addresses. With a reason it is left out, and may have nothing else.

    `place` is where it is told of, {"line": 7} or {"file": "red/1.jpg"}; `values` are those of the columns kept with the title.
    """

    place: dict[str, Any]
    id: str
    reason: str = ""
    title: str = ""
    group: str = ""
    values: dict[str, str] = field(default_factory=dict)
    labels: list[list[str]] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)


def listings_of_pictures(pictures: Pictures) -> list[Listing]:
    """Every picture as a product: its name is the id, behind those of its folders, and the words of all are the title."""
    listings = []
    seen: set[str] = set()
    for path, folder in pictures.files.items():
        name, title = "-".join([*filter(None, folder.split("/")), path.stem]), title_of(folder, path.stem)
        place = {"file": f"{folder}/{path.name}" if folder else path.name}
        listings.append(Listing(place, name, _unfit(name, seen), title, name, values={}, labels=find_attributes(title), files=[path]))
        seen.add(name)
    return listings


def listings_of_table(source: Source, rows: Sequence[Row], ids: Collection[str], pictures: Pictures | None) -> list[Listing]:
    """A product of every row, with its files among `pictures`, or else with its addresses; `ids` are all that the table has."""
    listings = []
    seen: set[str] = set()
    for row in rows:
        name = row.values.get(source.id or "", "")
        files: list[Path] = []
        addresses: list[str] = []
        reason = row.reason or _unfit(name, seen)
        seen.add(name)
        if not reason and pictures:
            files, reason = _files(name, row.values[source.picture] if source.picture else None, pictures, ids)
        elif not reason:
            addresses, reason = _addresses(row.values[source.url or ""])
        listings.append(_listing(source, row, name, files, addresses) if not reason else Listing({"line": row.line}, name, reason))
    return listings


def select_rows(source: Source) -> tuple[list[Row], set[str]]:
    """The rows of the table that `where` selects, unreadable ones among them, and the ids of all rows.

    Raises UserError for a table that cannot be read, a missing column, a malformed `where`, and where it selects no row.
    """
    if not source.table or not source.id:
        return [], set()
    column, wanted = _parse_where(source.where)
    needed = [source.id, source.title, source.picture, source.url, source.group, column, *source.attributes]
    rows = list(read_rows(source.table, list(filter(None, needed)), TEXTS))
    selected = [row for row in rows if row.reason or not column or row.values[column] == wanted]
    if all(row.reason for row in selected):
        raise UserError(f"no row of {source.table} was selected: {_why_none(rows, column, wanted)}")
    return selected, {row.values[source.id] for row in rows if not row.reason}


def _parse_where(where: str | None) -> tuple[str, str]:
    if where is None:
        return "", ""
    column, equals, wanted = (part.strip() for part in where.partition("="))
    if not equals or not column:
        raise UserError(f'rows are selected by "column=value", as "category=shirt"; {where!r} is not of that form')
    return column, wanted


def _why_none(rows: list[Row], column: str, wanted: str) -> str:
    readable = [row for row in rows if not row.reason]
    if not readable:
        return f"it has no readable row{f', the first is an {rows[0].reason}' if rows else ''}"
    common = Counter(row.values[column] for row in readable).most_common(5)
    return f"{column!r} is never {wanted!r}, its most common values are {', '.join(repr(value) for value, _ in common)}"


def _unfit(name: str, seen: Collection[str]) -> str:
    """Why an id names no product; nothing where it does."""
    if not name:
        return "empty id"
    if not is_safe(name):
        return "unsafe id: it cannot be a file's name"
    return "repeated id" if name in seen else ""


def _files(name: str, named: str | None, pictures: Pictures, ids: Collection[str]) -> tuple[list[Path], str]:
    """A product's pictures, or the reason why there are none: the files that the table names, else those that carry its id."""
    if named is None:
        files = pictures.of(name, ids)
        clear = len({path.parent for path in files}) < 2
    else:
        found = [pictures.named(one) for one in _values(named)]
        files = [path for paths in found for path in paths]
        clear = all(len(paths) < 2 for paths in found)
    if not files:
        return [], "no picture" + (f": {named}" if named else "")
    return (files, "") if clear else ([], f"several pictures: {', '.join(str(path.relative_to(pictures.folder)) for path in files)}")


def _addresses(text: str) -> tuple[list[str], str]:
    """A product's addresses that can be asked for, or the reason why there are none."""
    given = _values(text)
    usable = [address for address in given if _is_web(address)]
    if given and not usable:
        return [], f"address that is not http or https: {given[0][:200]}"
    return usable, "" if usable else "no address"


def _is_web(address: str) -> bool:
    try:
        return urlsplit(address).scheme.lower() in ("http", "https") and bool(urlsplit(address).hostname)
    except ValueError:  # brackets that are no IPv6 address
        return False


def _values(text: str) -> list[str]:
    return [value for part in text.split("|") if (value := part.strip()).lower() not in NO_VALUE]


def _known(value: str) -> str:
    return "" if value.lower() in NO_VALUE else value


def _listing(source: Source, row: Row, name: str, files: list[Path], addresses: list[str]) -> Listing:
    title = _known(row.values[source.title]) if source.title else ""
    labels = find_attributes(title)
    kept = {column: row.values.get(column, "") for column in (*source.attributes, *filter(None, (source.group,)), *TEXTS)}
    kept = {column: value for column, value in kept.items() if _known(value)}
    for value in (value for column in source.attributes for value in values_of(kept, column)):
        add_word(labels, *place_value(value))
    group = kept.get(source.group, "") if source.group else ""
    return Listing({"line": row.line}, name, "", title, group or name, values=kept, labels=labels, files=files, addresses=addresses)
