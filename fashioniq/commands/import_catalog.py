"""`fashioniq import-catalog`."""

from dataclasses import fields

from rich.console import Console
from rich.progress import Progress

from fashioniq.config import ImportCatalog
from fashioniq.prepare.importing import import_catalog
from fashioniq.prepare.listings import Source


def run(settings: ImportCatalog) -> None:
    """Create a Fashion IQ folder from a table and pictures, and print what was kept and dropped."""
    source = Source(**{field.name: getattr(settings, field.name) for field in fields(Source)})
    console = Console(stderr=True)
    # otherwise an empty line remains
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(settings.category, total=None)
        report = import_catalog(
            source,
            settings.data,
            settings.category,
            seed=settings.seed,
            max_gigabytes=settings.max_gigabytes,
            workers=settings.workers,
            tell=lambda what, done, all: bar.update(
                task, description=f"{settings.category}: {what}", completed=done, total=all
            ),
        )
    splits = ", ".join(f"{split} {number}" for split, number in report.splits.items())
    print(f"{settings.category}: {report.kept} of {report.offered} products kept; {splits}")
    for reason, number in report.dropped.items():
        print(f"  dropped: {number} × {reason}")
    for reason, number in report.skipped.items():
        print(f"  not unpacked: {number} × {reason}")
    if report.dropped or report.skipped:
        print(f"  each is listed in {settings.data / 'dropped.json'}")
    if report.replaced:
        print(f"  {report.replaced} use another picture because the first is unreadable")
    if report.downloads:
        print(f"  downloads are kept in {report.downloads} and reused by another import")
    if report.differing:
        print(
            f"{settings.category} are in {settings.data}; "
            "their relative captions are generated from attribute differences, not written by people"
        )
    else:
        print(
            f"{settings.category} are in {settings.data}, for features and search only: "
            "there are no captions, because no attributes differ; collect some with `fashioniq caption-pairs`"
        )
