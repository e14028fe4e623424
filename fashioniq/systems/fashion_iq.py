"""Fashion IQ's system: it shows the best product so far, the person says how the one wanted differs."""

from pathlib import Path

from fashioniq.askers.best_item import BestItem
from fashioniq.checkpoints import read_facts
from fashioniq.data.catalog import Catalog
from fashioniq.features.cards import cards_of
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.rollout import System
from fashioniq.systems.places import check_split, first_path, settings_of, store_of
from fashioniq.trained import load_retriever, pick_device


def load(
    run: Path, *, features: Path | None, split: str, device: str, data: Path | None, category: str | None
) -> System:
    """The system of a run of train-retriever or train-composer; a product is shown once if that was so in training.

    Raises UserError where a file is missing or does not fit the run.
    """
    check_split(split)
    facts, settings = read_facts(run, "retriever"), settings_of(run)
    catalog = Catalog(data or Path(facts["data"]["folder"]), category or facts["category"])
    own = None if data else first_path(settings.get("features"))
    store = store_of(run, catalog.root, catalog.category, features or own)
    retriever, vocabulary, _ = load_retriever(run, catalog.category, store)
    retriever.to(pick_device(device)).requires_grad_(False)
    items = store.items(catalog.ids(split)).to(pick_device(device))
    gallery = Gallery(items, retriever.embed_images(items.features_ND))
    asker = BestItem(bool(facts.get("exclude_shown")))
    return System(retriever, asker, gallery, vocabulary, cards_of(catalog, store, items.ids))
