"""How single-turn queries are answered: by a retriever, by someone else's vectors, or by someone else's rankings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from fashioniq.askers.best_item import BestItem
from fashioniq.data.items import Items
from fashioniq.data.queries import Query
from fashioniq.data.rankings import Vectors
from fashioniq.data.words import Vocabulary
from fashioniq.files import UserError
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import Message
from fashioniq.loop.rollout import System, rollout
from fashioniq.models.retriever import BaseRetriever
from fashioniq.users.recorded import Recorded

IN_RUN_FILE = 50  # items of each ranking that go into a run file: enough for R@50


@dataclass(frozen=True)
class Answers:
    """Of every query the target's 0-based rank, how many products the ranking names (a rank of that much: the target is not named),

    and the first products with their scores where they were searched here.
    """

    rank_Q: Tensor
    depth_Q: Tensor
    top: list[list[tuple[str, float]]] | None = None

    def known_ranks(self) -> list[int | None]:
        """The ranks, None where the ranking does not name the target."""
        return [rank if rank < depth else None for rank, depth in zip(self.rank_Q.tolist(), self.depth_Q.tolist(), strict=True)]


def query_vectors(
    retriever: BaseRetriever, gallery: Gallery, queries: Sequence[Query], hears: Vocabulary, longest: int, batch_size: int
) -> Tensor:
    """The retriever's query after the one turn of each query, Q×D, in the same loop as its dialogs.

    Of several texts it is the mean of their queries, each of unit length: distances to a gallery of unit length know directions only.
    """
    rows = [(number, text) for number, query in enumerate(queries) for text in query.texts]
    places, device = {name: place for place, name in enumerate(gallery.items.ids)}, gallery.vectors_ND.device
    target_Q, first_Q = (torch.tensor([places[name] for name in names]) for names in zip(*((q.target, q.candidate) for q in queries), strict=True))
    row_R, words_RL = torch.tensor([number for number, _ in rows]), hears.encode([text for _, text in rows], longest)
    system, found = System(retriever, BestItem(), gallery), []
    for batch_B, words_BL in zip(row_R.split(batch_size), words_RL.split(batch_size), strict=True):
        user = Recorded.of_words(words_BL.unsqueeze(1).to(device))
        first = Message(item_B=first_Q[batch_B].to(device))
        dialogs = rollout(system, user, target_Q[batch_B].to(device), first, turns=1, rank=False)
        found.append(dialogs.query_BTD[:, 0])
    query_RD = torch.cat(found)
    if len(rows) == len(queries):
        return query_RD
    return query_RD.new_zeros(len(queries), query_RD.shape[1]).index_add_(0, row_R.to(device), F.normalize(query_RD, dim=1))


def search(gallery: Gallery, query_QD: Tensor, queries: Sequence[Query], exclude_candidate: bool, batch_size: int) -> Answers:
    """Exact ranks among the gallery, and the first products; with `exclude_candidate` the query's own candidate is passed over."""
    ids, device = gallery.items.ids, query_QD.device
    places = {name: place for place, name in enumerate(ids)}
    target_Q, candidate_Q = (torch.tensor([places[getattr(q, side)] for q in queries], device=device) for side in ("target", "candidate"))
    ranks: list[Tensor] = []
    top: list[list[tuple[str, float]]] = []
    for query_BD, target_B, candidate_B in zip(*(part.split(batch_size) for part in (query_QD, target_Q, candidate_Q)), strict=True):
        rank_B = gallery.rank(query_BD, target_B)
        if exclude_candidate:
            rank_B = rank_B - (gallery.rank(query_BD, candidate_B) < rank_B).long()
        ranks.append(rank_B)
        distance_BK, item_BK = gallery.top(query_BD, IN_RUN_FILE, candidate_B.unsqueeze(1) if exclude_candidate else None)
        for distances, items in zip(distance_BK.tolist(), item_BK.tolist(), strict=True):
            top.append([(ids[item], -distance) for distance, item in zip(distances, items, strict=True) if distance < float("inf")])
    rank_Q = torch.cat(ranks).cpu()
    return Answers(rank_Q, torch.full_like(rank_Q, len(ids) - exclude_candidate), top)


def search_vectors(given: Vectors, ids: Sequence[str], queries: Sequence[Query], exclude_candidate: bool, batch_size: int, path: Path) -> Answers:
    """The same with someone else's vectors, by Euclidean distance. Raises UserError where a query has none."""
    _check_all_answered(given.queries, queries, path)
    rows, places = ({name: row for row, name in enumerate(names)} for names in (given.queries, given.ids))
    vectors_ND = torch.from_numpy(given.vectors_ND[[places[name] for name in ids]])
    gallery = Gallery(Items.without_attributes(ids, vectors_ND), vectors_ND)
    query_QD = torch.from_numpy(given.query_vectors_QD[[rows[query.name] for query in queries]])
    return search(gallery, query_QD, queries, exclude_candidate, batch_size)


def look_up(rankings: Mapping[str, list[str]], ids: Sequence[str], queries: Sequence[Query], exclude_candidate: bool, path: Path) -> Answers:
    """Ranks in someone else's rankings; products that are not in the gallery are passed over. Raises UserError where a query has none."""
    _check_all_answered(rankings, queries, path)
    known, ranks, depths = set(ids), [], []
    for query in queries:
        named = [name for name in rankings[query.name] if name in known and not (exclude_candidate and name == query.candidate)]
        depths.append(len(named))
        ranks.append(named.index(query.target) if query.target in named else len(named))
    if not any(depths):
        raise UserError(f"{path} ranks no product of the gallery: it needs product ids as --write-queries lists them")
    return Answers(torch.tensor(ranks), torch.tensor(depths))


def _check_all_answered(answered: Mapping[str, object] | Sequence[str], queries: Sequence[Query], path: Path) -> None:
    there = set(answered)
    if missing := [query.name for query in queries if query.name not in there]:
        raise UserError(
            f"{path} answers {len(queries) - len(missing)} of {len(queries)} queries, not {missing[0]}: "
            "they are named TARGET-CANDIDATE-n, --write-queries lists them for these --captions"
        )
