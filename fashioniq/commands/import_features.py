"""`fashioniq import-features`."""

from fashioniq.config import ImportFeatures
from fashioniq.data.catalog import Catalog
from fashioniq.features import pictures as sources
from fashioniq.features.store import features_folder
from fashioniq.features.stores import fill


def run(settings: ImportFeatures) -> None:
    """Write the feature store of a category from a file of vectors, and print a summary."""
    catalog = Catalog(settings.data, settings.category)
    root = features_folder(settings.data, settings.category, settings.features)
    fill(root, catalog, sources.own_vectors(settings, catalog))
