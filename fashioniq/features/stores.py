"""Writing of a feature store with a progress bar and a summary."""

from contextlib import ExitStack
from pathlib import Path

from rich.progress import Progress

from fashioniq.data.catalog import Catalog
from fashioniq.features.pictures import Source
from fashioniq.features.store import FeatureStore
from fashioniq.features.writer import fill_store
from fashioniq.files import one_line


def fill(root: Path, catalog: Catalog, source: Source, update: bool = False) -> None:
    """Write all products of a catalog to the store `root` from a source of vectors, and print a summary."""
    facts, extract = source
    with ExitStack() as at_end:
        bar = Progress()
        task = bar.add_task(f"{catalog.category}: {facts.encoder}")

        def progress(count: int, of: int) -> None:
            if not bar.live.is_started:  # show no bar if there is nothing to do
                at_end.enter_context(bar)
            bar.update(task, advance=count, total=of)

        store, asked = fill_store(root, catalog.all_ids(), facts, extract, progress=progress, update=update)
    _print(store, asked, len(catalog.all_ids()))


def _print(store: FeatureStore, asked: int, products: int) -> None:
    failures = store.facts.failures
    held = f"{len(store.ids)} of {products} products × {store.size} in {store.root}"
    if not asked:
        print(
            f"nothing to do, the store is complete: {held}, {len(failures)} left out, "
            f"see {store.root / 'store.json'}"
        )
        return
    print(f"{held}, {len(store.attribute_words)} attribute words ({store.facts.attributes})")
    if store.has_random_weights:
        print("warning: the encoder has random weights; give --weights for vectors that mean something")
    if same := store.duplicates():
        having = "product has" if same == 1 else "products have"
        print(f"warning: {same} {having} the vector of another one; no ranking can tell them apart")
    for name, reason in list(failures.items())[:5]:
        print(one_line(f"  left out: {name}: {reason}"))
    if len(failures) > 5:
        print(f"  left out: {len(failures) - 5} more, all in {store.root / 'store.json'}")
