"""`fashioniq download-images`."""

from collections import Counter
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from fashioniq.categories import file_name
from fashioniq.config import DownloadImages
from fashioniq.data.catalog import SPLITS, Catalog
from fashioniq.files import UserError, locked, read_json, write_json
from fashioniq.prepare.downloading import REASONS, Outcome, coverage, download, read_addresses
from fashioniq.prepare.fetching import Limits
from fashioniq.report.tables import print_table


def run(settings: DownloadImages) -> None:
    """Download missing pictures, print the counts for each split, and write coverage.json."""
    catalog = Catalog(settings.data, settings.category)
    name = file_name(settings.category)
    report = catalog.root / "coverage.json"
    _read(report)  # fail before the download, not after it, if the file is invalid
    urls = settings.urls or _list_of_addresses(catalog.root, name)
    known = read_addresses(urls)
    addresses = {product: known.get(product, []) for product in catalog.all_ids()}
    if not any(addresses.values()):
        raise UserError(
            f"{urls} has no address of any product of {catalog.category}: "
            "give this category's list with --urls"
        )
    limits = Limits(
        settings.connections,
        settings.per_host,
        settings.retries,
        settings.timeout,
        int(1e6 * settings.max_megabytes),
    )
    outcomes = _download(addresses, catalog, catalog.root / "images" / name, limits)
    splits = {
        split: catalog.ids(split)
        for split in SPLITS
        if (catalog.root / "image_splits" / f"split.{name}.{split}.json").exists()
    }
    found = coverage(splits, outcomes)
    with locked(catalog.root, wait=True):  # other categories may be downloaded at the same time
        write_json(report, {**_read(report), name: found})
    _print_counts(catalog.category, found, report)


def _read(report: Path) -> dict:
    return read_json(report, "the coverage of earlier downloads", dict) if report.exists() else {}


def _list_of_addresses(root: Path, name: str) -> Path:
    usual, beside = root / "image_url" / f"asin2url.{name}.txt", root / f"asin2url.{name}.txt"
    return beside if beside.exists() and not usual.exists() else usual


def _download(
    addresses: dict[str, list[str]], catalog: Catalog, folder: Path, limits: Limits
) -> dict[str, Outcome]:
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

        return download(addresses, folder, limits, catalog.images, tell)


def _print_counts(category: str, found: dict, report: Path) -> None:
    kinds, splits = ("asked", *REASONS, "duplicates"), found["splits"]
    print_table(
        ["", *splits], [[kind, *(f"{counts[kind]:,}" for counts in splits.values())] for kind in kinds]
    )
    asked, got, failed = (
        sum(counts[column] for counts in found["splits"].values()) for column in ("asked", "got", "failed")
    )
    print(
        f"{got:,} of {asked:,} pictures of {category} are available; missing ones and reasons are in {report}"
    )
    if failed:
        print(f"{failed:,} failed after all retries: run the same command again to retry them")
