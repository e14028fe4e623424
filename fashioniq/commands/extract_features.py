"""`fashioniq extract-features`."""

from fashioniq.config import ExtractFeatures
from fashioniq.data.catalog import Catalog
from fashioniq.features import pictures as sources
from fashioniq.features.store import features_folder
from fashioniq.features.stores import fill
from fashioniq.features.writer import words_to_keep
from fashioniq.files import UserError


def run(settings: ExtractFeatures) -> None:
    """Fill the category's feature store from pictures, or from words, and print what it holds and lacks."""
    catalog = Catalog(settings.data, settings.category)
    root = features_folder(settings.data, settings.category, settings.features)
    if settings.encoder != "metadata":
        fill(
            root,
            catalog,
            sources.pictures(settings, catalog, words_to_keep(root, settings.update)),
            settings.update,
        )
        return
    if settings.predictor:
        raise UserError("--predictor needs pictures, but --encoder is metadata: leave one of them out")
    if settings.update:
        raise UserError(
            f"--update needs pictures, but --encoder is metadata: remove {root} to compute it again in "
            f"seconds"
        )
    fill(root, catalog, sources.metadata(settings, catalog))
