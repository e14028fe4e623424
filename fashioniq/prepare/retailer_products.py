"""Products in a retailer's catalog: the rows of a table, or the names of pictures if there is no table.

Each row or picture becomes a Listing with data, or with the reason for leaving it out. Reasons are counted by
the text before the colon.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fashioniq.data.attributes import add_word, find_attributes, own_words, place_value, word_of_type
from fashioniq.data.languages import ENGLISH, Language, language
from fashioniq.data.offers import Offer
from fashioniq.data.titles import NO_VALUE, TEXTS, values_of
from fashioniq.data.words import composed
from fashioniq.files import UserError
from fashioniq.prepare.archives import is_safe, safe_id
from fashioniq.prepare.html_texts import without_html
from fashioniq.prepare.offers import joined
from fashioniq.prepare.picture_files import PictureFolder, title_of
from fashioniq.prepare.source import ImportSource
from fashioniq.prepare.table_rows import MissingColumn, Row
from fashioniq.prepare.tables import read_rows

REPEATED = "repeated id"
_BETWEEN_ADDRESSES = re.compile(r"[\s,;]+(?=https?://)", re.IGNORECASE)  # WooCommerce writes commas


@dataclass(frozen=True)
class Listing:
    """A product and its pictures, the preferred one first, as files or addresses.

    With a `reason`, the product is left out and the fields after it may be empty. `place` is its position in
    the input, {"line": 7} or {"file": "red/1.jpg"}. `values` are the columns stored with the title. `unread` are
    the reasons for parts of the offer that could not be read.
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
    offer: Offer = field(default_factory=Offer)
    unread: list[str] = field(default_factory=list)


def listings_of_pictures(pictures: PictureFolder, speech: Language = ENGLISH) -> list[Listing]:
    """One product per picture: the id is its path joined by hyphens, and the title the words in it."""
    listings = []
    seen: set[str] = set()
    for path, folder in pictures.files.items():
        name = safe_id("-".join([*filter(None, folder.split("/")), path.stem]))
        title = title_of(folder, path.stem)
        place = {"file": f"{folder}/{path.name}" if folder else path.name}
        listings.append(
            Listing(
                place,
                name,
                _unfit(name, seen),
                title,
                name,
                values={},
                labels=find_attributes(title, own_words(speech)),
                files=[path],
            )
        )
        seen.add(composed(name))
    return listings


def listings_of_table(
    source: ImportSource, rows: Sequence[Row], ids: Collection[str], pictures: PictureFolder | None
) -> list[Listing]:
    """One product per row, with files among `pictures` or with addresses. `ids` are all ids in the table, composed.

    Of several rows with one id, the first is the product; the offers of the others are joined with its own.
    """
    listings = []
    seen: set[str] = set()
    further: dict[str, list[Row]] = {}
    for row in rows:
        given = row.values.get(source.id or "", "")
        name = safe_id(given)
        files: list[Path] = []
        addresses: list[str] = []
        reason = row.reason or _unfit(name, seen)
        seen.add(composed(name))
        if reason == REPEATED:
            further.setdefault(composed(name), []).append(row)
        if not reason and pictures:
            files, reason = _files(
                given, row.values[source.picture] if source.picture else None, pictures, ids
            )
        elif not reason:
            addresses, reason = _addresses(row.values[source.url or ""])
        listings.append(
            _listing(source, row, name, files, addresses)
            if not reason
            else Listing({"line": row.line}, name, reason)
        )
    return [
        one if one.reason else _with_offers(one, source, further.get(composed(one.id), ()))
        for one in listings
    ]


def select_rows(source: ImportSource) -> tuple[list[Row], set[str]]:
    """Rows of the table selected by `where`, including unreadable ones, and the composed ids of all rows.

    Raises UserError if the table cannot be read, a column is missing, or `where` is malformed or selects no
    row.
    """
    if not source.table or not source.id:
        return [], set()
    column, wanted = _parse_where(source.where)
    options = ("id", "title", "picture", "url", "group")
    needed = [(f"--{option}", getattr(source, option)) for option in options]
    needed += [
        ("--where", column),
        *((f"--{option}", name) for option, name in source.offer_columns.items()),
        *(("--attributes", name) for _, name in source.columns),
    ]
    try:
        names = [name for _, name in needed if name]
        rows = list(read_rows(source.table, names, TEXTS, encoding=source.encoding, sheet=source.sheet))
    except MissingColumn as error:
        option = next(option for option, name in needed if name == error.column)
        raise UserError(f"{option} {error.column}: {error}") from error

    def is_wanted(row: Row) -> bool:
        return bool(row.reason) or not column or composed(row.values[column]) == wanted

    named = {row.values[source.id] for row in rows if is_wanted(row) and not row.reason}
    selected = [  # Shopify fills the columns of a product in its first row alone
        row
        for row in rows
        if is_wanted(row) or (not row.values[column].strip() and row.values[source.id] in named)
    ]
    if all(row.reason for row in selected):
        raise UserError(f"no row of {source.table} was selected: {_why_none(rows, column, wanted)}")
    return selected, {composed(row.values[source.id]) for row in rows if not row.reason}


