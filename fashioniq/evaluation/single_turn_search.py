"""Queries for single-turn retrieval from captioned pairs, candidate and captions to find the target, and the search for
them by a retriever, or by the vectors, scores or rankings of another system.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from fashioniq.data.catalog import Pair
from fashioniq.data.items import Items
from fashioniq.data.predictions import ScoreMatrix, Vectors, read_npz, read_rankings
from fashioniq.data.trec import depth_of
from fashioniq.data.words import Vocabulary
from fashioniq.files import UserError, explaining
from fashioniq.loop import query as loop_query
from fashioniq.loop.exact import NotFiniteError
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import Message
from fashioniq.loop.rollout import System, rollout
from fashioniq.users.recorded import RecordedReplies


@dataclass(frozen=True)
class SingleTurnQuery:
    """A query. The name is TARGET-CANDIDATE-n, with n from 1. The vectors of two texts are averaged."""

    name: str
    target: str
    candidate: str
    texts: tuple[str, ...]


def queries_of(pairs: Iterable[Pair], captions: str) -> list[SingleTurnQuery]:
    """Queries for the pairs with targets, by caption mode.

    `each`: one query per caption (Fashion IQ, VAL). `joined`: all captions of a pair joined by "and"
    (CLIP4Cir). `both-orders`: one query with two texts, the captions joined in their order and reversed
    (LinCIR).
    """
    queries = []
    number: Counter[str] = Counter()
    for pair in pairs:
        if not pair.target:
            continue
        name = f"{pair.target}-{pair.candidate}"
        for texts in _texts(pair.captions, captions):
            number[name] += 1  # a pair may be listed twice
            queries.append(SingleTurnQuery(f"{name}-{number[name]}", pair.target, pair.candidate, texts))
    return queries


def _texts(captions: tuple[str, ...], mode: str) -> list[tuple[str, ...]]:
    if mode == "each":
        return [(text,) for text in captions]
    plain = [text.strip(" .,?!") for text in captions]
    orders = [plain, plain[::-1]] if mode == "both-orders" and len(plain) > 1 else [plain]
    return [tuple(" and ".join(order) for order in orders)]


@dataclass(frozen=True)
class QueryRanks:
    """0-based rank of the target of each query, length of each ranking, and the first products with their
    scores.

    A rank equal to the length means that the ranking lacks the target. `top` is None for rankings of another
    system.
    """

    rank_Q: Tensor
    depth_Q: Tensor
    top: list[list[tuple[str, float]]] | None = None


Search = Callable[
    [Sequence[str], Sequence[SingleTurnQuery]], QueryRanks
]  # ids of the gallery and queries → answers


def rank_queries(
    search: Search, ids: Sequence[str], queries: Sequence[SingleTurnQuery], origin: str
) -> QueryRanks:
    """Answers to queries. Raises UserError if vectors of `origin` are too large to compare."""
    with explaining(
        f"the vectors of {origin} are too large to compare", "; train or write it again", NotFiniteError
    ):
        return search(ids, queries)


@dataclass(frozen=True)
class Predictions:
    """Predictions of another system: names of its queries, its products (None: any), and the search for ranks."""

    kind: str
    names: Collection[str]
    products: set[str] | None
    search: Search


def read_predictions(path: Path, exclude_candidate: bool, batch_size: int) -> Predictions:
    """Read rankings, vectors or scores. Raises UserError if the file cannot be read or is malformed."""
    options: dict[str, Any] = {"exclude_candidate": exclude_candidate, "path": path}
    if path.suffix != ".npz":
        rankings = read_rankings(path)
        return Predictions("rankings", rankings, None, partial(ranks_in_rankings, rankings, **options))
    given = read_npz(path)
    if isinstance(given, ScoreMatrix):
        search = partial(search_scores, given, **options)
        return Predictions("scores", given.query_ids, set(given.index_ids), search)
    search = partial(search_vectors, given, batch_size=batch_size, **options)
    return Predictions("vectors", given.queries, set(given.ids), search)


def queries_of_system(
    system: System,
    queries: Sequence[SingleTurnQuery],
    vocabulary: Vocabulary,
    max_words: int,
    batch_size: int,
) -> loop_query.Query:
    """The system's queries, after dialogs of one turn.

    The vector of a query with several texts is the mean of their vectors, each scaled to unit length; the wishes are
    those of its first text, as the others have the same words in another order.
    """
    rows = [(number, text) for number, query in enumerate(queries) for text in query.texts]
    position_of, device = system.gallery.items.positions, system.gallery.vectors_ND.device
    target_Q, first_Q = (
        torch.tensor([position_of[name] for name in names])
        for names in zip(*((q.target, q.candidate) for q in queries), strict=True)
    )
    row_R, words_RL = (
        torch.tensor([number for number, _ in rows]),
        vocabulary.encode([system.corrected(text) for _, text in rows], max_words),
    )
    found: list[loop_query.Query] = []
    texts_RT = [[text] for _, text in rows]
    for start, batch_B, words_BL in zip(
        range(0, len(rows), batch_size), row_R.split(batch_size), words_RL.split(batch_size), strict=True
    ):
        user = RecordedReplies.of_words(
            words_BL.unsqueeze(1).to(device), texts_RT[start : start + batch_size]
        )
        first = Message(item_B=first_Q[batch_B].to(device))
        dialogs = rollout(system, user, target_Q[batch_B].to(device), first, turns=1, rank=False)
        found += dialogs.state.queries
    query = loop_query.Query.joined(found)
    if len(rows) == len(queries):
        return query
    query_RD = F.normalize(query.vector_BD, dim=1)
    query_QD = query_RD.new_zeros(len(queries), query_RD.shape[1]).index_add_(0, row_R.to(device), query_RD)
    row_of = {number: row for row, number in reversed(list(enumerate(row_R.tolist())))}
    wishes = (
        None if query.wishes is None else [query.wishes[row_of[number]] for number in range(len(queries))]
    )
    return loop_query.Query(query_QD, wishes)


def ranks_in_gallery(
    gallery: Gallery,
    query: loop_query.Query,
    queries: Sequence[SingleTurnQuery],
    exclude_candidate: bool,
    batch_size: int,
) -> QueryRanks:
    """Exact ranks in the gallery, and the first products; `exclude_candidate` removes the query's candidate."""
    ids, device = gallery.items.ids, query.vector_BD.device
    position_of = gallery.items.positions
    target_Q, candidate_Q = (
        torch.tensor([position_of[getattr(q, side)] for q in queries], device=device)
        for side in ("target", "candidate")
    )
    ranks: list[Tensor] = []
    top: list[list[tuple[str, float]]] = []
    for part, target_B, candidate_B in zip(
        query.split(batch_size), target_Q.split(batch_size), candidate_Q.split(batch_size), strict=True
    ):
        rank_B = gallery.rank(part, target_B)
        if exclude_candidate:
            rank_B = rank_B - (gallery.rank(part, candidate_B) < rank_B).long()
        ranks.append(rank_B)
        distance_BK, item_BK = gallery.top(
            part, depth_of(len(ids)), candidate_B.unsqueeze(1) if exclude_candidate else None
        )
        for distances, items in zip(distance_BK.tolist(), item_BK.tolist(), strict=True):
            top.append(
                [
                    (ids[item], -distance)
                    for distance, item in zip(distances, items, strict=True)
                    if distance < float("inf")
                ]
            )
    rank_Q = torch.cat(ranks).cpu()
    return QueryRanks(rank_Q, torch.full_like(rank_Q, len(ids) - exclude_candidate), top)


