"""Feature stores of encoders: checked, found for a catalog, and written with a progress bar and a summary."""

import re
import sys
from collections.abc import Sequence
from contextlib import ExitStack, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from rich.progress import Progress

from fashioniq.config import ExtractFeatures
from fashioniq.data.catalog import Catalog
from fashioniq.encoders.protocol import Encoder
from fashioniq.features.store import DIFFERENT, FeatureStore, features_folder
from fashioniq.features.writer import fill_store, words_to_keep
from fashioniq.files import UserError, one_line

if TYPE_CHECKING:
    from fashioniq.features.picture_source import Products
    from fashioniq.features.pictures import Source


def check_encoder(store: FeatureStore, name: str, encoder: Encoder) -> None:
    """Raise UserError if the vectors of a store are not those of an encoder."""
    if key := encoder.identity.difference(store.facts):
        difference = f"{str(getattr(store.facts, key))[:60]}, not {str(getattr(encoder.identity, key))[:60]}"
        raise UserError(
            f"{store.root} has vectors of {DIFFERENT[key]} than those of {name} ({difference}); extract them with "
            f"`fashioniq extract-features --encoder {name}`, and give their folder with --features"
        )


def store_of_encoder(catalog: Catalog, name: str, encoder: Encoder, out: Path | None = None) -> FeatureStore:
    """Store of a catalog with the vectors of an encoder: DATA/features/CATEGORY if it has them, else
    DATA/features/CATEGORY-NAME. If neither has all products, the missing ones are added to the latter, or all are
    written to `out`.
    """
    from fashioniq.features.pictures import of_encoder  # here, as it imports timm and scikit-learn

    own = features_folder(catalog.root, catalog.category, None)
    root = own.with_name(f"{own.name}-{re.sub('[^A-Za-z0-9_.-]+', '-', Path(name).name)}")
    for folder in (own, root):
        store = FeatureStore(folder) if (folder / "store.json").exists() else None
        if store and encoder.identity.difference(store.facts) is None and is_complete(store, catalog):
            return store
    root = out or root
    settings = ExtractFeatures(category=catalog.category, data=catalog.root, encoder=name)
    with redirect_stdout(sys.stderr):  # the caller may print JSON
        fill(root, catalog, of_encoder(encoder, catalog, settings, words_to_keep(root, True)), update=True)
    return FeatureStore(root)


def is_complete(store: FeatureStore, catalog: Catalog) -> bool:
    """Whether a store has all products of a catalog, but those that it could not read."""
    return all(name in store or name in store.facts.failures for name in catalog.all_ids())


def fill(root: Path, catalog: "Products", source: "Source", update: bool = False) -> FeatureStore:
    """Write all products to the store `root` from a source of vectors, and print a summary."""
    facts, extract = source
    with ExitStack() as at_end:
        bar = Progress()
        task = bar.add_task(f"{catalog.category}: {facts.encoder}")

        def progress(count: int, of: int) -> None:
            if not bar.live.is_started:  # show no bar if there is nothing to do
                at_end.enter_context(bar)
            bar.update(task, advance=count, total=of)

        store, asked = fill_store(root, catalog.all_ids(), facts, extract, progress=progress, update=update)
    _print(store, asked, catalog.all_ids())
    return store


def _print(store: FeatureStore, asked: int, ids: Sequence[str]) -> None:
    failures = store.facts.failures
    held = f"{len({*store.ids} & {*ids})} of {len(ids)} products as vectors of {store.size} numbers in {store.root}"
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
