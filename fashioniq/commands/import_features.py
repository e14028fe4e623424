"""`fashioniq import-features`."""

from fashioniq.config import ImportFeatures
from fashioniq.data.catalog import Catalog
from fashioniq.features import pictures as sources
from fashioniq.features.store import features_folder
from fashioniq.features.stores import fill
from fashioniq.files import UserError


def run(settings: ImportFeatures) -> None:
    """Write the feature store of a category from a file of vectors, and print a summary."""
    if settings.attribute_words and not settings.attribute_scores:
        raise UserError("--attribute-words needs --attribute-scores, a .npy file of N×A scores")
    catalog = Catalog(settings.data, settings.category)
    root = features_folder(settings.data, settings.category, settings.features)
    fill(root, catalog, sources.own_vectors(settings, catalog))
