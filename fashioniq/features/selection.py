"""Selection of pairs and items shared by several commands."""

from pathlib import Path
from typing import Any

from fashioniq.categories import canonical
from fashioniq.config import EvalDialogs, TrainRetriever
from fashioniq.data.catalog import Catalog, Pair
from fashioniq.data.items import Items
from fashioniq.features.store import FeatureStore
from fashioniq.files import UserError


def pairs_with_targets(catalog: Catalog, split: str) -> list[Pair]:
    """Pairs of a split with a target. Raises UserError if there are none."""
    pairs = [pair for pair in catalog.pairs(split) if pair.target]
    if not pairs:
        raise UserError(
            f"the {split} captions of {catalog.category} have no targets, like the released test captions: "
            "use train or val"
        )
    return pairs


def pairs_with_features(catalog: Catalog, store: FeatureStore, split: str) -> list[Pair]:
    """Pairs of a split with a target and with features of both products; prints their number."""
    pairs = pairs_with_targets(catalog, split)
    usable = [pair for pair in pairs if pair.candidate in store and pair.target and pair.target in store]
    if not usable:
        raise UserError(
            f"no {split} pair of {catalog.category} has features of both products in {store.root}: "
            "extract this category's features"
        )
    print(f"{catalog.category} {split}: {len(usable)} of {len(pairs)} captioned pairs have features")
    return usable


def split_items(catalog: Catalog, store: FeatureStore, split: str, read: bool = True) -> Items:
    """Products of a split with features, which are all read once to check them unless `read` is false.

    Raises UserError if there are fewer than two, too few for a ranking.
    """
    items = store.items(catalog.ids(split), read)
    if len(items) < 2:
        raise UserError(
            f"expected features of at least two products in the {split} split of {catalog.category}, "
            f"found {len(items)}"
        )
    return items


def check_enough_to_show(settings: TrainRetriever | EvalDialogs, *splits: Items) -> None:
    """Raise UserError if --exclude-shown leaves too few products in a split for all turns."""
    fewest = min(len(items) for items in splits)
    if settings.exclude_shown and settings.turns > fewest:
        raise UserError(
            f"--exclude-shown needs a product for each of the --turns {settings.turns}, "
            f"found {fewest} products: give fewer --turns"
        )


def describe_data(catalog: Catalog, store: FeatureStore, coverage: dict[str, float]) -> dict[str, Any]:
    """Data description for a run; `coverage` is the usable share of products or pairs in each split."""
    return {
        "folder": str(catalog.root),
        "fingerprint": catalog.fingerprint(),
        "pictures": catalog.pictures_behind(store.facts.of_words),
        "captions": catalog.captions_origin,
        "coverage": coverage,
    }


def run_folder(run: Path | None, kind: str, category: str, attrs: bool) -> Path:
    """Folder of a run: `run` if given, else for example runs/captioner-dresses-attrs."""
    return run or Path("runs") / f"{kind}-{canonical(category)}{'-attrs' if attrs else ''}"
