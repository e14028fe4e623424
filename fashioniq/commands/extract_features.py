"""`fashioniq extract-features`."""

from fashioniq.config import ExtractFeatures
from fashioniq.data.catalog import Catalog
from fashioniq.features import pictures as sources
from fashioniq.features.store import features_folder
from fashioniq.features.stores import fill
from fashioniq.features.writer import words_to_keep
from fashioniq.trained import pick_device


def run(settings: ExtractFeatures) -> None:
    """Write the feature store of a category from pictures, metadata or vectors, and print a summary."""
    catalog = Catalog(settings.data, settings.category)
    root = features_folder(settings.data, settings.category, settings.features)
    if settings.vectors and settings.ids:
        fill(root, catalog, sources.own_vectors(settings.vectors, settings.ids, catalog))
        return
    if settings.encoder != "metadata":
        source = _pictures(settings, catalog, words_to_keep(root, settings.update))
        if settings.metadata:
            source = sources.with_metadata(source, catalog)
        fill(root, catalog, source, settings.update)
        return
    fill(root, catalog, sources.metadata(settings, catalog))


def _pictures(settings: ExtractFeatures, catalog: Catalog, words: list[str] | None) -> sources.Source:
    if settings.engine == "local":
        return sources.pictures(settings, catalog, words)
    from fashioniq.features.ray_workers import RayWorkers  # needs an extra

    facts, extract = sources.pictures(settings, catalog, words)
    gpu = pick_device(settings.device).type == "cuda"
    return facts, RayWorkers(extract, settings.pictures, gpu)