def counted(reasons: Iterable[str]) -> dict[str, int]:
    """Number of each reason, without its details."""
    return dict(Counter(reason.partition(":")[0] for reason in reasons))


def _parse_where(where: str | None) -> tuple[str, str]:
    if where is None:
        return "", ""
    column, equals, wanted = (part.strip() for part in composed(where).partition("="))
    if not equals or not column:
        raise UserError(f"--where: expected column=value, for example category=shirt, found {where!r}")
    return column, wanted


def _why_none(rows: list[Row], column: str, wanted: str) -> str:
    readable = [row for row in rows if not row.reason]
    if not readable:
        return f"it has no readable row{f', the first is an {rows[0].reason}' if rows else ''}"
    common = Counter(row.values[column] for row in readable).most_common(5)
    values = ", ".join(repr(value) for value, _ in common)
    return f"{column!r} is never {wanted!r}, its most common values are {values}"


def _unfit(name: str, seen: Collection[str]) -> str:
    """Reason why an id is not usable; "" if it is. `seen` are composed ids."""
    if not name:
        return "empty id"
    if not is_safe(name) or not name.isprintable():
        return "unsafe id: too long, not valid text, or with characters that nobody sees"
    return REPEATED if composed(name) in seen else ""


def _files(
    name: str, named: str | None, pictures: PictureFolder, ids: Collection[str]
) -> tuple[list[Path], str]:
    """Pictures of a product, by file name in the table or else by id, or the reason why there are none."""
    if named is None:
        files = pictures.of(name, ids) or pictures.of(safe_id(name), ids)
        clear = len({path.parent for path in files}) < 2
    else:
        found = [pictures.named(value) for value in _values(named)]
        files = [path for paths in found for path in paths]
        clear = all(len(paths) < 2 for paths in found)
    if not files:
        return [], "no picture" + (f": {named}" if named else "")
    return (
        (files, "")
        if clear
        else ([], f"several pictures: {', '.join(str(path.relative_to(pictures.folder)) for path in files)}")
    )


def _addresses(text: str) -> tuple[list[str], str]:
    """Usable addresses of a product, or the reason why there are none."""
    given = _values(_BETWEEN_ADDRESSES.sub("|", text))
    usable = [address for address in given if _is_web(address)]
    if given and not usable:
        return [], f"address that is not http or https: {given[0][:200]}"
    return usable, "" if usable else "no address"


def _is_web(address: str) -> bool:
    try:
        return urlsplit(address).scheme.lower() in ("http", "https") and bool(urlsplit(address).hostname)
    except ValueError:  # brackets that do not enclose an IPv6 address
        return False


def _values(text: str) -> list[str]:
    return [value for part in text.split("|") if (value := part.strip()).lower() not in NO_VALUE]


def _known(value: str) -> str:
    return "" if value.lower() in NO_VALUE else value


def _with_offers(product: Listing, source: ImportSource, rows: Sequence[Row]) -> Listing:
    """A product with its own offer and those of further rows."""
    found = [source.offer_of(row.values) for row in rows]
    unread = [f"{one} (line {row.line})" for row, (_, some) in zip(rows, found, strict=True) for one in some]
    offer = joined([product.offer, *(one for one, _ in found)])
    return replace(product, offer=offer, unread=product.unread + unread)


def _listing(source: ImportSource, row: Row, name: str, files: list[Path], addresses: list[str]) -> Listing:
    title = composed(_known(without_html(row.values[source.title]))) if source.title else ""
    speech = language(source.language)
    words = own_words(speech)
    labels = find_attributes(title, words)
    kept = {
        column: row.values.get(column, "")
        for column in (*(name for _, name in source.columns), *filter(None, (source.group,)))
    }
    kept |= {column: without_html(row.values.get(column, "")) for column in TEXTS}
    kept = {column: composed(value) for column, value in kept.items() if _known(value)}
    for kind, column in source.columns:
        for value in values_of(kept, column):
            place = place_value(value, speech) if kind is None else (kind, word_of_type(value, kind, words))
            add_word(labels, *place)
    group = kept.get(source.group, "") if source.group else ""
    offer, unread = source.offer_of(row.values)
    return Listing(
        {"line": row.line},
        name,
        "",
        title,
        group or name,
        values=kept,
        labels=labels,
        files=files,
        addresses=addresses,
        offer=offer,
        unread=unread,
    )
