"""A Fashion IQ folder made of a retailer's own catalog: a CSV and a folder of pictures.

Labels are the attribute words of the title and the columns that hold attributes; each product is the target of one pair, whose
reference is a product of its split with much of the title in common and whose captions tell their labels apart. Beside what a
Fashion IQ folder holds there are `dropped.json`, every row left out and why, by category, and `catalog.json`, written last.
"""

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from csv import DictReader
from csv import Error as CsvError
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fashioniq.categories import canonical, file_name
from fashioniq.data.attributes import add_word, can_tell_apart, describe_difference, find_attributes, place_value
from fashioniq.data.catalog import IMAGE_SUFFIXES, SPLITS
from fashioniq.data.pairing import reference_pairs
from fashioniq.data.words import tokenize
from fashioniq.files import UserError, read_json, write_json

MADE_BY = "fashioniq import-catalog"
FEWEST_PRODUCTS = 10
_NEAREST = 10  # titles among which a reference with other labels is looked for
_TRAIN, _TRAIN_AND_VAL = 0.6, 0.8
_NO_VALUE = {"", "na", "n/a", "none", "null", "nan", "-"}
_UNSAFE = re.compile(r'[/\\:*?"<>|\x00-\x1f]|^\.')  # of a file's name, on any system


@dataclass(frozen=True)
class ImportReport:
    """What an import read and made: rows selected, products kept, rows dropped by reason, products by split."""

    rows: int
    kept: int
    dropped: dict[str, int]
    splits: dict[str, int]


@dataclass(frozen=True)
class _Columns:
    id: str
    title: str
    attributes: tuple[str, ...]
    group: str | None


@dataclass(frozen=True)
class _Product:
    id: str
    title: str
    picture: Path
    labels: list[list[str]]
    group: str


@dataclass(frozen=True)
class _Row:
    """A row of the CSV, or the reason why it could not be read."""

    line: int
    values: dict[str, str]
    reason: str = ""


def import_catalog(
    csv: Path, images: Path, out: Path, category: str, *, id: str, title: str, where: str | None = None,
    attributes: Sequence[str] = (), seed: int = 0, group: str | None = None,
) -> ImportReport:  # fmt: skip
    """Make a category of the Fashion IQ folder `out` of a CSV's rows and their pictures `images/<id>.jpg`, at most one folder deeper.

    `id`, `title`, `attributes` and `group` name columns; `where` is "column=value" and selects rows. Products of one `group` share a
    split, which hangs on the group and the seed alone: products added later move no others. `out` is new, or a folder made by this
    command without the category. It appears whole or not at all.

    Raises UserError for a missing file, folder or column, a malformed `where`, no or too few products, and an `out` in use.
    """
    csv, images, out, category = Path(csv), Path(images), Path(out), canonical(category)
    columns = _Columns(id, title, tuple(attributes), group)
    before = _made_before(out, category)
    rows = _select(csv, columns, where)
    products, dropped = _products(rows, columns, images, category)
    reasons = dict(Counter(row["reason"].partition(":")[0] for row in dropped))
    _check_enough(len(products), reasons, images, columns.id)
    splits = _split(products, seed)
    counts = {split: len(members) for split, members in splits.items()}
    about = {
        "source": csv.name, "seed": seed, "where": where,
        "columns": {"id": id, "title": title, "attributes": list(attributes), "group": group},
        "products": counts, "dropped": reasons,
    }  # fmt: skip
    _write(out, category, splits, dropped, about, before)
    return ImportReport(len(rows), len(products), reasons, counts)


def _made_before(out: Path, category: str) -> dict[str, Any]:
    """What catalog.json of an existing `out` says; nothing for a new folder."""
    if not out.exists() and not out.is_symlink():
        return {}
    about = read_json(out / "catalog.json", "the catalog's description", dict) if (out / "catalog.json").is_file() else {}
    if about.get("made_by") != MADE_BY or not isinstance(about.get("categories"), dict):
        raise UserError(f"{out} exists and was not made by `{MADE_BY}`: give a new folder")
    if category in about["categories"]:
        raise UserError(f"{out} already has the category {category!r}: give a new folder, or remove this one first")
    return about


def _select(csv: Path, columns: _Columns, where: str | None) -> list[_Row]:
    column, wanted = _parse_where(where)
    needed = [columns.id, columns.title, *columns.attributes, *filter(None, (columns.group, column))]
    try:
        rows = list(_rows(csv, needed))
    except FileNotFoundError as error:
        raise UserError(f"there is no file {csv}: give the CSV of the catalog, with a header line") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{csv} is not UTF-8 text ({error.reason} at byte {error.start}): save it as CSV in UTF-8") from error
    except (OSError, CsvError) as error:
        raise UserError(f"cannot read {csv}: {getattr(error, 'strerror', None) or error}") from error
    selected = [row for row in rows if row.reason or not column or row.values[column] == wanted]
    if all(row.reason for row in selected):
        raise UserError(f"no row of {csv} was selected: {_why_none(rows, column, wanted)}")
    return selected


