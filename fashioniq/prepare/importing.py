"""Import of a retailer's catalog, a table and pictures or pictures alone, as a Fashion IQ folder.

Labels are the attribute words in the title and in the attribute columns. Each product is the target of one
pair. The reference is a product of the same split with a similar title, and the captions describe how the
labels differ. In addition to the Fashion IQ files, the folder contains `dropped.json`, the reasons for every
product left out, by category, and `catalog.json`, which is written last.
"""

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from fashioniq.categories import canonical, file_name
from fashioniq.data.catalog import Catalog
from fashioniq.data.catalog_files import categories_in
from fashioniq.data.language_recognition import Foreign, foreign_words
from fashioniq.data.languages import ENGLISH, language
from fashioniq.data.offers import Offer
from fashioniq.files import UserError, read_json, write_json
from fashioniq.prepare.archives import is_archive, unpack
from fashioniq.prepare.atomic_folder import move_in, staged
from fashioniq.prepare.caption_files import CaptionFiles
from fashioniq.prepare.downloading import download
from fashioniq.prepare.picture_files import PictureFolder, first_readable
from fashioniq.prepare.reimporting import changes, files_of, merged, split_of
from fashioniq.prepare.retailer_products import (
    Listing,
    counted,
    listings_of_pictures,
    listings_of_table,
    select_rows,
)
from fashioniq.prepare.source import ImportSource
from fashioniq.prepare.write_category import divide, origin_of, write_category

MADE_BY = "fashioniq import-catalog"
FEWEST_PRODUCTS = 10

Progress = Callable[[str, int, int], None]  # description of the step, number done, total
MAX_BYTES = 20e9  # of an unpacked archive


@dataclass(frozen=True)
class ImportReport:
    """Summary of an import: products offered and in each split; dropped products and skipped files by reason.

    `replaced` counts products whose first picture was unreadable and was replaced by another. `differing`
    counts pairs whose labels differ; only these have captions. `downloads` is the folder with the downloaded
    pictures. `folders` and `other_folders` count the pictures in the folders that were imported, and in those
    that were not. `encoded` are the ids that were percent-encoded because file names cannot have them.
    `foreign` is why titles or values do not look English, if they are imported as English. `offers` counts the
    products with an offer, `unread` the parts of offers that could not be read, by reason. Of a category that is
    imported `again`, `new` products were not there before, and others are `gone`; `by_people` counts captions that wait
    for products that are gone, None if captions are generated.
    """

    offered: int
    splits: dict[str, int]
    dropped: dict[str, int]
    skipped: dict[str, int]
    replaced: int
    differing: int
    downloads: Path | None
    folders: dict[str, int] = field(default_factory=dict)
    other_folders: dict[str, int] = field(default_factory=dict)
    encoded: list[str] = field(default_factory=list)
    foreign: Foreign | None = None
    offers: int = 0
    unread: dict[str, int] = field(default_factory=dict)
    again: bool = False
    new: int = 0
    gone: int = 0
    by_people: int | None = None

    @property
    def kept(self) -> int:
        """Number of products in all splits, and of pairs, one for each."""
        return sum(self.splits.values())

    @property
    def alike(self) -> int:
        """Number of pairs without a difference to describe."""
        return self.kept - self.differing


