"""`fashioniq score`."""

from functools import partial
from pathlib import Path

from fashioniq.config import Score
from fashioniq.data.catalog import Catalog
from fashioniq.data.rankings import read_rankings, read_vectors
from fashioniq.evaluation.single_turn import Searcher, check_categories, evaluate, known_products
from fashioniq.evaluation.single_turn_search import look_up, search_vectors
from fashioniq.files import UserError


def run(settings: Score) -> None:
    """Score the predictions for each category on the captioned pairs of a split."""
    check_categories(settings, "predictions")
    if not settings.predictions:
        raise UserError(
            "no predictions given; give --predictions FILE for each category; write-queries lists the queries"
        )
    evaluate(settings, partial(_of_predictions, settings), Path(settings.predictions[0]).with_suffix(""))


def _of_predictions(settings: Score, number: int, catalog: Catalog) -> Searcher:
    """Searcher that reads a prediction file. Its products are those with vectors, or all for rankings.

    --features limits both to the products of a store.
    """
    path, known = Path(settings.predictions[number]), known_products(settings, number, catalog)
    if path.suffix != ".npz":
        rankings = read_rankings(path)
        search = partial(look_up, rankings, exclude_candidate=settings.exclude_candidate, path=path)
        return Searcher(known, search, {"answers": str(path), "model": "rankings"})
    given = read_vectors(path)
    search = partial(
        search_vectors,
        given,
        exclude_candidate=settings.exclude_candidate,
        batch_size=settings.batch_size,
        path=path,
    )
    return Searcher(known & set(given.ids), search, {"answers": str(path), "model": "vectors"})
