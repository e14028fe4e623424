"""Exact search in the vectors of a gallery: costs, ranks and nearest items, tile by tile, by FAISS or torch."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fashioniq.data.arrays import release
from fashioniq.files import UserError

try:
    import faiss
except ImportError:  # neither faiss-cpu nor faiss-gpu is installed: torch searches
    faiss = None  # type: ignore[assignment]

TILE = 1024  # columns of a tile for ranks, small enough for the processor's cache
SEARCHED = 16384  # columns of a tile for nearest-neighbor search
NUMBERS = 2**18  # vector elements compared in float64 at a time
GPU_TIMES = 32  # factor by which tiles are wider on a GPU
SPARE = 16  # additional neighbors, so that ties at the cutoff can be broken by item order
MAPPED_MOST = 2**30  # bytes of a memory map above which its pages are released after use
GPU_MOST = 2048  # maximum number of neighbors of FAISS on a GPU
EPSILON = torch.finfo(torch.float32).eps
TINY = torch.finfo(torch.float32).tiny  # smaller products lose digits, or become 0


class NotFiniteError(ValueError):
    """A query or a gallery vector, or its squared length, is not finite, because the retriever has diverged."""


class ExactSearch:
    """Exact search in vectors N×D.

    The *cost* of an item is its squared Euclidean distance, minus twice its bonus if bonuses N are given. Costs are
    compared in float32; those within its rounding error are compared again in float64, and ties are broken by item
    order. Ranks therefore depend neither on tiles nor on the search library.

    Float16 vectors, including memory maps (`np.memmap`), are stored as they are and converted tile by tile; others are
    stored in float32.
    """

    def __init__(self, vectors_ND: Tensor | np.memmap, search: str = "auto") -> None:
        self._mapped = None
        if isinstance(vectors_ND, np.memmap):
            self._mapped = vectors_ND if vectors_ND.nbytes > MAPPED_MOST else None
            vectors_ND = torch.from_numpy(vectors_ND)
        vectors_ND = vectors_ND.detach()
        self.vectors_ND = (
            vectors_ND if vectors_ND.dtype == torch.float16 else vectors_ND.float()
        ).contiguous()
        self.times = 1 if vectors_ND.device.type == "cpu" else GPU_TIMES
        halves = [vectors_TD.square().sum(1) / 2 for _, vectors_TD in self.tiles(TILE)]
        self._half_square_N = torch.cat([*halves, self.vectors_ND.new_empty(0, dtype=torch.float32)])
        self._longest = (
            (2 * self._half_square_N.amax()).sqrt() if halves else self._half_square_N.new_zeros(())
        )
        self._faiss = (
            _faiss_search(self.vectors_ND.device) if search != "torch" and faiss is not None else None
        )

    def __len__(self) -> int:
        return len(self.vectors_ND)

    @property
    def search(self) -> str:
        """Search library: "faiss" or "torch"."""
        return "torch" if self._faiss is None else "faiss"

    def tiles(self, width: int) -> Iterator[tuple[int, Tensor]]:
        """Yield tiles of the vectors in float32, with the position of their first item."""
        for start in range(0, len(self), width * self.times):
            yield start, self.vectors_ND[start : start + width * self.times].float()
            self.release()

    def release(self) -> None:
        """Release the pages of a large memory map."""
        if self._mapped is not None:
            release(self._mapped)

    def check_width(self, query_BD: Tensor) -> None:
        """Raise UserError for queries of another width than the gallery's vectors."""
        if (found := query_BD.shape[1]) != (wanted := self.vectors_ND.shape[1]):
            raise UserError(
                f"expected queries of {wanted} numbers, as the gallery's vectors have, found {found}; correct `step` "
                "or `embed_images` of the retriever"
            )

    def check_finite(self, query_BD: Tensor) -> None:
        """Raise NotFiniteError for queries or vectors that are not finite."""
        if not (query_BD.square().sum(1).isfinite().all() & self._longest.isfinite()):
            raise NotFiniteError("a query or a gallery vector is not finite, or too long")

    def rank(self, query_BD: Tensor, bonus_BN: Tensor | None, target_B: Tensor) -> Tensor:
        """Ranks of one block of queries: items with a smaller cost, or with the same and listed earlier.

        A score grows as the cost falls. Items whose score exceeds the target's by more than the rounding
        error have a smaller cost. Scores within the error are near ties: these pairs (suffix P) are compared by
        their float64 costs, and exact ties by position. The target is always one of its own near ties, so a row
        needs the exact comparison only if it has others.
        """
        slack_B1 = self._slack(query_BD, bonus_BN).unsqueeze(1)
        score_B1 = ((query_BD * self.vectors_ND[target_B]).sum(1) - self._half_square_N[target_B]).unsqueeze(
            1
        )
        if bonus_BN is not None:
            score_B1 = score_B1 + bonus_BN.gather(1, target_B.unsqueeze(1))
        low_B1, high_B1 = score_B1 - slack_B1, score_B1 + slack_B1
        exact_B = self.costs(
            query_BD, bonus_BN, torch.arange(len(target_B), device=target_B.device), target_B
        )
        rank_B = torch.zeros_like(target_B)
        for start, vectors_TD in self.tiles(TILE):
            score_BT = self._scores(query_BD, bonus_BN, start, vectors_TD)
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
            cost_P = self.costs(query_BD, bonus_BN, row_P, item_P)
            before_P = (cost_P < exact_B[row_P]) | ((cost_P == exact_B[row_P]) & (item_P < target_B[row_P]))
            rank_B.index_add_(0, row_P, before_P.long())
        return rank_B

    def best(self, query_BD: Tensor, bonus_BN: Tensor | None, wanted: int) -> tuple[Tensor, Tensor]:
        """Costs and positions of candidates, unordered; they always include the `wanted` best items.

        The host waits for a GPU once, for the number of queries that have near ties or are not finite, and then for
        the near ties of each.
        """
        count = min(len(self), wanted + SPARE)
        item_BK = self._candidates(query_BD, bonus_BN, count)
        cost_BK = self.costs_of_rows(query_BD, bonus_BN, item_BK)
        if count == len(self):
            self.check_finite(query_BD)
            return cost_BK, item_BK
        sorted_BK = cost_BK.sort(dim=1).values
        # The last term is for FAISS, which adds the squared norm of the query before it compares.
        rounding_B = 2 * self._slack(query_BD, bonus_BN) + 4 * EPSILON * query_BD.square().sum(1)
        # Rows with more near ties than spare items are searched again. Negated, so that it holds for NaN too.
        open_B = ~(sorted_BK[:, -1] - sorted_BK[:, wanted - 1] > rounding_B)
        if len(row_R := open_B.nonzero()[:, 0]):
            self.check_finite(query_BD)
        for row in row_R:
            bonus_1N = None if bonus_BN is None else bonus_BN[row, None]
            # a cost is the squared length of the query minus twice the score
            low = (query_BD[row].double().square().sum() - sorted_BK[row, -1]) / 2 - rounding_B[row]
            item_P = self._reaching(low, query_BD[row, None], bonus_1N)
            cost_P, place_P = self.costs(
                query_BD[row, None], bonus_1N, torch.zeros_like(item_P), item_P
            ).sort(stable=True)
            cost_BK[row], item_BK[row] = cost_P[:count], item_P[place_P[:count]]
        return cost_BK, item_BK

    def best_among(
        self, query_BD: Tensor, bonus_BN: Tensor | None, item_A: Tensor, wanted: int
    ) -> tuple[Tensor, Tensor]:
        """The same among the items A, which are in ascending order."""
        found = []
        for item_P in item_A.split(SEARCHED * self.times):
            among = copy(self)
            among.vectors_ND, among._half_square_N = self.vectors_ND[item_P], self._half_square_N[item_P]
            among._mapped = None
            bonus_BP = None if bonus_BN is None else bonus_BN[:, item_P]
            cost_BK, place_BK = among.best(query_BD, bonus_BP, min(len(item_P), wanted))
            found.append((cost_BK, item_P[place_BK]))
            self.release()
        cost_BK, item_BK = (torch.cat(part, 1) for part in zip(*found, strict=True))
        return cost_BK, item_BK

    def costs_of_rows(self, query_BD: Tensor, bonus_BN: Tensor | None, item_BK: Tensor) -> Tensor:
        """Costs of K items for each query, in float64."""
        row_B = torch.arange(len(query_BD), device=query_BD.device)
        row_P = row_B.repeat_interleave(item_BK.shape[1])
        return self.costs(query_BD, bonus_BN, row_P, item_BK.flatten()).view(item_BK.shape)

    def costs(self, query_BD: Tensor, bonus_BN: Tensor | None, row_P: Tensor, item_P: Tensor) -> Tensor:
        """Costs of P pairs of a query and an item, in float64."""
        at_a_time = max(1, NUMBERS * self.times // query_BD.shape[1])
        pairs = zip(row_P.split(at_a_time), item_P.split(at_a_time), strict=True)
        cost_P = torch.cat(
            [(query_BD[row_P].double() - self.vectors_ND[item_P]).square_().sum(1) for row_P, item_P in pairs]
        )
        self.release()
        return cost_P if bonus_BN is None else cost_P - 2 * bonus_BN[row_P, item_P].double()

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
                score_BT = self._scores(query_BD, bonus_BN, start, vectors_TD)
                tile_BK, column_BK = score_BT.neg_().topk(here, dim=1, largest=False)
            far_BK, item_BK = torch.cat([far_BK, tile_BK], 1), torch.cat([item_BK, column_BK + start], 1)
            far_BK, kept_BK = far_BK.topk(min(count, far_BK.shape[1]), dim=1, largest=False)
            item_BK = item_BK.gather(1, kept_BK)
        return item_BK

    def _scores(self, query_BD: Tensor, bonus_BN: Tensor | None, start: int, vectors_TD: Tensor) -> Tensor:
        """Scores q·v − ‖v‖²/2, plus the bonus, of a tile, B×T, which order items like negative costs."""
        tile = slice(start, start + len(vectors_TD))
        with _full_float32(query_BD.device.type):
            score_BT = torch.addmm(self._half_square_N[tile], query_BD, vectors_TD.T, beta=-1)
        return score_BT if bonus_BN is None else score_BT.add_(bonus_BN[:, tile])

    def _reaching(self, low: Tensor, query_1D: Tensor, bonus_1N: Tensor | None) -> Tensor:
        """Positions P, in ascending order, of the items whose score for one query is not below `low`."""
        scores = (
            (start, self._scores(query_1D, bonus_1N, start, tile_TD))
            for start, tile_TD in self.tiles(SEARCHED)
        )
        return torch.cat([start + (score_1T[0] >= low).nonzero()[:, 0] for start, score_1T in scores])

    def _slack(self, query_BD: Tensor, bonus_BN: Tensor | None) -> Tensor:
        """Upper bound of the rounding error of the difference of two float32 scores."""
        scale_B = query_BD.norm(dim=1) * self._longest + self._longest**2
        if bonus_BN is not None:
            scale_B = scale_B + bonus_BN.abs().amax(1)
        size = query_BD.shape[1]
        return 2 * EPSILON * max(16.0, size**0.5) * scale_B + size * TINY


def best_first(cost_BK: Tensor, item_BK: Tensor, exclude_BK: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k best candidates in order; items of equal cost are ordered by position, excluded ones last."""
    cost_BK = cost_BK.masked_fill((item_BK.unsqueeze(2) == exclude_BK.unsqueeze(1)).any(2), float("inf"))
    # A sort by position, then a stable one by cost, leaves equal costs in the order of their positions, from
    # whichever tile and in whatever order the candidates came. `rank` counts in the same order.
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
        resources, query_BD, vectors_TD, count, device=query_BD.device.index
    )
