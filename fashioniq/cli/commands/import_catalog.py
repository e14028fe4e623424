"""`fashioniq import-catalog`."""

from collections.abc import Mapping
from dataclasses import fields
from urllib.parse import unquote

from rich.console import Console
from rich.progress import Progress

from fashioniq.categories import canonical
from fashioniq.config import ImportCatalog
from fashioniq.data.languages import LANGUAGES
from fashioniq.data.offers import unread_file
from fashioniq.prepare.importing import ImportReport, import_catalog
from fashioniq.prepare.reimporting import OfferReport, update_offers
from fashioniq.prepare.retailer_products import REPEATED
from fashioniq.prepare.source import ImportSource

_MOST_FOLDERS = 8  # folders printed by name


def run(settings: ImportCatalog) -> ImportReport | OfferReport:
    """Create a Fashion IQ folder from a table and pictures, and print what was kept and dropped."""
    source = ImportSource(**{field.name: getattr(settings, field.name) for field in fields(ImportSource)})
    if source.has_offers_only:
        return _update(source, settings)
    console = Console(stderr=True)
    # otherwise an empty line remains
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(settings.category, total=None)
        report = import_catalog(
            source,
            settings.data,
            settings.category,
            seed=settings.seed,
            workers=settings.workers,
            tell=lambda what, done, all: bar.update(
                task, description=f"{settings.category}: {what}", completed=done, total=all
            ),
        )
    splits = ", ".join(f"{split} {number}" for split, number in report.splits.items())
    print(f"{settings.category}: {report.kept} of {report.offered} products kept; {splits}")
    if report.again:
        print(
            f"  imported again: {report.new} products are new, {report.gone} are gone; next, run `fashioniq "
            "extract-features --update`, and register the run again or train one"
        )
    if report.by_people:
        print(f"  {report.by_people} captions by people wait in set_aside/ for products that are gone")
    if report.folders if not source.table else report.other_folders and "no picture" in report.dropped:
        print(f"  {_folders(report)}")
    for reason, number in report.dropped.items():
        print(f"  dropped: {number} × {reason}")
    for reason, number in report.skipped.items():
        print(f"  not unpacked: {number} × {reason}")
    if report.dropped or report.skipped:
        print(f"  each is listed in {settings.data / 'dropped.json'}")
    if any(source.offer_columns.values()):
        print(f"  {report.offers} products have an offer")
        if REPEATED in report.dropped:
            print("  of rows with one id, sizes and the lowest price are of those that are not sold out")
        _print_unread(report.unread, settings)
    if report.encoded:
        first = report.encoded[0]
        print(
            f"  {len(report.encoded)} ids are percent-encoded for file names, such as {first} for {unquote(first)}"
        )
    if report.foreign:
        todo = (
            f"import them with --language {report.foreign.language}"
            if report.foreign.language
            else f"only {' and '.join(LANGUAGES)} have generated captions, others need captions by people"
        )
        print(f"  titles or attributes do not look English ({', '.join(report.foreign.words)}); {todo}")
    if report.replaced:
        print(f"  {report.replaced} use another picture because the first is unreadable")
    if report.downloads:
        print(f"  downloads are kept in {report.downloads} and reused by another import")
    if report.alike:
        print(f"  {report.alike} of {report.kept} pairs have no difference to describe, and no captions")
    print(_closing(settings, report))
    return report


def _update(source: ImportSource, settings: ImportCatalog) -> OfferReport:
    report = update_offers(source, settings.data, settings.category)
    print(f"{settings.category}: {report.offers} of {report.products} products have an offer")
    for reason, number in report.dropped.items():
        print(f"  dropped: {number} × {reason}")
    _print_unread(report.unread, settings, bool(report.dropped))
    print("a running `fashioniq serve` has them once its run is registered again, with POST /v1/models")
    return report


def _print_unread(unread: Mapping[str, int], settings: ImportCatalog, more: bool = False) -> None:
    for reason, number in unread.items():
        print(f"  not read: {number} × {reason.removesuffix(' not read')}")
    if unread or more:
        print(f"  each is listed in {unread_file(settings.data, settings.category)}")


def _folders(report: ImportReport) -> str:
    """Folders that were imported, and those that were not, such as "200 of 600 photos: folder shirt"."""
    taken, others = sum(report.folders.values()), sum(report.other_folders.values())
    some = report.folders if len(report.folders) > 1 else {}
    names = _counted(some) or ", ".join(report.folders)
    line = f"{taken} of {taken + others} photos: {'folders' if some else 'folder'} {names}"
    return f"{line}; not taken: {_counted(report.other_folders)}" if others else line


def _counted(folders: Mapping[str, int]) -> str:
    """Folders with their numbers of pictures, largest first."""
    largest = sorted(folders.items(), key=lambda folder: (-folder[1], folder[0]))
    shown = [f"{name} ({number})" for name, number in largest[:_MOST_FOLDERS]]
    more = len(largest) - len(shown)
    return ", ".join([*shown, f"{more} more"] if more else shown)


def _closing(settings: ImportCatalog, report: ImportReport) -> str:
    """What the catalog can be used for, and how to get captions where labels give too few."""
    place = f"{settings.category} are in {settings.data}"
    if report.by_people is not None:
        return f"{place}; their relative captions are by people, as before"
    if report.differing > report.alike:
        return f"{place}; their relative captions are generated from attribute differences, not written by people"
    needed = (
        "to train with dialogs, let people write captions with "
        f"`fashioniq caption-pairs --data {settings.data} --category {canonical(settings.category)}`, "
        "or import a table with columns for --attributes"
    )
    if report.differing:
        return f"{place}, with too few captions to train with; {needed}"
    return f"{place}, for features and search only: there are no captions, because no attributes differ; {needed}"
