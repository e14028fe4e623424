"""`fashioniq score`."""

from functools import partial
from pathlib import Path

from fashioniq.config import Score
from fashioniq.data.catalog import Catalog
from fashioniq.evaluation.session_scores import score_sessions
from fashioniq.evaluation.single_turn import Searcher, check_categories, evaluate, known_products
from fashioniq.evaluation.single_turn_search import read_predictions
from fashioniq.files import UserError


def run(settings: Score) -> None:
    """Score the predictions for each category on the captioned pairs of a split, or on recorded sessions."""
    check_categories(settings, "predictions")
    if not settings.predictions:
        raise UserError(
            "no predictions given; give --predictions FILE for each category; write-queries lists the queries"
        )
    if settings.sessions:
        score_sessions(settings)
    else:
        evaluate(settings, partial(_of_predictions, settings), Path(settings.predictions[0]).with_suffix(""))


def _of_predictions(settings: Score, number: int, catalog: Catalog) -> Searcher:
    """Searcher that reads a prediction file. Its products are those with vectors or scores, or all for rankings.

    --features limits both to the products of a store.
    """
    path, known = settings.predictions[number], known_products(settings, number, catalog)
    given = read_predictions(Path(path), settings.exclude_candidate, settings.batch_size)
    products = known if given.products is None else known & given.products
    return Searcher(products, given.search, {"answers": path, "model": given.kind})
