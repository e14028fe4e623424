"""`fashioniq extract-features`."""

from contextlib import ExitStack

from rich.progress import Progress

from fashioniq.commands import sources
from fashioniq.commands.common import features_folder
from fashioniq.config import ExtractFeatures
from fashioniq.data.catalog import Catalog
from fashioniq.data.features import FeatureStore
from fashioniq.data.filling import fill_store, words_to_keep
from fashioniq.files import UserError


def run(settings: ExtractFeatures) -> None:
    """Fill the category's feature store and say what it holds and lacks."""
    catalog = Catalog(settings.data, settings.category)
    root = features_folder(settings.data, settings.category, settings.features)
    if not settings.vectors and (settings.ids or settings.attributes or settings.attribute_words):
        raise UserError("--ids, --attributes and --attribute-words describe --vectors: give that too")
    if settings.predictor and (settings.vectors or settings.encoder == "metadata"):
        raise UserError("--predictor looks at pictures, here words or vectors of your own are taken: leave one of them out")
    if settings.update and (settings.vectors or settings.encoder == "metadata"):
        raise UserError(f"--update is for pictures: vectors of words or of your own are made anew in seconds, when {root} is removed")
    if settings.vectors:
        facts, extract = sources.own_vectors(settings, catalog)
    elif settings.encoder == "metadata":
        facts, extract = sources.metadata(settings, catalog)
    else:
        facts, extract = sources.pictures(settings, catalog, words_to_keep(root, settings.update))
    with ExitStack() as at_end:
        bar = Progress()
        task = bar.add_task(f"{settings.category}: {facts.encoder}")

        def progress(count: int, of: int) -> None:
            if not bar.live.is_started:  # where there is nothing to do there is nothing to show
                at_end.enter_context(bar)
            bar.update(task, advance=count, total=of)

        store, asked = fill_store(root, catalog.all_ids(), facts, extract, progress, settings.update)
    _tell(store, asked, len(catalog.all_ids()))


def _tell(store: FeatureStore, asked: int, products: int) -> None:
    failures = store.facts.failures
    held = f"{len(store.ids)} of {products} products × {store.size} in {store.root}"
    if not asked:
        print(f"nothing to do, the store is complete: {held}, {len(failures)} left out, as {store.root / 'store.json'} tells")
        return
    print(f"{held}, {len(store.attribute_words)} attribute words ({store.facts.attributes})")
    for name, reason in list(failures.items())[:5]:
        print(f"  left out: {name}: {reason}")
    if len(failures) > 5:
        print(f"  left out: {len(failures) - 5} more, all in {store.root / 'store.json'}")