def _parse_where(where: str | None) -> tuple[str, str]:
    if where is None:
        return "", ""
    column, equals, wanted = (part.strip() for part in where.partition("="))
    if not equals or not column:
        raise UserError(f'rows are selected by "column=value", as "category=shirt"; {where!r} is not of that form')
    return column, wanted


def _rows(csv: Path, needed: Sequence[str]) -> Iterator[_Row]:
    with open(csv, encoding="utf-8-sig", newline="") as file:
        reader = DictReader(file, strict=True)
        names = reader.fieldnames or []
        for column in needed:
            if column not in names:
                raise UserError(f"{csv} has no column {column!r}: it has {', '.join(names) or 'none, the file is empty'}")
        while True:
            try:
                row = next(reader)
            except StopIteration:
                return
            except CsvError as error:
                yield _Row(reader.line_num, {}, f"unreadable row: {error}")
                continue
            found = len(names) + len(row.get(None) or ()) - sum(value is None for value in row.values())
            if found != len(names):
                yield _Row(reader.line_num, {}, f"unreadable row: expected {len(names)} fields, found {found}")
            else:
                yield _Row(reader.line_num, {name: value.strip() for name, value in row.items()})


def _why_none(rows: list[_Row], column: str, wanted: str) -> str:
    readable = [row for row in rows if not row.reason]
    if not readable:
        return f"it has no readable row below the header{f', the first is an {rows[0].reason}' if rows else ''}"
    common = Counter(row.values[column] for row in readable).most_common(5)
    return f"{column!r} is never {wanted!r}, its most common values are {', '.join(repr(value) for value, _ in common)}"


def _products(rows: list[_Row], columns: _Columns, images: Path, category: str) -> tuple[list[_Product], list[dict[str, Any]]]:
    pictures = _find_pictures(images, category)
    products, dropped, seen = [], [], set()
    for row in rows:
        name = row.values.get(columns.id, "")
        reason = row.reason or _unfit(name, name in seen, pictures.get(name, []))
        if reason:
            dropped.append({"line": row.line, "id": name, "reason": reason})
        else:
            products.append(_product(row.values, columns, pictures[name][0]))
        seen.add(name)
    return products, dropped


def _unfit(name: str, repeated: bool, pictures: list[Path]) -> str:
    """Why a row makes no product; nothing where it does. What stands before a colon is counted as one reason."""
    if not name:
        return "empty id"
    if _UNSAFE.search(name) or len(name.encode()) > 200:
        return "unsafe id: it cannot be a file's name"
    if repeated:
        return "repeated id"
    if not pictures:
        return "no picture"
    if len({path.parent for path in pictures}) > 1:
        return f"several pictures: {', '.join(str(path) for path in pictures)}"
    if not pictures[0].stat().st_size:
        return "empty picture"
    return ""


def _find_pictures(images: Path, category: str) -> dict[str, list[Path]]:
    """The pictures of every id. A subfolder of the category's name is the only one searched: another's ids may be the same."""
    if not images.is_dir():
        raise UserError(f"there is no folder of pictures {images}: give the folder that holds <id>.jpg")
    try:
        folders = sorted(path for path in images.iterdir() if path.is_dir())
        own = [folder for folder in folders if folder.name.lower() in (category, file_name(category))]
        pictures: dict[str, list[Path]] = {}
        for folder in (images, *(own or folders)):
            for path in sorted(folder.iterdir(), key=lambda path: path.name):
                if path.suffix.lower() in IMAGE_SUFFIXES and path.is_file():
                    pictures.setdefault(path.stem, []).append(path)
    except OSError as error:
        raise UserError(f"cannot read the folder of pictures {error.filename or images}: {error.strerror}") from error
    return pictures


def _product(values: dict[str, str], columns: _Columns, picture: Path) -> _Product:
    labels = find_attributes(values[columns.title])
    for column in columns.attributes:
        if values[column].lower() not in _NO_VALUE:
            add_word(labels, *place_value(values[column]))
    group = values[columns.group] if columns.group else ""
    return _Product(values[columns.id], values[columns.title], picture, labels, group or values[columns.id])


def _check_enough(products: int, reasons: dict[str, int], images: Path, id_column: str) -> None:
    if not products and "no picture" in reasons:
        raise UserError(f"no row has a picture: expected {images}/<{id_column}>.jpg, .png, .jpeg or .webp, there or one folder down")
    if products < FEWEST_PRODUCTS:
        told = ", ".join(f"{count} with {reason}" for reason, count in reasons.items()) or "none"
        raise UserError(f"expected at least {FEWEST_PRODUCTS} products with a picture, found {products} (dropped: {told}): add products")