def import_catalog(
    source: ImportSource,
    out: Path,
    category: str,
    *,
    seed: int = 0,
    workers: int = 0,
    tell: Progress = lambda *_: None,
) -> ImportReport:
    """Import a retailer's products as a category of the Fashion IQ folder `out`.

    `out` must be new, or a folder created by this command. If it has this category, that is replaced: products keep
    their splits, and captions by people are kept. The import is atomic. Downloads are kept in a folder next to `out`,
    so that an interrupted import can continue. Raises UserError if the input cannot be read, if there are too few
    products, if the category was imported from other columns, or if `out` is in use.
    """
    out, category = Path(os.path.realpath(out)), canonical(category)
    downloads = out.with_name(f"{out.name}.downloads") / file_name(category) if source.url else None
    rows, ids = select_rows(source)
    with staged(out) as work:
        before = _made_before(out)
        earlier = Catalog(out, category) if category in before and category in categories_in(out) else None
        seed = earlier.imported.get("seed", seed) if earlier else seed
        folder, skipped = _folder(source.images, work, MAX_BYTES)
        pictures = (
            PictureFolder(folder, None if source.picture else category, source.folders) if folder else None
        )
        if pictures and not pictures.files:
            name = f"<{source.id}>.jpg" if source.table and not source.picture else "*.jpg"
            raise UserError(
                f"{source.images} has no pictures: expected files such as {name}, .png, .jpeg or .webp, "
                "in this folder or a subfolder"
            )
        listings = (
            listings_of_pictures(pictures, language(source.language))
            if pictures and not source.table
            else listings_of_table(source, rows, ids, pictures)
        )
        wanted = [listing for listing in listings if not listing.reason]
        picked, failures = _download(wanted, downloads, tell) if downloads else _read(wanted, workers, tell)
        listings = [
            listing if listing.reason else replace(listing, reason=failures.get(listing.id, ""))
            for listing in listings
        ]
        products = [listing for listing in listings if not listing.reason]
        reasons = counted(listing.reason for listing in listings if listing.reason)
        _check_enough(len(products), reasons, source)
        new, gone = changes(earlier, [product.id for product in products]) if earlier else (0, 0)
        splits = divide(products, seed, split_of(earlier) if earlier else {})
        differing = write_category(
            work / "made", category, splits, picked, seed=seed, speech=language(source.language)
        )
        report = ImportReport(
            len(listings), {split: len(members) for split, members in splits.items()}, reasons,
            counted(skipped.values()),
            sum(picked[product.id] != product.files[0] for product in products if product.files),
            differing=differing, downloads=downloads,
            folders=pictures.taken if pictures else {}, other_folders=pictures.not_taken if pictures else {},
            foreign=_foreign(products, source),
            encoded=[product.id for product in products if unquote(product.id) != product.id],
            offers=sum(product.offer != Offer() for product in products),
            unread=counted(reason for product in products for reason in product.unread),
            again=earlier is not None, new=new, gone=gone,
        )  # fmt: skip
        dropped = [
            {**listing.place, "id": listing.id, "reason": listing.reason}
            for listing in listings
            if listing.reason
        ]
        dropped += [{"file": name, "reason": f"not unpacked: {reason}"} for name, reason in skipped.items()]
        about = _about(source, seed, report) | {"fingerprint": Catalog(work / "made", category).fingerprint()}
        # people may write captions meanwhile
        with CaptionFiles(earlier).locked() if earlier else nullcontext():
            if earlier:
                about, by_people = merged(Catalog(out, category), work / "made", about, source)
                report = replace(report, by_people=by_people)
            _write_about(work / "made", out, category, dropped, {**_made_before(out), category: about})
            move_in(work, out, files_of(out, category) if earlier else [])
    return report


def _made_before(out: Path) -> dict[str, Any]:
    """Categories described in catalog.json of an existing `out`; empty for a new folder."""
    if not out.exists():
        return {}
    about = (
        read_json(out / "catalog.json", "the catalog's description", dict)
        if (out / "catalog.json").is_file()
        else {}
    )
    if about.get("made_by") != MADE_BY or not isinstance(about.get("categories"), dict):
        raise UserError(f"{out} exists and was not made by `{MADE_BY}`: give a new folder")
    return about["categories"]


def _folder(images: Path | None, work: Path, most_bytes: float) -> tuple[Path | None, dict[str, str]]:
    """Folder of pictures (a .zip is unpacked in `work`), and the reasons for skipped archive members."""
    if images is None or images.is_dir():
        return images, {}
    if not images.exists() or not is_archive(images):
        found = "is neither a folder nor a .zip archive" if images.exists() else "does not exist"
        raise UserError(f"{images} {found}: give a folder of pictures named <id>.jpg, or a .zip of them")
    (work / "pictures").mkdir()
    return work / "pictures", unpack(images, work / "pictures", most_bytes)


