"""Gallery vectors: exact ranks, and nearest-neighbor search by FAISS, torch or an approximate index."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from fashioniq.data.arrays import release
from fashioniq.data.items import Items
from fashioniq.loop.query import Query, Scorer

try:
    import faiss
except ImportError:  # neither faiss-cpu nor faiss-gpu is installed: torch searches
    faiss = None  # type: ignore[assignment]

QUERIES = 1024  # rows of a tile of the distance matrix
TILE = 1024  # columns of a tile for ranks, small enough for the processor's cache
SEARCHED = 16384  # columns of a tile for nearest-neighbor search
NUMBERS = 2**18  # vector elements compared in float64 at a time
BONUSES = 2**25  # bonuses of a tile of queries
NEARLY = 0.25  # bonus below the greatest up to which items compete by their distance first
GPU_TIMES = 32  # factor by which tiles are wider on a GPU
SPARE = 16  # additional neighbors, so that ties at the cutoff can be broken by item order
MAPPED_MOST = 2**30  # bytes of a memory map above which its pages are released after use
EXACT_MOST = 50_000  # allowed items up to which a filtered search does without an approximate index
WIDER = 4  # candidates of an index per item, and factor by which a filtered search is widened
GPU_MOST = 2048  # maximum number of neighbors of FAISS on a GPU
EPSILON = torch.finfo(torch.float32).eps


class Search(Protocol):
    """Search engine that proposes candidates, which the gallery orders by their exact distances."""

    def __call__(
        self, query_BD: Tensor, count: int, allowed_N: Tensor | None = None, wider: float = 1.0
    ) -> Tensor:
        """Return positions of about `count` near items, B×count, with −1 for missing ones.

        Engines that can filter return items of the mask `allowed_N` only. `wider` is the factor by which more of
        the gallery is looked at than is needed without a filter.
        """
        ...


def candidates(wanted: int) -> int:
    """Number of candidates from which the `wanted` nearest items are chosen."""
    return max(WIDER * wanted, wanted + SPARE)


class NotFiniteError(ValueError):
    """A query or a gallery vector, or its squared length, is not finite, because the retriever has diverged."""


class EngineError(Exception):
    """A search engine cannot be reached, or is too slow."""


class Gallery:
    """Searchable gallery: the candidate `items`, and their embeddings `vectors_ND`.

    Float16 vectors, including memory maps (`np.memmap`), are stored as they are and converted tile by tile;
    others are stored in float32. Distances are Euclidean. Distances are compared in float32; those within its rounding
    error are compared again in float64, and ties are broken by item order. Ranks therefore depend neither on
    tiles nor on the search library.

    With a `scorer`, the words and wishes of a `Query` count, too: an item is ordered by its *cost*, its squared
    distance minus twice the scorer's bonus. For vectors of unit length, this is the order of the sum of cosine and
    bonus. A query without words is ordered by the distance alone, bit for bit.

    An approximate `index` replaces the search in `top`; ranks stay exact.
    """

    def __init__(
        self,
        items: Items,
        vectors_ND: Tensor | np.memmap,
        search: str = "auto",
        index: Search | None = None,
        scorer: Scorer | None = None,
    ) -> None:
        self._mapped = None
        if isinstance(vectors_ND, np.memmap):
            self._mapped = vectors_ND if vectors_ND.nbytes > MAPPED_MOST else None
            vectors_ND = torch.from_numpy(vectors_ND)
        vectors_ND = vectors_ND.detach()
        self.items, self.index, self.scorer = items, index, scorer
        self.vectors_ND = (
            vectors_ND if vectors_ND.dtype == torch.float16 else vectors_ND.float()
        ).contiguous()
        self._times = 1 if vectors_ND.device.type == "cpu" else GPU_TIMES
        halves = [vectors_TD.square().sum(1) / 2 for _, vectors_TD in self.tiles(TILE)]
        self._half_square_N = torch.cat([*halves, self.vectors_ND.new_empty(0, dtype=torch.float32)])
        self._longest = (
            (2 * self._half_square_N.amax()).sqrt() if halves else self._half_square_N.new_zeros(())
        )
        self._faiss = (
            _faiss_search(self.vectors_ND.device) if search != "torch" and faiss is not None else None
        )

    @property
    def search(self) -> str:
        """Search library: "faiss" or "torch"."""
        return "torch" if self._faiss is None else "faiss"

    def __len__(self) -> int:
        return len(self.vectors_ND)

    @cached_property
    def typical(self) -> int:
        """Position of the item nearest to the mean, by exact search."""
        query_1D = self._plain(self.mean_1D)
        cost_1K, item_1K = self._best(query_1D, None, 1)
        return int(_best_first(cost_1K, item_1K, item_1K[:, :0], 1)[1])

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
        self._finite(self._plain(query.vector_BD))
        parts = zip(query.split(self._together(query)), target_B.split(self._together(query)), strict=True)
        return torch.cat([self._rank(*self._with_bonus(part), targets) for part, targets in parts])

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
            self._finite(self._plain(query.vector_BD))
        if exclude_BK is None:
            exclude_BK = torch.empty(query.batch(), 0, dtype=torch.long, device=query.vector_BD.device)
        item_A = None if allowed_N is None else allowed_N.nonzero()[:, 0]
        if item_A is not None and len(item_A) == len(self):
            item_A = None
        size, found = self._together(query), []
        for part, exclude_PK in zip(query.split(size), exclude_BK.split(size), strict=True):
            query_PD, bonus_PN = self._with_bonus(part)
            found.append(
                self._top(query_PD, bonus_PN, exclude_PK, k)
                if item_A is None
                else self._top_allowed(query_PD, bonus_PN, exclude_PK, k, item_A)
            )
        cost_BK, item_BK = (torch.cat(part) for part in zip(*found, strict=True))
        return cost_BK, item_BK

    def _together(self, query: Query) -> int:
        """Queries of a tile: with bonuses, fewer in a large gallery."""
        scored = self.scorer is not None and query.wishes is not None
        return max(1, min(QUERIES, BONUSES // len(self))) if scored else QUERIES

    def _with_bonus(self, query: Query) -> tuple[Tensor, Tensor | None]:
        """Vectors B×D and bonuses B×N; None where no query has words that count."""
        query_BD = self._plain(query.vector_BD)
        if (
            self.scorer is None
            or query.wishes is None
            or not any(one.held or any(one.asserted) for one in query.wishes)
        ):
            return query_BD, None
        bonus_BN = torch.stack([torch.from_numpy(self.scorer.bonus(wishes)) for wishes in query.wishes])
        return query_BD, bonus_BN.to(query_BD.device)

    def _rank(self, query_BD: Tensor, bonus_BN: Tensor | None, target_B: Tensor) -> Tensor:
        """Ranks of one block of queries.

        A score grows as the cost falls. Items whose score exceeds the target's by more than the
        rounding error are nearer. Scores within the error are near ties: these pairs (suffix P) are
        compared by their float64 costs, and exact ties by position. The target is always one of its
        own near ties, so a row needs the exact comparison only if it has others.
        """
        slack_B1 = self._slack(query_BD, bonus_BN).unsqueeze(1)
        score_B1 = ((query_BD * self.vectors_ND[target_B]).sum(1) - self._half_square_N[target_B]).unsqueeze(
            1
        )
        if bonus_BN is not None:
            score_B1 = score_B1 + bonus_BN.gather(1, target_B.unsqueeze(1))
        low_B1, high_B1 = score_B1 - slack_B1, score_B1 + slack_B1
        exact_B = self._exact(
            query_BD, torch.arange(len(target_B), device=target_B.device), target_B, bonus_BN
        )
        rank_B = torch.zeros_like(target_B)
        for start, vectors_TD in self.tiles(TILE):
            score_BT = self._scores(query_BD, start, vectors_TD, bonus_BN)
            # float32 ones and zeros are summed several times faster than bools
            mask_BT = torch.empty_like(score_BT)
            nearer_B = torch.gt(score_BT, high_B1, out=mask_BT).sum(1).long()
            close_B = torch.ge(score_BT, low_B1, out=mask_BT).sum(1).long() - nearer_B
            rank_B += nearer_B
            own_B = (target_B >= start) & (target_B < start + len(vectors_TD))
            row_R = (close_B > own_B).nonzero()[:, 0]
            score_RT = score_BT[row_R]
            row_P, column_P = ((score_RT >= low_B1[row_R]) & (score_RT <= high_B1[row_R])).nonzero(
                as_tuple=True
            )
            row_P, item_P = row_R[row_P], column_P + start
            cost_P = self._exact(query_BD, row_P, item_P, bonus_BN)
            before_P = (cost_P < exact_B[row_P]) | ((cost_P == exact_B[row_P]) & (item_P < target_B[row_P]))
            rank_B.index_add_(0, row_P, before_P.long())
        return rank_B

    def _top(
        self, query_BD: Tensor, bonus_BN: Tensor | None, exclude_BK: Tensor, k: int
    ) -> tuple[Tensor, Tensor]:
        wanted = min(len(self), k + exclude_BK.shape[1])
        cost_BK, item_BK = (
            self._best(query_BD, bonus_BN, wanted)
            if self.index is None
            else self._near(self.index, query_BD, bonus_BN, wanted)
        )
        return _best_first(cost_BK, item_BK, exclude_BK, k)

    def _top_allowed(
        self, query_BD: Tensor, bonus_BN: Tensor | None, exclude_BK: Tensor, k: int, item_A: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The k best of the items A, which are in ascending order."""
        k = min(k, len(item_A))
        if self.index is not None and len(item_A) > EXACT_MOST:
            allowed_N = torch.zeros(len(self), dtype=torch.bool, device=item_A.device)
            allowed_N[item_A] = True
            if bonus_BN is not None:
                cost_BK, item_BK = self._near(
                    self.index, query_BD, bonus_BN, k + exclude_BK.shape[1], allowed_N
                )
                return _best_first(cost_BK, item_BK, exclude_BK, k)
            count, wider = candidates(k + exclude_BK.shape[1]), len(self) / len(item_A) * WIDER
            while count < len(self):
                item_BK = self.index(query_BD, count, allowed_N, wider)
                item_BK = item_BK.masked_fill(~allowed_N[item_BK], -1)
                if ((item_BK >= 0).sum(1) >= k + exclude_BK.shape[1]).all():
                    cost_BK = self._exact_rows(query_BD, item_BK).masked_fill(item_BK < 0, float("inf"))
                    return _best_first(cost_BK, item_BK, exclude_BK, k)
                if item_BK.shape[1] < count:
                    break  # the engine has no more
                count, wider = WIDER * count, WIDER * wider
        if not k:
            return query_BD.new_empty(len(query_BD), 0, dtype=torch.double), exclude_BK[:, :0]
        best = []
        for item_P in item_A.split(SEARCHED * self._times):
            among = Gallery(self.items, self.vectors_ND[item_P], self.search)
            bonus_BP = None if bonus_BN is None else bonus_BN[:, item_P]
            cost_BK, place_BK = among._top(
                query_BD, bonus_BP, exclude_BK[:, :0], min(len(item_P), k + exclude_BK.shape[1])
            )
            best.append((cost_BK, item_P[place_BK]))
            self._release()
        cost_BK, item_BK = (torch.cat(part, 1) for part in zip(*best, strict=True))
        return _best_first(cost_BK, item_BK, exclude_BK, k)

    def _near(
        self,
        index: Search,
        query_BD: Tensor,
        bonus_BN: Tensor | None,
        wanted: int,
        allowed_N: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Candidates from the index, unordered, with their costs; at least `wanted` for each query.

        With bonuses, the items with the greatest ones are candidates, too, and are searched exactly if there are few.
        Queries for which the index finds fewer than `wanted` are searched exactly.
        """
        if bonus_BN is not None:
            rows = [
                self._near_with_bonus(index, query_BD[row : row + 1], bonus_BN[row], wanted, allowed_N)
                for row in range(len(query_BD))
            ]
            width = max(len(item_K) for _, item_K in rows)
            costs = [_widened(cost_K.unsqueeze(0), width) for cost_K, _ in rows]
            items = [_widened(item_K.unsqueeze(0), width, -1) for _, item_K in rows]
            return torch.cat(costs), torch.cat(items)
        item_BK = index(query_BD, min(len(self), candidates(wanted)))
        cost_BK = self._exact_rows(query_BD, item_BK).masked_fill(item_BK < 0, float("inf"))
        few_B = (item_BK >= 0).sum(1) < wanted
        if few_B.any():
            exact_BK, best_BK = self._best(query_BD[few_B], None, wanted)
            width = max(item_BK.shape[1], best_BK.shape[1])
            cost_BK, exact_BK = _widened(cost_BK, width), _widened(exact_BK, width)
            item_BK, best_BK = _widened(item_BK, width, -1), _widened(best_BK, width, -1)
            cost_BK[few_B], item_BK[few_B] = exact_BK, best_BK
        return cost_BK, item_BK

    def _near_with_bonus(
        self, index: Search, query_1D: Tensor, bonus_N: Tensor, wanted: int, allowed_N: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Costs and positions of candidates for one query, unordered.

        They are the nearest items of the index, those with the greatest bonus, and the nearest ones among all
        whose bonus is within `NEARLY` of the greatest: of few exactly, of many by the index.
        """
        open_N = bonus_N if allowed_N is None else bonus_N.masked_fill(~allowed_N, -float("inf"))
        count = min(len(self), candidates(wanted))
        greatest_K, item_K = open_N.topk(count)
        nearly_N = open_N >= greatest_K[0] - NEARLY
        if int(nearly_N.sum()) <= EXACT_MOST:
            item_P = nearly_N.nonzero()[:, 0]
            cost_P = self._exact(query_1D, torch.zeros_like(item_P), item_P, bonus_N.unsqueeze(0))
            near_K = item_P[cost_P.topk(min(count, len(item_P)), largest=False).indices]
        else:
            near_K = index(query_1D, count, nearly_N, len(self) / int(nearly_N.sum()) * WIDER)[0]
        found_K = torch.cat([item_K, near_K, index(query_1D, count, allowed_N)[0]])
        found_K = found_K[found_K >= 0].unique()
        found_K = found_K[open_N[found_K] > -float("inf")]
        cost_K = self._exact(query_1D, torch.zeros_like(found_K), found_K, bonus_N.unsqueeze(0))
        return cost_K, found_K

    def _best(self, query_BD: Tensor, bonus_BN: Tensor | None, wanted: int) -> tuple[Tensor, Tensor]:
        """Candidates with their costs, unordered; they always include the `wanted` best items.

        The host waits for a GPU once, for the number of queries that have near ties or are not finite.
        """
        count = min(len(self), wanted + SPARE)
        item_BK = self._candidates(query_BD, bonus_BN, count)
        cost_BK = self._exact_rows(query_BD, item_BK, bonus_BN)
        if count == len(self):
            self._finite(query_BD)
            return cost_BK, item_BK
        sorted_BK = cost_BK.sort(dim=1).values
        # The last term is for FAISS, which adds the squared norm of the query before it compares.
        rounding_B = 2 * self._slack(query_BD, bonus_BN) + 4 * EPSILON * query_BD.square().sum(1)
        # Rows with more near ties than spare items are searched in float64. Negated, so that it holds for NaN too.
        open_B = ~(sorted_BK[:, -1] - sorted_BK[:, wanted - 1] > rounding_B)
        every_N = torch.arange(len(self), device=query_BD.device)
        if len(row_R := open_B.nonzero()[:, 0]):
            self._finite(query_BD)
        for row in row_R:
            cost_N, item_N = self._exact(query_BD, row.expand(len(self)), every_N, bonus_BN).sort(stable=True)
            cost_BK[row], item_BK[row] = cost_N[:count], item_N[:count]
        return cost_BK, item_BK

    def _candidates(self, query_BD: Tensor, bonus_BN: Tensor | None, count: int) -> Tensor:
        """Positions of the `count` best items up to rounding, unordered, merged tile by tile."""
        by_faiss = None if bonus_BN is not None or (query_BD.is_cuda and count > GPU_MOST) else self._faiss
        far_BK, item_BK = (
            query_BD.new_empty(len(query_BD), 0),
            torch.empty(len(query_BD), 0, dtype=torch.long, device=query_BD.device),
        )
        for start, vectors_TD in self.tiles(SEARCHED):
            here = min(count, len(vectors_TD))
            if by_faiss is not None:
                tile_BK, column_BK = by_faiss(query_BD, vectors_TD, here)
            else:
                score_BT = self._scores(query_BD, start, vectors_TD, bonus_BN)
                tile_BK, column_BK = score_BT.neg_().topk(here, dim=1, largest=False)
            far_BK, item_BK = torch.cat([far_BK, tile_BK], 1), torch.cat([item_BK, column_BK + start], 1)
            far_BK, kept_BK = far_BK.topk(min(count, far_BK.shape[1]), dim=1, largest=False)
            item_BK = item_BK.gather(1, kept_BK)
        return item_BK

    def with_scorer(self, scorer: Scorer | None) -> Gallery:
        """The same gallery, in which words and wishes count as the scorer says."""
        found = copy(self)
        found.scorer = scorer
        return found

    def with_index(self, index: Search) -> Gallery:
        """The same gallery, whose `top` searches in an index."""
        found = copy(self)
        found.index = index
        return found

    def tiles(self, width: int) -> Iterator[tuple[int, Tensor]]:
        """Yield tiles of the vectors in float32, with the position of their first item."""
        for start in range(0, len(self), width * self._times):
            yield start, self.vectors_ND[start : start + width * self._times].float()
            self._release()

    def _release(self) -> None:
        if self._mapped is not None:
            release(self._mapped)

    def _scores(self, query_BD: Tensor, start: int, vectors_TD: Tensor, bonus_BN: Tensor | None) -> Tensor:
        """Scores q·v − ‖v‖²/2, plus the bonus, of a tile, B×T, which order items like negative costs."""
        with _full_float32(query_BD.device.type):
            score_BT = torch.addmm(
                self._half_square_N[start : start + len(vectors_TD)], query_BD, vectors_TD.T, beta=-1
            )
        return score_BT if bonus_BN is None else score_BT.add_(bonus_BN[:, start : start + len(vectors_TD)])

    def _exact_rows(self, query_BD: Tensor, item_BK: Tensor, bonus_BN: Tensor | None = None) -> Tensor:
        row_B = torch.arange(len(query_BD), device=query_BD.device)
        row_P = row_B.repeat_interleave(item_BK.shape[1])
        return self._exact(query_BD, row_P, item_BK.flatten(), bonus_BN).view(item_BK.shape)

    def _exact(
        self, query_BD: Tensor, row_P: Tensor, item_P: Tensor, bonus_BN: Tensor | None = None
    ) -> Tensor:
        """Costs in float64 of P pairs of a query and an item."""
        at_a_time = max(1, NUMBERS * self._times // query_BD.shape[1])
        pairs = zip(row_P.split(at_a_time), item_P.split(at_a_time), strict=True)
        cost_P = torch.cat(
            [(query_BD[row_P].double() - self.vectors_ND[item_P]).square_().sum(1) for row_P, item_P in pairs]
        )
        self._release()
        return cost_P if bonus_BN is None else cost_P - 2 * bonus_BN[row_P, item_P].double()

    def _slack(self, query_BD: Tensor, bonus_BN: Tensor | None = None) -> Tensor:
        """Upper bound of the rounding error of the difference of two float32 scores."""
        scale_B = query_BD.norm(dim=1) * self._longest + self._longest**2
        if bonus_BN is not None:
            scale_B = scale_B + bonus_BN.abs().amax(1)
        return 2 * EPSILON * max(16.0, query_BD.shape[1] ** 0.5) * scale_B

    def _plain(self, query_BD: Tensor) -> Tensor:
        return query_BD.detach().float().contiguous()  # contiguous, so that equal items get equal sums

    def _finite(self, query_BD: Tensor) -> Tensor:
        """Return the queries. Raises NotFiniteError."""
        if not (query_BD.square().sum(1).isfinite().all() & self._longest.isfinite()):
            raise NotFiniteError("a query or a gallery vector is not finite, or too long")
        return query_BD


def _widened(x_BK: Tensor, width: int, value: float = float("inf")) -> Tensor:
    return F.pad(x_BK, (0, width - x_BK.shape[1]), value=value)


def _best_first(cost_BK: Tensor, item_BK: Tensor, exclude_BK: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k best candidates in order; items of equal cost are ordered by position, excluded ones last."""
    cost_BK = cost_BK.masked_fill((item_BK.unsqueeze(2) == exclude_BK.unsqueeze(1)).any(2), float("inf"))
    item_BK, by_item = item_BK.sort(dim=1)
    cost_BK, by_cost = cost_BK.gather(1, by_item).sort(dim=1, stable=True)
    return cost_BK[:, :k], item_BK.gather(1, by_cost)[:, :k]


@contextmanager
def _full_float32(device: str) -> Iterator[None]:
    """Disable autocast and TF32, whose rounding would change ranks."""
    allowed = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.autocast(device, enabled=False):
            yield
    finally:
        torch.set_float32_matmul_precision(allowed)


def _faiss_search(device: torch.device) -> Any:
    """Return FAISS's brute-force search on float32 tensors, or None if it does not support the device.

    The search returns distances and positions.
    """
    if device.type == "cpu":
        return lambda query_BD, vectors_TD, count: map(
            torch.from_numpy, faiss.knn(query_BD.numpy(), vectors_TD.numpy(), count)
        )
    if device.type != "cuda" or not hasattr(faiss, "StandardGpuResources"):
        return None
    importlib.import_module("faiss.contrib.torch_utils")  # lets FAISS take CUDA tensors
    resources = faiss.StandardGpuResources()
    return lambda query_BD, vectors_TD, count: faiss.knn_gpu(
        resources, query_BD, vectors_TD, count, device=query_BD.device.index or 0
    )
