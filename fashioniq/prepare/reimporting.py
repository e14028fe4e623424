"""A category that is imported again: what stays of it when its table has new products and lacks others."""

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from fashioniq.categories import file_name
from fashioniq.data.catalog import SPLITS, Catalog
from fashioniq.data.offers import offers_file, unread_file, write_offers
from fashioniq.files import UserError, write_json
from fashioniq.prepare.caption_files import SET_ASIDE, CaptionFiles
from fashioniq.prepare.captions import is_generated
from fashioniq.prepare.source import ImportSource


def check_same_table(before: Catalog, about: Mapping[str, Any], offers: Collection[str]) -> None:
    """Raise UserError if a category is imported again in another language, or from other columns but those of offers:
    its labels or titles would get lost.
    """
    earlier = before.imported
    for name in sorted({"language", *_columns(earlier), *about["columns"]} - {*offers}):
        one, other = (
            given.get("language") if name == "language" else _columns(given).get(name)
            for given in (earlier, about)
        )
        if one != other:
            raise UserError(
                f"{before.category} in {before.root} was imported with --{name} {_told(one)}, and is now with "
                f"{_told(other)}: give the same columns, or a new folder with --data"
            )


def merged(
    before: Catalog, made: Path, about: dict[str, Any], source: ImportSource
) -> tuple[dict[str, Any], int | None]:
    """What catalog.json says of a category in `made`, with what is kept of it (see `keep`), and captions that wait.

    Raises UserError if the category was imported from other columns.
    """
    check_same_table(before, about, source.offer_columns)
    by_people = keep(before, made, with_offers=any(source.offer_columns.values()))
    kept = () if by_people is None else ("captions", "fingerprint")
    return about | {name: one for name, one in before.imported.items() if name in kept}, by_people


def _columns(about: Mapping[str, Any]) -> Mapping[str, Any]:
    found = about.get("columns")
    return found if isinstance(found, dict) else {}


def _told(value: Any) -> str:
    return " ".join(value) if isinstance(value, list) and value else str(value or "none")


def changes(before: Catalog, ids: Collection[str]) -> tuple[int, int]:
    """Numbers of new products, and of products that are gone.

    Raises UserError if most products are gone, as with the table of another category or a part of the table.
    """
    earlier, now = set(before.all_ids()), set(ids)
    if 2 * len(earlier & now) < len(earlier):
        raise UserError(
            f"only {len(earlier & now)} of the {len(earlier)} products of {before.category} in {before.root} are among "
            "those that are imported now: give all products, or a new folder with --data"
        )
    return len(now - earlier), len(earlier - now)


def split_of(catalog: Catalog) -> dict[str, str]:
    """Split of each product."""
    return {id: split for split in SPLITS for id in catalog.ids(split)}


def keep(before: Catalog, made: Path, with_offers: bool) -> int | None:
    """Write captions by people into `made` in place of generated ones, and, if the table has no offers, those of
    earlier imports.

    Captions of products that are gone wait in set_aside/ until an import has these products again. Return how many
    wait, or None if there are none by people.
    """
    name, now = file_name(before.category), split_of(Catalog(made, before.category))
    if not with_offers and before.offers:
        write_offers(
            offers_file(made, before.category), {id: one for id, one in before.offers.items() if id in now}
        )
    if is_generated(before):
        return None
    known, waiting = CaptionFiles(before), 0
    for split in SPLITS:
        rows = known.rows(split)
        rows += [row for row in known.set_aside(split) if row not in rows]
        here: list[dict[str, Any]] = []
        gone: list[dict[str, Any]] = []
        for row in rows:
            ids = {row.get("candidate", ""), row.get("target", row.get("candidate", ""))}
            (here if all(now.get(id) == split for id in ids) else gone).append(row)
        waiting += len(gone)
        for folder, some in (("captions", here), (SET_ASIDE, gone)):
            path = made / folder / f"cap.{name}.{split}.json"
            path.unlink(missing_ok=True)
            if some:  # a file without a caption is an error for the commands that read it
                write_json(path, some)
    return waiting


def files_of(root: Path, category: str) -> list[str]:
    """Files of an imported category, and the folder of its pictures, relative to the root."""
    name = file_name(category)
    names = [f"images/{name}"]
    for split in SPLITS:
        names += [f"image_splits/split.{name}.{split}.json", f"attributes/asin2attr.{name}.{split}.json"]
        names += [f"titles/{name}.{split}.json", f"captions/cap.{name}.{split}.json"]
        names += [f"{SET_ASIDE}/cap.{name}.{split}.json"]
    names += [str(file(root, category).relative_to(root)) for file in (offers_file, unread_file)]
    return [one for one in names if os.path.lexists(root / one)]
