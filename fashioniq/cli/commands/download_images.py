"""`fashioniq download-images`."""

from pathlib import Path
from typing import Any

from fashioniq.config import DownloadImages
from fashioniq.data.catalog import Catalog
from fashioniq.prepare.catalog_pictures import download_pictures
from fashioniq.prepare.downloading import REASONS
from fashioniq.report.tables import print_table


def run(settings: DownloadImages) -> dict[str, Any]:
    """Download missing pictures, print the counts for each split, and write coverage.json."""
    catalog = Catalog(settings.data, settings.category)
    found = download_pictures(catalog, settings.urls)
    _print_counts(catalog.category, found, catalog.root / "coverage.json")
    return found


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
