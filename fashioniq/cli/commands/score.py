"""`fashioniq score`."""

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from fashioniq.config import Score
from fashioniq.data.catalog import Catalog
from fashioniq.data.evaluations import SingleTurnMetrics
from fashioniq.evaluation.session_scores import score_sessions
from fashioniq.evaluation.single_turn import (
    SingleTurnSearcher,
    check_categories,
    coverage_line,
    evaluate,
    known_products,
    task_of,
)
from fashioniq.evaluation.single_turn_search import read_predictions
from fashioniq.files import UserError, remove_leftovers, write_json


def run(settings: Score) -> SingleTurnMetrics | dict[str, Any] | None:
    """Score the predictions for each category on the captioned pairs of a split, or on recorded sessions; or write
    the queries that they answer.
    """
    check_categories(settings, "predictions")
    if settings.queries:
        _write_queries(settings, settings.queries)
        return None
    if not settings.predictions:
        raise UserError(
            "no predictions given; give --predictions FILE for each category; --queries FOLDER lists the queries"
        )
    if settings.sessions:
        return score_sessions(settings)
    return evaluate(
        settings, partial(_of_predictions, settings), Path(settings.predictions[0]).with_suffix("")
    )


def _of_predictions(settings: Score, number: int, catalog: Catalog) -> SingleTurnSearcher:
    """Searcher that reads a prediction file. Its products are those with vectors or scores, or all for rankings.

    --features limits both to the products of a store.
    """
    path, known = settings.predictions[number], known_products(settings, number, catalog)
    given = read_predictions(Path(path), settings.exclude_candidate, settings.batch_size)
    products = known if given.products is None else known & given.products
    return SingleTurnSearcher(products, given.search, {"answers": path, "model": given.kind})


def _write_queries(settings: Score, folder: Path) -> None:
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
