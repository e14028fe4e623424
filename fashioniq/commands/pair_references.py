"""Pair every product with products of its split by the TF-IDF weights of shared title words."""

from fashioniq.config import PairReferences
from fashioniq.data.catalog import Catalog
from fashioniq.prepare.pairing import FIRST, found_references, write_pairs
from fashioniq.report.tables import print_table


def run(settings: PairReferences) -> None:
    """Write the pairs of all splits, or measure how often the captioned references are found."""
    catalog = Catalog(settings.data, settings.category)
    if not settings.compare:
        write_pairs(catalog, settings.out or catalog.root / "pairs", settings.per_target)
        return
    rows = [
        [split, *(f"{count:,}" for count in counts), *(f"{share:.1f}" for share in shares)]
        for split, counts, shares in found_references(catalog)
    ]
    print_table(["split", "titles", "captioned", "with titles", *(f"first {count}" for count in FIRST)], rows)
    print("captioned references among the first of their targets (%); only products with titles are ranked")
