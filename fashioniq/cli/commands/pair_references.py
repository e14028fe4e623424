"""Pair every product with another one of its split by the TF-IDF weights of shared title words."""

from pathlib import Path

from fashioniq.config import PairReferences
from fashioniq.data.catalog import Catalog
from fashioniq.prepare.pairing import write_pairs


def run(settings: PairReferences) -> Path:
    """Write the pairs of all splits."""
    catalog = Catalog(settings.data, settings.category)
    folder = settings.out or catalog.root / "pairs"
    write_pairs(catalog, folder)
    return folder
