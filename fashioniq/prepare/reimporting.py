"""A category that is imported again: what stays of it when its table has new products and lacks others."""

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from fashioniq.categories import file_name
from fashioniq.data.catalog import SPLITS, Catalog
from fashioniq.data.offers import offers_file, unread_file, write_offers
from fashioniq.files import UserError, read_json, write_json
from fashioniq.prepare.captions import is_generated


def check_same_table(before: Catalog, about: Mapping[str, Any], offers: Collection[str]) -> None:
    """Raise UserError if a category is imported again in another language, or from other columns but those of offers:
    its labels or titles would get lost.
    """
    earlier = before.imported
    for name in sorted({"language", *earlier.get("columns", {}), *about["columns"]} - {*offers}):
        one, other = (
            given.get("language") if name == "language" else given.get("columns", {}).get(name)
            for given in (earlier, about)
        )
        if one != other:
            raise UserError(
                f"{before.category} in {before.root} was imported with --{name} {_told(one)}, and is now with "
                f"{_told(other)}: give the same columns, or a new folder with --data"
            )


def _told(value: Any) -> str:
    return " ".join(value) if isinstance(value, list) and value else str(value or "none")


def changes(before: Catalog, ids: Collection[str]) -> tuple[int, int]:
    """Numbers of new products, and of products that are gone.

    Raises UserError if most products are gone, as with the table of another category or a part of the table.
    """
    earlier, now = set(before.all_ids()), set(ids)
    if 2 * len(earlier & now) < len(earlier):
        raise UserError(
            f"{len(earlier & now)} of the {len(earlier)} products of {before.category} in {before.root} are among "
            "those that are imported now: give all products, or a new folder with --data"
        )
    return len(now - earlier), len(earlier - now)


def keep(before: Catalog, made: Path, with_offers: bool) -> bool:
    """Write captions by people into `made`, of pairs that are still there, in place of generated ones, and, if the
    table has no offers, those of earlier imports. Return whether there were captions by people.
    """
    name, kept = file_name(before.category), set(Catalog(made, before.category).all_ids())
    by_people = not is_generated(before)
    if by_people:
        for split in SPLITS:
            file = Path("captions", f"cap.{name}.{split}.json")
            (made / file).unlink(missing_ok=True)
            if (before.root / file).exists():
                rows = read_json(before.root / file, "the captions", list)
                pairs = [
                    row for row in rows if {row["candidate"], row.get("target", row["candidate"])} <= kept
                ]
                if pairs:  # a file without a caption is an error for the commands that read it
                    write_json(made / file, pairs)
    if not with_offers and before.offers:
        write_offers(
            offers_file(made, before.category), {id: one for id, one in before.offers.items() if id in kept}
        )
    return by_people


def files_of(root: Path, category: str) -> list[str]:
    """Files of an imported category, and the folder of its pictures, relative to the root."""
    name = file_name(category)
    names = [f"images/{name}"]
    for split in SPLITS:
        names += [f"image_splits/split.{name}.{split}.json", f"attributes/asin2attr.{name}.{split}.json"]
        names += [f"titles/{name}.{split}.json", f"captions/cap.{name}.{split}.json"]
    names += [str(file(root, category).relative_to(root)) for file in (offers_file, unread_file)]
    return [one for one in names if os.path.lexists(root / one)]