def search_vectors(
    given: Vectors,
    ids: Sequence[str],
    queries: Sequence[SingleTurnQuery],
    exclude_candidate: bool,
    batch_size: int,
    path: Path,
) -> QueryRanks:
    """Search with the vectors of another system, by Euclidean distance.

    Raises UserError if a query has none.
    """
    _check_all_answered(given.queries, queries, path)
    row_of_query, row_of_id = (
        {name: row for row, name in enumerate(names)} for names in (given.queries, given.ids)
    )
    vectors_ND = torch.from_numpy(given.vectors_ND[[row_of_id[name] for name in ids]])
    gallery = Gallery(Items.without_attributes(ids, vectors_ND), vectors_ND)
    query_QD = torch.from_numpy(given.query_vectors_QD[[row_of_query[query.name] for query in queries]])
    return ranks_in_gallery(gallery, loop_query.Query(query_QD), queries, exclude_candidate, batch_size)


def search_scores(
    given: ScoreMatrix,
    ids: Sequence[str],
    queries: Sequence[SingleTurnQuery],
    exclude_candidate: bool,
    path: Path,
) -> QueryRanks:
    """Ranks by the scores of another system; among equal scores, the order of `ids` counts.

    Raises UserError if a query has none.
    """
    _check_all_answered(given.query_ids, queries, path)
    row_of, column_of = (
        {name: place for place, name in enumerate(names)} for names in (given.query_ids, given.index_ids)
    )
    place_of = {name: place for place, name in enumerate(ids)}
    columns_N, order_N = np.array([column_of[name] for name in ids]), np.arange(len(ids))
    ranks = []
    for query in queries:
        score_N, target = given.scores_QN[row_of[query.name], columns_N], place_of[query.target]
        ahead_N = (score_N > score_N[target]) | ((score_N == score_N[target]) & (order_N < target))
        passed_over = exclude_candidate and ahead_N[place_of[query.candidate]]
        ranks.append(int(ahead_N.sum()) - bool(passed_over))
    rank_Q = torch.tensor(ranks)
    return QueryRanks(rank_Q, torch.full_like(rank_Q, len(ids) - exclude_candidate))


def ranks_in_rankings(
    rankings: Mapping[str, list[str]],
    ids: Sequence[str],
    queries: Sequence[SingleTurnQuery],
    exclude_candidate: bool,
    path: Path,
) -> QueryRanks:
    """Ranks in the rankings of another system, without products outside the gallery.

    Raises UserError if a query has no ranking, or no ranking contains a product of the gallery.
    """
    _check_all_answered(rankings, queries, path)
    gallery, ranks, depths = set(ids), [], []
    for query in queries:
        ranking = [
            name
            for name in rankings[query.name]
            if name in gallery and not (exclude_candidate and name == query.candidate)
        ]
        depths.append(len(ranking))
        ranks.append(ranking.index(query.target) if query.target in ranking else len(ranking))
    if not any(depths):
        raise UserError(
            f"expected ids of the gallery, found none in {path}; use the ids that "
            "`fashioniq eval-single-turn --queries` lists, or with --sessions those of the released gallery"
        )
    return QueryRanks(torch.tensor(ranks), torch.tensor(depths))


def _check_all_answered(
    answered: Mapping[str, object] | Sequence[str], queries: Sequence[SingleTurnQuery], path: Path
) -> None:
    found = set(answered)
    if missing := [query.name for query in queries if query.name not in found]:
        raise UserError(
            f"{path} answers {len(queries) - len(missing)} of {len(queries)} queries, not {missing[0]}; "
            "`fashioniq eval-single-turn --queries` with the same --captions lists their names, TARGET-CANDIDATE-n"
        )
