"""Gallery vectors and words: exact ranks, and search by exact tiles or an approximate index."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from fashioniq.data.items import Items
from fashioniq.loop.exact import SEARCHED, SPARE, ExactSearch, best_first
from fashioniq.loop.query import Query, Scorer

QUERIES = 1024  # rows of a tile of the distance matrix
BONUSES = 2**25  # bonuses of a tile of queries
NEARLY = 0.25  # bonus below the greatest up to which items are searched for near ones first
ROUNDING = 1e-4  # of a bonus in float32, and more
LOOKED_AT = 2048  # items with nearly the greatest bonus that are looked at first
EXACT_MOST = 50_000  # items up to which a part of the gallery is searched exactly, without an index
WIDER = 4  # candidates of an index per item, and factor by which a filtered search is widened


class SearchEngine(Protocol):
    """Search engine that proposes candidates, which the gallery orders by their exact distances."""

    def __call__(
        self, query_BD: Tensor, count: int, allowed_N: Tensor | None = None, wider: float = 1.0
    ) -> Tensor:
        """Return positions of about `count` near items, B×count, with −1 for missing ones.

        Engines that can filter return items of the mask `allowed_N` only. `wider` is the factor by which more of
        the gallery is looked at than is needed without a filter.
        """
        ...


def candidate_count(wanted: int) -> int:
    """Number of candidates from which the `wanted` nearest items are chosen."""
    return max(WIDER * wanted, wanted + SPARE)


class EngineError(Exception):
    """A search engine cannot be reached, or is too slow."""


class Gallery:
    """Searchable gallery: the candidate `items`, and their embeddings `vectors_ND`.

    Items are ordered by their *cost*, the squared Euclidean distance to the vector of a query, see `ExactSearch`. With
    a `scorer`, the words and wishes of a `Query` count, too: twice the scorer's bonus is subtracted. For vectors of
    unit length, this is the order of the sum of cosine and bonus. A query without words is ordered by the distance
    alone, bit for bit.

    An approximate `index` replaces the search in `top`; ranks stay exact.
    """

    def __init__(
        self,
        items: Items,
        vectors_ND: Tensor | np.memmap,
        search: str = "auto",
        index: SearchEngine | None = None,
        scorer: Scorer | None = None,
    ) -> None:
        self.items, self.index, self.scorer = items, index, scorer
        self._exact = ExactSearch(vectors_ND, search)

    @property
    def vectors_ND(self) -> Tensor:
        """Vectors in float16 or float32."""
        return self._exact.vectors_ND

    @property
    def search(self) -> str:
        """Search library: "faiss" or "torch"."""
        return self._exact.search

    def __len__(self) -> int:
        return len(self._exact)

    @cached_property
    def mean_1D(self) -> Tensor:
        """Mean of all vectors, 1×D, used as a query for typical products."""
        sums = [vectors_TD.double().sum(0, keepdim=True) for _, vectors_TD in self.tiles(SEARCHED)]
        return (torch.cat(sums).sum(0, keepdim=True) / len(self)).float()

    def rank(self, query: Query | Tensor, target_B: Tensor) -> Tensor:
        """Return the 0-based rank of each target: the number of items with a smaller cost, or with the same and
        listed earlier.

        Raises NotFiniteError.
        """
        query = Query.of(query)
        self._exact.check_finite(_plain(query.vector_BD))
        size = self._together(query)
        parts = zip(query.split(size), target_B.split(size), strict=True)
        return torch.cat([self._exact.rank(*self._with_bonus(part), targets) for part, targets in parts])

    def top(
        self,
        query: Query | Tensor,
        k: int,
        exclude_BK: Tensor | None = None,
        allowed_N: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return costs and positions of the k best items, both B×k, best first.

        Items of `exclude_BK` are skipped. With the mask `allowed_N`, only its items are found, all of them if
        there are fewer than k; the index is used if many items are allowed, and the search is exact otherwise.
        Raises NotFiniteError.
        """
        query = Query.of(query)
        if self.index is not None or allowed_N is not None:
            self._exact.check_finite(_plain(query.vector_BD))
        if exclude_BK is None:
            exclude_BK = torch.empty(len(query.vector_BD), 0, dtype=torch.long, device=query.vector_BD.device)
        if allowed_N is not None and int(allowed_N.count_nonzero()) == len(self):
            allowed_N = None
        size, found = self._together(query), []
        for part, exclude_PK in zip(query.split(size), exclude_BK.split(size), strict=True):
            query_PD, bonus_PN = self._with_bonus(part)
            found.append(
                self._top(query_PD, bonus_PN, exclude_PK, k)
                if allowed_N is None
                else self._top_allowed(query_PD, bonus_PN, exclude_PK, k, allowed_N)
            )
        cost_BK, item_BK = (torch.cat(part) for part in zip(*found, strict=True))
        return cost_BK, item_BK

    def with_scorer(self, scorer: Scorer | None) -> Gallery:
        """The same gallery, in which words and wishes count as the scorer says."""
        found = copy(self)
        found.scorer = scorer
        return found

    def with_index(self, index: SearchEngine) -> Gallery:
        """The same gallery, whose `top` searches in an index."""
        found = copy(self)
        found.index = index
        return found

    def tiles(self, width: int) -> Iterator[tuple[int, Tensor]]:
        """Yield tiles of the vectors in float32, with the position of their first item."""
        return self._exact.tiles(width)

    def _together(self, query: Query) -> int:
        """Queries of a tile: with bonuses, fewer in a large gallery."""
        scored = self.scorer is not None and query.wishes is not None and len(self) > 0
        return max(1, min(QUERIES, BONUSES // len(self))) if scored else QUERIES

    def _with_bonus(self, query: Query) -> tuple[Tensor, Tensor | None]:
        """Vectors B×D and bonuses B×N; None where no query has words that count."""
        query_BD = _plain(query.vector_BD)
        self._exact.check_width(query_BD)
        if self.scorer is None or query.wishes is None:
            return query_BD, None
        if not any(one.held or any(one.asserted) for one in query.wishes):
            return query_BD, None
        bonus_BN = torch.stack([torch.from_numpy(self.scorer.bonus(wishes)) for wishes in query.wishes])
        return query_BD, bonus_BN.to(query_BD.device)

    def _top(
        self, query_BD: Tensor, bonus_BN: Tensor | None, exclude_BK: Tensor, k: int
    ) -> tuple[Tensor, Tensor]:
        wanted = min(len(self), k + exclude_BK.shape[1])
        cost_BK, item_BK = (
            self._exact.best(query_BD, bonus_BN, wanted)
            if self.index is None
            else self._near(self.index, query_BD, bonus_BN, wanted)
        )
        return best_first(cost_BK, item_BK, exclude_BK, k)

    def _top_allowed(
        self, query_BD: Tensor, bonus_BN: Tensor | None, exclude_BK: Tensor, k: int, allowed_N: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The k best of the allowed items."""
        allowed = int(allowed_N.count_nonzero())
        k = min(k, allowed)
        if not k:
            return query_BD.new_empty(len(query_BD), 0, dtype=torch.double), exclude_BK[:, :0]
        wanted, found = k + exclude_BK.shape[1], None
        if self.index is not None and allowed > EXACT_MOST:
            found = (
                self._near_allowed(self.index, query_BD, wanted, allowed_N)
                if bonus_BN is None
                else self._near(self.index, query_BD, bonus_BN, wanted, allowed_N)
            )
        cost_BK, item_BK = found or self._exact.best_among(
            query_BD, bonus_BN, allowed_N.nonzero()[:, 0], wanted
        )
        return best_first(cost_BK, item_BK, exclude_BK, k)

    def _near_allowed(
        self, index: SearchEngine, query_BD: Tensor, wanted: int, allowed_N: Tensor
    ) -> tuple[Tensor, Tensor] | None:
        """Candidates from the index among allowed items, unordered, with their costs; None if it has too few."""
        count, wider = candidate_count(wanted), len(self) / int(allowed_N.sum()) * WIDER
        while count < len(self):
            item_BK = index(query_BD, count, allowed_N, wider)
            item_BK = item_BK.masked_fill(~allowed_N[item_BK], -1)
            if ((item_BK >= 0).sum(1) >= wanted).all():
                cost_BK = self._exact.costs_of_rows(query_BD, None, item_BK)
                return cost_BK.masked_fill(item_BK < 0, float("inf")), item_BK
            if item_BK.shape[1] < count:
                break  # the engine has no more
            count, wider = WIDER * count, WIDER * wider
        return None

    def _near(
        self,
        index: SearchEngine,
        query_BD: Tensor,
        bonus_BN: Tensor | None,
        wanted: int,
        allowed_N: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Candidates from the index, unordered, with their costs; at least `wanted` for each query."""
        if bonus_BN is not None:
            rows = [
                self._near_with_bonus(index, query_BD[row : row + 1], bonus_BN[row], wanted, allowed_N)
                for row in range(len(query_BD))
            ]
            width = max(item_1K.shape[1] for _, item_1K in rows)
            return (
                torch.cat([_widened(cost_1K, width) for cost_1K, _ in rows]),
                torch.cat([_widened(item_1K, width, -1) for _, item_1K in rows]),
            )
        item_BK = index(query_BD, min(len(self), candidate_count(wanted)))
        cost_BK = self._exact.costs_of_rows(query_BD, None, item_BK).masked_fill(item_BK < 0, float("inf"))
        is_enough = ((item_BK >= 0).sum(1) >= wanted).all()
        return (cost_BK, item_BK) if is_enough else self._exact.best(query_BD, None, wanted)

    def _near_with_bonus(
        self, index: SearchEngine, query_1D: Tensor, bonus_N: Tensor, wanted: int, allowed_N: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Costs and positions 1×K of candidates for one query; they include the `wanted` best items if few can be.

        The nearest items of the index and some with nearly the greatest bonus bound the cost of the best. An item whose
        cost would be higher even at the least distance, because of its bonus, need not be looked at; the others are
        searched exactly if they are few. Of many, those with nearly the greatest bonus are searched, by the index if
        they are many, too.
        """
        open_N = bonus_N if allowed_N is None else bonus_N.masked_fill(~allowed_N, -float("inf"))
        bonus_1N, count = bonus_N.unsqueeze(0), min(len(self), candidate_count(wanted))
        nearly_P = (open_N >= open_N.max() - NEARLY).nonzero()[:, 0]
        some_K = nearly_P[:: -(-len(nearly_P) // LOOKED_AT)]
        some_K = open_N.topk(count).indices if len(nearly_P) < count else some_K
        found_K = torch.cat([some_K, self._found(index, query_1D, count, None)]).unique()
        cost_1K = self._exact.costs_of_rows(query_1D, bonus_1N, found_K.unsqueeze(0))
        least = (cost_1K + 2 * bonus_1N[:, found_K]).min()  # squared distance
        is_open_K = open_N[found_K] > -float("inf")
        found_K, cost_1K = found_K[is_open_K], cost_1K[:, is_open_K]
        bound = cost_1K.topk(min(wanted, len(found_K)), largest=False).values.max()
        item_P = (open_N >= float(least - bound) / 2 - ROUNDING).nonzero()[:, 0]
        if len(item_P) <= EXACT_MOST:
            return self._exact.best_among(query_1D, bonus_1N, item_P, wanted)
        if len(nearly_P) <= EXACT_MOST:
            near_K = self._exact.best_among(query_1D, bonus_1N, nearly_P, wanted)[1][0]
        else:
            near_K = self._found(index, query_1D, count, open_N >= open_N.max() - NEARLY)
        near_K = (
            near_K
            if allowed_N is None
            else torch.cat([near_K, self._found(index, query_1D, count, allowed_N)])
        )
        found_K = torch.cat([found_K, near_K]).unique()
        found_K = found_K[open_N[found_K] > -float("inf")]
        return self._exact.costs_of_rows(query_1D, bonus_1N, found_K.unsqueeze(0)), found_K.unsqueeze(0)

    def _found(self, index: SearchEngine, query_1D: Tensor, count: int, allowed_N: Tensor | None) -> Tensor:
        """Positions that an index finds for one query, K."""
        wider = 1.0 if allowed_N is None else len(self) / int(allowed_N.sum()) * WIDER
        item_K = index(query_1D, count, allowed_N, wider)[0]
        return item_K[item_K >= 0]


def _plain(query_BD: Tensor) -> Tensor:
    return query_BD.detach().float().contiguous()  # contiguous, so that equal items get equal sums


def _widened(x_BK: Tensor, width: int, value: float = float("inf")) -> Tensor:
    return F.pad(x_BK, (0, width - x_BK.shape[1]), value=value)
