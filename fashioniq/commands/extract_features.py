"""`fashioniq extract-features`."""

from fashioniq.config import ExtractFeatures
from fashioniq.data.catalog import Catalog
from fashioniq.features import pictures as sources
from fashioniq.features.store import features_folder
from fashioniq.features.stores import fill
from fashioniq.features.writer import words_to_keep
from fashioniq.files import UserError


def run(settings: ExtractFeatures) -> None:
    """Write the feature store of a category from pictures or metadata, and print a summary."""
    catalog = Catalog(settings.data, settings.category)
    root = features_folder(settings.data, settings.category, settings.features)
    if settings.encoder != "metadata":
        source = sources.pictures(settings, catalog, words_to_keep(root, settings.update))
        if settings.metadata:
            source = sources.with_metadata(source, catalog, settings.dimensions)
        fill(root, catalog, source, settings.update)
        return
    if settings.predictor:
        raise UserError("--predictor needs pictures: it cannot be combined with --encoder metadata")
    if settings.update:
        raise UserError(
            f"--update cannot be combined with --encoder metadata: remove {root} and run the command again, "
            "which takes seconds"
        )
    fill(root, catalog, sources.metadata(settings, catalog))
