"""Download of the pictures of a catalog, with a report of its coverage."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from fashioniq.categories import file_name
from fashioniq.data.catalog import Catalog
from fashioniq.files import UserError, read_json, write_json
from fashioniq.locks import BRIEF, locked
from fashioniq.prepare.downloading import REASONS, Outcome, addresses_file, download, read_addresses


def coverage(splits: Mapping[str, Sequence[str]], outcomes: Mapping[str, Outcome]) -> dict[str, Any]:
    """Summary of a download.

    `splits` counts, per split, the ids by outcome and the pictures with the same bytes as an earlier one.
    `missing` gives the reason for every missing picture.
    """
    first: dict[str, str] = {}
    counts = {}
    for split, ids in splits.items():
        count = {"asked": len(ids), **dict.fromkeys(REASONS, 0), "duplicates": 0}
        for name in ids:
            outcome = outcomes[name]
            count[outcome.reason] += 1
            count["duplicates"] += bool(outcome.picture) and first.setdefault(outcome.checksum, name) != name
        counts[split] = count
    return {
        "splits": counts,
        "missing": {name: str(outcome) for name, outcome in outcomes.items() if not outcome.picture},
    }


def download_pictures(catalog: Catalog, urls: Path | None) -> dict[str, Any]:
    """Download the missing pictures of a category; return and write its part of coverage.json.

    `urls` is a list of addresses, by default that of the category. Raises UserError if the list has no address
    of a product of the category, or if coverage.json is invalid.
    """
    name = file_name(catalog.category)
    report = catalog.root / "coverage.json"
    _read(report)  # fail before the download, not after it, if the file is invalid
    urls = urls or addresses_file(catalog.root, catalog.category)
    known = read_addresses(urls)
    addresses = {product: known.get(product, []) for product in catalog.all_ids()}
    if not any(addresses.values()):
        raise UserError(
            f"{urls} has no address of any product of {catalog.category}: "
            "give this category's list with --urls"
        )
    outcomes = _download(addresses, catalog, catalog.root / "images" / name)
    found = coverage({split: catalog.ids(split) for split in catalog.splits}, outcomes)
    with locked(catalog.root, wait=BRIEF):  # other categories may be downloaded at the same time
        write_json(report, {**_read(report), name: found})
    return found


def _read(report: Path) -> dict:
    return read_json(report, "the coverage of earlier downloads", dict) if report.exists() else {}


def _download(addresses: dict[str, list[str]], catalog: Catalog, folder: Path) -> dict[str, Outcome]:
    counts: Counter[str] = Counter()
    columns = (
        TextColumn(catalog.category),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[counts]}"),
    )
    with Progress(*columns) as progress:
        task = progress.add_task("", total=len(addresses), counts="")

        def tell(_: str, outcome: Outcome) -> None:
            counts[outcome.reason] += 1
            progress.update(
                task,
                advance=1,
                counts=", ".join(f"{counts[reason]:,} {reason}" for reason in REASONS if counts[reason]),
            )

        return download(addresses, folder, there=catalog.images, tell=tell)
