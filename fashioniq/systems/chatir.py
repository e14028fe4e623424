"""ChatIR's system: the person describes a picture, then the system asks about it, and a text encoder reads all of it."""

from pathlib import Path
from typing import NamedTuple

from fashioniq.askers.attribute_questions import CandidateAware, known
from fashioniq.askers.limited import Limited
from fashioniq.checkpoints import read_facts
from fashioniq.data.cards import ItemCards
from fashioniq.data.catalog import ATTRIBUTE_LISTS, Catalog
from fashioniq.data.items import Items
from fashioniq.data.topics import topics_of
from fashioniq.features.cards import cards_of
from fashioniq.features.store import FeatureStore
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.rollout import System
from fashioniq.models.text import TextRetriever, unit
from fashioniq.systems.places import check_split, first_path, settings_of, store_of
from fashioniq.trained import load_dialog_encoder, pick_device

CANDIDATES = 100  # nearest products that the questions are chosen by


class Place(NamedTuple):
    """The catalog of a run, None for a run without a category, and its feature store."""

    catalog: Catalog | None
    store: FeatureStore


def place_of(run: Path, *, features: Path | None, data: Path | None, category: str | None) -> Place:
    """The data of a run of train-dialog-encoder; what is given takes precedence. Raises UserError where they are missing."""
    read_facts(run, "dialog encoder")
    settings = settings_of(run)
    own = None if data else first_path(settings.get("features"))
    data, category = data or first_path(settings.get("data")), category or settings.get("category")
    store = store_of(run, data, category, features or own)
    return Place(Catalog(data, category) if data and category else None, store)


def load(
    run: Path, *, features: Path | None, split: str, device: str, data: Path | None, category: str | None
) -> System:
    """The system of a run of train-dialog-encoder, which asks the question that splits the candidates best.

    It asks nothing where the catalog has no labels. Without a category all images of the feature store are
    searched. Raises UserError where a file is missing or does not fit the run.
    """
    check_split(split)
    catalog, store = place_of(run, features=features, data=data, category=category)
    encoder, separator = load_dialog_encoder(run, store)
    encoder.to(pick_device(device)).requires_grad_(False)
    found = store.items(catalog.ids(split) if catalog else store.ids).to(pick_device(device))
    vectors_ND = unit(encoder.embed_images(found.features_ND))
    gallery = Gallery(Items.without_attributes(found.ids, vectors_ND), vectors_ND)
    cards = cards_of(catalog, store, found.ids) if catalog else ItemCards()
    retriever = TextRetriever(encoder, separator)
    vocabulary = getattr(encoder, "vocabulary", None)  # CLIP and BLIP read any word
    return System(retriever, _asker(catalog, found.ids), gallery, vocabulary, cards)


def _asker(catalog: Catalog | None, ids: list[str]) -> Limited:
    """Questions about the attributes in which the products of a catalog differ, each once."""
    topics = topics_of(catalog.labels, catalog.all_ids()) if catalog else []
    if catalog is None or not topics:
        return Limited(None, 0)
    labels = [catalog.labels.get(name, [[]] * ATTRIBUTE_LISTS) for name in ids]
    return Limited(CandidateAware(known(topics, labels), CANDIDATES), len(topics))
