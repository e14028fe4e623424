"""`fashioniq eval-single-turn`."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch

from fashioniq.askers.best_item import BestItem
from fashioniq.config import EvalSingleTurn
from fashioniq.data.catalog import Catalog
from fashioniq.data.evaluations import SingleTurnMetrics
from fashioniq.evaluation.session_scores import score_sessions
from fashioniq.evaluation.single_turn import (
    SingleTurnSearcher,
    check_categories,
    coverage_line,
    evaluate_single_turn,
    known_products,
    task_of,
)
from fashioniq.evaluation.single_turn_search import (
    QueryRanks,
    SingleTurnQuery,
    queries_of_system,
    ranks_in_gallery,
    read_predictions,
)
from fashioniq.features.store import open_store
from fashioniq.files import UserError, remove_leftovers, write_json
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.rollout import System
from fashioniq.models.device import pick_device
from fashioniq.runs import RetrieverRun, read_run
from fashioniq.runs.trained import load_retriever
from fashioniq.runs.wording import scored_by, with_words_of


def run(settings: EvalSingleTurn) -> SingleTurnMetrics | dict[str, Any] | None:
    """Evaluate the retriever or the predictions of each category on the captioned pairs of a split, or predictions on
    recorded sessions; or write the queries that predictions answer.
    """
    check_categories(settings, "run", "predictions")
    if settings.queries:
        _write_queries(settings, settings.queries)
        return None
    if settings.sessions:
        return score_sessions(settings)
    if settings.predictions:
        beside = Path(settings.predictions[0]).with_suffix("")
        return evaluate_single_turn(settings, partial(_of_predictions, settings), beside)
    if not settings.run:
        raise UserError(
            "nothing to evaluate; give --run RUN for each category, or --predictions FILE of another system"
        )
    for folder in settings.run:
        read_run(Path(folder), RetrieverRun)  # before the data, because a wrong --run is more likely
    return evaluate_single_turn(settings, partial(_of_run, settings), Path(settings.run[0]))


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
        if settings.score == "words":
            system = with_words_of(system, folder, catalog, vocabulary)
        query = queries_of_system(system, queries, vocabulary, max_words, settings.batch_size)
        return ranks_in_gallery(
            system.gallery, query, queries, settings.exclude_candidate, settings.batch_size
        )

    composition = f" {facts.sizes['composition']}" if facts.model == "composer" else ""
    depends_on = {
        "answers": str(folder),
        "model": facts.model + composition,
        "attributes": facts.attrs,
        "words": max_words,
        "features": store.encoder,
        "pictures": catalog.pictures_behind(store.facts.of_words),
    } | scored_by(settings.score)
    return SingleTurnSearcher(set(store.ids), search_queries, depends_on)


def _of_predictions(settings: EvalSingleTurn, number: int, catalog: Catalog) -> SingleTurnSearcher:
    """Searcher that reads a prediction file. Its products are those with vectors or scores, or all for rankings.

    --features limits both to the products of a store.
    """
    path, known = settings.predictions[number], known_products(settings, number, catalog)
    given = read_predictions(Path(path), settings.exclude_candidate, settings.batch_size)
    products = known if given.products is None else known & given.products
    return SingleTurnSearcher(products, given.search, {"answers": path, "model": given.kind})


def _write_queries(settings: EvalSingleTurn, folder: Path) -> None:
    """Write queries and gallery of each category to a file."""
    catalogs = [Catalog(settings.data, category) for category in settings.category]
    tasks = [
        task_of(settings, one, known_products(settings, number, one)) for number, one in enumerate(catalogs)
    ]
    for task in tasks:
        path = folder / f"queries.{task.category}.json"
        remove_leftovers(folder, of=path.name)
        queries = {
            query.name: {key: value for key, value in asdict(query).items() if key != "name"}
            for query in task.queries
        }
        write_json(
            path,
            {"category": task.category, **task.facts, "queries": queries, "gallery": task.ids},
            indent=None,
        )
        print(f"{coverage_line(task.category, task.facts)}: {len(queries)} queries in {path}")
