"""`fashioniq import-catalog`."""

from dataclasses import fields

from rich.console import Console
from rich.progress import Progress

from fashioniq.config import ImportCatalog
from fashioniq.prepare.importing import import_catalog
from fashioniq.prepare.listings import Source


def run(settings: ImportCatalog) -> None:
    """Make a Fashion IQ folder of a table and pictures, and say what was kept and dropped."""
    source = Source(**{field.name: getattr(settings, field.name) for field in fields(Source)})
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:  # else it leaves an empty line
        task = bar.add_task(settings.category, total=None)
        report = import_catalog(
            source,
            settings.data,
            settings.category,
            seed=settings.seed,
            max_gigabytes=settings.max_gigabytes,
            workers=settings.workers,
            tell=lambda what, done, all: bar.update(task, description=f"{settings.category}: {what}", completed=done, total=all),
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
        print(f"  {report.replaced} have a further picture instead of the first, which cannot be read")
    if report.downloads:
        print(f"  downloads are kept in {report.downloads}: a repeated import needs not ask for them again")
    if report.differing:
        print(f"{settings.category} are in {settings.data}; their relative captions are made from attribute differences, not by people")
    else:
        print(f"{settings.category} are in {settings.data}, good for features and search; without attributes that differ there are no captions")
