"""`fashioniq import-features`."""

from fashioniq.commands import sources
from fashioniq.commands.common import features_folder
from fashioniq.commands.stores import fill
from fashioniq.config import ImportFeatures
from fashioniq.data.catalog import Catalog
from fashioniq.files import UserError


def run(settings: ImportFeatures) -> None:
    """Fill the category's feature store with the user's own vectors, and print what it holds and lacks."""
    if settings.attribute_words and not settings.attribute_scores:
        raise UserError("--attribute-words needs --attribute-scores, a .npy file of N×A scores")
    catalog = Catalog(settings.data, settings.category)
    root = features_folder(settings.data, settings.category, settings.features)
    fill(root, catalog, sources.own_vectors(settings, catalog))
