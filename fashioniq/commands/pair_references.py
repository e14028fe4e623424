"""Pair every product with another one of its split by the TF-IDF weights of shared title words."""

from fashioniq.config import PairReferences
from fashioniq.data.catalog import Catalog
from fashioniq.prepare.pairing import write_pairs


def run(settings: PairReferences) -> None:
    """Write the pairs of all splits."""
    catalog = Catalog(settings.data, settings.category)
    write_pairs(catalog, settings.out or catalog.root / "pairs")
