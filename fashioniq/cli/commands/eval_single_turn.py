"""`fashioniq eval-single-turn`."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch

from fashioniq.askers.best_item import BestItem
from fashioniq.config import EvalSingleTurn
from fashioniq.data.catalog import Catalog
from fashioniq.data.evaluations import SingleTurnMetrics
from fashioniq.data.queries import SingleTurnQuery
from fashioniq.evaluation.single_turn import SingleTurnSearcher, check_categories, evaluate
from fashioniq.evaluation.single_turn_search import QueryRanks, asked, search
from fashioniq.features.store import open_store
from fashioniq.files import UserError
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.rollout import System
from fashioniq.models.device import pick_device
from fashioniq.runs import RetrieverRun, read_run
from fashioniq.runs.trained import load_retriever
from fashioniq.runs.wording import with_words_of


def run(settings: EvalSingleTurn) -> SingleTurnMetrics:
    """Evaluate the retriever of each category on the captioned pairs of a split."""
    check_categories(settings, "run")
    if not settings.run:
        raise UserError(
            "no retriever given; give --run RUN for each category; `fashioniq score` reads files of other "
            "systems"
        )
    for folder in settings.run:
        read_run(Path(folder), RetrieverRun)  # before the data, because a wrong --run is more likely
    return evaluate(settings, partial(_of_run, settings), Path(settings.run[0]))


def _of_run(settings: EvalSingleTurn, number: int, catalog: Catalog) -> SingleTurnSearcher:
    """Searcher of a run, for the products of its feature store."""
    store = open_store(
        settings.data, catalog.category, Path(settings.features[number]) if settings.features else None
    )
    folder, device = Path(settings.run[number]), pick_device(settings.device)
    retriever, vocabulary, facts = load_retriever(folder, catalog.category, store)
    retriever.to(device)
    if facts.data.fingerprint != catalog.fingerprint():
        print(
            f"note: the splits or captions of {catalog.category} differ from those that {folder} was "
            "trained on"
        )
    max_words = retriever.max_words * (1 if settings.captions == "each" else 2)

    @torch.no_grad()
    def search_queries(ids: Sequence[str], queries: Sequence[SingleTurnQuery]) -> QueryRanks:
        items = store.items(ids, read=False).to(device)
        gallery = Gallery(items, items.embedded(retriever.embed_images))
        system = System(retriever, BestItem(), gallery, vocabulary)
        system = with_words_of(system, folder, catalog, vocabulary)
        query = asked(system, queries, vocabulary, max_words, settings.batch_size)
        return search(system.gallery, query, queries, settings.exclude_candidate, settings.batch_size)

    composition = f" {facts.sizes['composition']}" if facts.model == "composer" else ""
    depends_on = {
        "answers": str(folder),
        "model": facts.model + composition,
        "attributes": facts.attrs,
        "words": max_words,
        "features": store.encoder,
        "pictures": catalog.pictures_behind(store.facts.encoder),
    }
    return SingleTurnSearcher(set(store.ids), search_queries, depends_on)