def _split(products: list[_Product], seed: int) -> dict[str, list[_Product]]:
    splits: dict[str, list[_Product]] = {split: [] for split in SPLITS}
    for product in products:
        share = _number(f"{seed}:{product.group}") / 2**64
        splits[SPLITS[(share >= _TRAIN) + (share >= _TRAIN_AND_VAL)]].append(product)
    for split, members in splits.items():
        if len(members) < 2:
            raise UserError(f"the {split} split would hold {len(members)} products and needs 2: add products, or give another seed")
    return splits


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def _write(
    out: Path, category: str, splits: dict[str, list[_Product]], dropped: list[dict[str, Any]], about: dict[str, Any], before: dict[str, Any]
) -> None:
    """Make the category in a temporary folder beside `out`, then give it its place."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as temporary:
            made = Path(temporary) / "made"  # the folder around it is private, this one is as any other
            made.mkdir()
            for split, products in splits.items():
                _write_split(made, file_name(category), split, products, about["seed"])
            earlier = read_json(out / "dropped.json", "the list of dropped rows", dict) if (out / "dropped.json").exists() else {}
            write_json(made / "dropped.json", {**earlier, category: dropped})
            catalog = {"made_by": MADE_BY, "pictures": "photographs", "captions": "made from attribute differences"}
            write_json(made / "catalog.json", {**catalog, "categories": {**before.get("categories", {}), category: about}})
            if before:
                _move_in(made, out, category)
            else:
                made.rename(out)
    except OSError as error:
        raise UserError(f"cannot write {out}: {error.strerror or error}") from error


def _write_split(folder: Path, name: str, split: str, products: list[_Product], seed: int) -> None:
    write_json(folder / "image_splits" / f"split.{name}.{split}.json", [product.id for product in products])
    write_json(folder / "attributes" / f"asin2attr.{name}.{split}.json", {product.id: product.labels for product in products}, indent=None)
    write_json(folder / "titles" / f"{name}.{split}.json", {product.id: {"title": product.title} for product in products})
    write_json(folder / "captions" / f"cap.{name}.{split}.json", _captioned_pairs(products, split, seed))
    pictures = folder / "images" / name
    pictures.mkdir(parents=True, exist_ok=True)
    for product in products:
        _place(product.picture.resolve(), pictures / (product.id + product.picture.suffix.lower()))


def _captioned_pairs(products: list[_Product], split: str, seed: int) -> list[dict[str, Any]]:
    pairs = []
    for target, candidate in zip(products, _references(products), strict=True):
        captions = describe_difference(candidate.labels, target.labels, _number(json.dumps([seed, candidate.id, target.id])))
        names = {"candidate": candidate.id} if split == "test" else {"target": target.id, "candidate": candidate.id}
        pairs.append({**names, "captions": list(captions)})
    return pairs


def _references(products: list[_Product]) -> list[_Product]:
    """The reference of each product by TF-IDF: the nearest title whose labels differ, as equal labels leave nothing to say.

    The nearest of all where none differs, the neighbour in the split where no other title shares a word.
    """
    titles = [product.title for product in products]
    if not any(tokenize(title) for title in titles):
        return products[1:] + products[:1]
    references = []
    for own, places in enumerate(reference_pairs(titles, _NEAREST).tolist()):
        near = [products[place] for place in places if place >= 0] or [products[(own + 1) % len(products)]]
        references.append(next((other for other in near if can_tell_apart(other.labels, products[own].labels)), near[0]))
    return references


def _place(picture: Path, destination: Path) -> None:
    try:
        os.link(picture, destination)
    except OSError:  # another file system, or one without hard links
        shutil.copyfile(picture, destination)


def _move_in(made: Path, out: Path, category: str) -> None:
    """Move a category's files into an existing folder, catalog.json last; undone where one of them fails."""
    files = [path.relative_to(made) for folder in made.iterdir() if folder.is_dir() for path in sorted(folder.iterdir())]
    for path in files:
        if (out / path).exists():
            raise UserError(f"{out / path} exists but catalog.json knows no {category!r}: an import was cut short; remove it and run again")
    moves = [(made / path, out / path) for path in files]
    if (out / "dropped.json").exists():
        moves.append((out / "dropped.json", made.parent / "dropped.json"))
    moves.append((made / "dropped.json", out / "dropped.json"))
    done = []
    try:
        for source, destination in moves:
            destination.parent.mkdir(exist_ok=True)
            source.rename(destination)
            done.append((source, destination))
        (made / "catalog.json").replace(out / "catalog.json")
    except BaseException:
        for source, destination in reversed(done):
            destination.rename(source)
        raise