def _read(
    listings: Sequence[Listing], workers: int, tell: Progress
) -> tuple[dict[str, Path], dict[str, str]]:
    files = {listing.id: listing.files for listing in listings}
    picked, failures = first_readable(files, workers, lambda done, all: tell("pictures read", done, all))
    return picked, {id: f"unreadable picture: {reason}" for id, reason in failures.items()}


def _download(
    listings: Sequence[Listing], folder: Path, tell: Progress
) -> tuple[dict[str, Path], dict[str, str]]:
    """Download the pictures; the result is that of `_read`.

    A file is named by the hash of its addresses, so that files of an earlier run are reused only for the same
    addresses.
    """
    names = {
        listing.id: hashlib.sha256("|".join(listing.addresses).encode()).hexdigest()[:16]
        for listing in listings
    }
    asked = {names[listing.id]: listing.addresses for listing in listings}
    done = count(1)
    outcomes = (
        download(asked, folder, tell=lambda *_: tell("pictures downloaded", next(done), len(asked)))
        if asked
        else {}
    )
    outcome_of = {id: outcomes[name] for id, name in names.items()}
    picked = {id: outcome.picture for id, outcome in outcome_of.items() if outcome.picture}
    return picked, {id: f"not downloaded, {outcome_of[id]}" for id in names if id not in picked}


def _check_enough(products: int, reasons: Mapping[str, int], source: ImportSource) -> None:
    if not products and "no picture" in reasons:
        expected = (
            f"the files that {source.picture!r} names"
            if source.picture
            else f"{source.images}/<{source.id}>.jpg, .png, .jpeg or .webp"
        )
        raise UserError(f"no row has a picture: expected {expected}, in this folder or a subfolder")
    if products < FEWEST_PRODUCTS:
        dropped = ", ".join(f"{number} with {reason}" for reason, number in reasons.items()) or "none"
        raise UserError(
            f"expected at least {FEWEST_PRODUCTS} products with a picture, "
            f"found {products} (dropped: {dropped}): add products"
        )


def _foreign(products: Sequence[Listing], source: ImportSource) -> Foreign | None:
    columns = [column for _, column in source.columns]
    texts = (
        " ".join([product.title, *(product.values.get(column, "") for column in columns)])
        for product in products
    )
    return foreign_words(texts) if source.language == ENGLISH.code else None


def _about(source: ImportSource, seed: int, report: ImportReport) -> dict[str, Any]:
    names = ("id", "title", "picture", "url", "group", *source.offer_columns)
    columns = {name: getattr(source, name) for name in names}
    return {
        "source": (source.table or source.images or Path()).name, "seed": seed, "where": source.where,
        "folders": list(source.folders), "language": source.language,
        "columns": {
            **{name: column for name, column in columns.items() if column}, "attributes": list(source.attributes),
        },
        "products": report.splits, "dropped": report.dropped, "skipped": report.skipped,
        "differing_pairs": report.differing,
    }  # fmt: skip


def _write_about(
    made: Path, out: Path, category: str, dropped: list[dict[str, Any]], categories: dict[str, Any]
) -> None:
    earlier = (
        read_json(out / "dropped.json", "the list of dropped products", dict)
        if (out / "dropped.json").exists()
        else {}
    )
    write_json(
        made / "dropped.json",
        {**earlier, category: [{key: _writable(value) for key, value in entry.items()} for entry in dropped]},
    )
    write_json(
        made / "catalog.json",
        {
            "made_by": MADE_BY,
            "pictures": "photographs",
            "captions": origin_of(categories),
            "categories": categories,
        },
    )


def _writable(value: Any) -> Any:
    """Escape bytes in file names that are not valid text."""
    return value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value
