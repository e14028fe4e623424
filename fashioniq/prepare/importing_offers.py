"""Update of the offers of a category from a retailer's table.

The table replaces all earlier offers; of its products, the facts without a column stay as they were.
"""

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from fashioniq.categories import canonical
from fashioniq.data.catalog import Catalog
from fashioniq.data.catalog_files import categories_in
from fashioniq.data.ids import Spellings
from fashioniq.data.offers import Offer, offers_file, read_offers, unread_file, write_offers
from fashioniq.files import UserError, write_json
from fashioniq.prepare.archives import safe_id
from fashioniq.prepare.atomic_folder import staged
from fashioniq.prepare.offers import joined
from fashioniq.prepare.retailer_products import select_rows
from fashioniq.prepare.source import ImportSource


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
    return OfferReport(len(ids), len(offers), _counts(dropped), _counts(unread))


def _counts(entries: list[dict[str, Any]]) -> dict[str, int]:
    return dict(Counter(entry["reason"].partition(":")[0] for entry in entries))
