"""`fashioniq import-catalog`."""

from fashioniq.config import ImportCatalog
from fashioniq.data.importing import import_catalog


def run(settings: ImportCatalog) -> None:
    """Make a Fashion IQ folder of a table and pictures, and say what was kept and dropped."""
    report = import_catalog(
        settings.csv,
        settings.images,
        settings.data,
        settings.category,
        id=settings.id,
        title=settings.title,
        where=settings.where,
        attributes=settings.attributes,
        seed=settings.seed,
        group=settings.group,
    )
    splits = ", ".join(f"{split} {count}" for split, count in report.splits.items())
    print(f"{settings.category}: {report.kept} of {report.rows} rows kept; {splits}")
    for reason, count in report.dropped.items():
        print(f"  dropped: {count} × {reason}")
    print(f"{settings.category} are in {settings.data}; their relative captions are made from attribute differences, not by people")
