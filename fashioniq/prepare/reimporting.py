"""A category that is imported again: what stays of it when its table has new products and lacks others.

A table with offers alone replaces all earlier offers; of its products, the facts without a column stay as they were.
"""

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from fashioniq.categories import canonical, file_name
from fashioniq.data.catalog import SPLITS, Catalog
from fashioniq.data.catalog_files import SET_ASIDE, categories_in, split_file
from fashioniq.data.ids import Spellings
from fashioniq.data.offers import Offer, offers_file, read_offers, unread_file, write_offers
from fashioniq.files import UserError, write_json
from fashioniq.prepare.archives import safe_id
from fashioniq.prepare.atomic_folder import staged
from fashioniq.prepare.caption_files import CaptionFiles, write_captions
from fashioniq.prepare.offers import joined
from fashioniq.prepare.retailer_products import counted, select_rows
from fashioniq.prepare.source import ImportSource
from fashioniq.prepare.write_category import is_generated


def merged(
    before: Catalog, made: Path, about: dict[str, Any], source: ImportSource
) -> tuple[dict[str, Any], int | None]:
    """What catalog.json says of a category in `made`, with what is kept of it (see `keep`), and captions that wait.

    Raises UserError if the category was imported in another language, or from other columns but those of offers: its
    labels or titles would get lost.
    """
    earlier, now = (
        {**_columns(given), "language": given.get("language")} for given in (before.imported, about)
    )
    for name in sorted({*earlier, *now} - {*source.offer_columns}):
        if earlier.get(name) != now.get(name):
            raise UserError(
                f"{before.category} in {before.root} was imported with --{name} {_told(earlier.get(name))}, and is now "
                f"with {_told(now.get(name))}: give the same columns, or a new folder with --data"
            )
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
    now = split_of(Catalog(made, before.category))
    if not with_offers and before.offers:
        write_offers(
            offers_file(made, before.category), {id: one for id, one in before.offers.items() if id in now}
        )
    if is_generated(before):
        return None
    known, waiting = CaptionFiles(before), 0
    for split in SPLITS:
        rows = known.rows(split)
        rows += [row for row in known.rows(split, SET_ASIDE) if row not in rows]
        here: list[dict[str, Any]] = []
        gone: list[dict[str, Any]] = []
        for row in rows:
            ids = {row.get("candidate", ""), row.get("target", row.get("candidate", ""))}
            (here if all(now.get(id) == split for id in ids) else gone).append(row)
        waiting += len(gone)
        for folder, some in (("captions", here), (SET_ASIDE, gone)):
            write_captions(split_file(made, folder, before.category, split), some)
    return waiting


def files_of(root: Path, category: str) -> list[str]:
    """Files of an imported category, and the folder of its pictures, relative to the root."""
    folders = ("image_splits", "attributes", "titles", "captions", SET_ASIDE)
    files = [split_file(root, folder, category, split) for split in SPLITS for folder in folders]
    paths = [
        root / "images" / file_name(category),
        *files,
        offers_file(root, category),
        unread_file(root, category),
    ]
    return [str(path.relative_to(root)) for path in paths if os.path.lexists(path)]


@dataclass(frozen=True)
class OfferReport:
    """Products of the category, those with an offer, and rows and parts of offers that were not used, by reason."""

    products: int
    offers: int
    dropped: dict[str, int]
    unread: dict[str, int]


def update_offers(source: ImportSource, out: Path, category: str) -> OfferReport:
    """Replace the offers of a category of the folder `out`, and list what was not read beside them.

    Price, sizes, stock or link without a column of the source stay as they were for the products of the table. Raises
    UserError if the table or the earlier offers cannot be read, `out` has no such category, or another import holds it.
    """
    out, category = Path(os.path.realpath(out)), canonical(category)
    if category not in categories_in(out):
        raise UserError(
            f"{out} has no category {category!r} with offers to update: give --images or --url to import it"
        )
    rows, _ = select_rows(source)
    with staged(out):
        ids = Catalog(out, category).all_ids()
        known, spellings = set(ids), Spellings(ids)
        kept = source.absent_of_offers
        earlier = read_offers(offers_file(out, category)) if kept else {}
        found: dict[str, list[Offer]] = {}
        dropped: list[dict[str, Any]] = []
        unread: list[dict[str, Any]] = []
        for row in rows:
            name = spellings.own(safe_id(row.values.get(source.id or "", "")))
            if reason := row.reason or ("" if name in known else "no such product"):
                dropped.append({"line": row.line, "id": name, "reason": reason})
                continue
            offer, unreadable = source.offer_of(row.values)
            found.setdefault(name, []).append(offer)
            unread += [{"line": row.line, "id": name, "reason": one} for one in unreadable]
        if not found:
            raise UserError(
                f"no row of {source.table} is a product of {category} in {out}, such as {ids[0]}: give the "
                "column of their ids with --id"
            )
        offers = {name: joined(some) for name, some in found.items()}
        for name, offer in offers.items():
            before = {field: getattr(earlier.get(name, Offer()), field) for field in kept}
            offers[name] = msgspec.structs.replace(offer, **before)
        offers = {name: offer for name, offer in offers.items() if offer != Offer()}
        write_offers(offers_file(out, category), offers)
        write_json(unread_file(out, category), dropped + unread)
    reasons = [counted(entry["reason"] for entry in entries) for entries in (dropped, unread)]
    return OfferReport(len(ids), len(offers), *reasons)
