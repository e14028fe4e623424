"""The vectors of all candidates: exact ranks, and the nearest ones by FAISS (CPU or GPU), by torch or by an approximate index."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from fashioniq.data.items import Items

try:
    import faiss
except ImportError:  # neither faiss-cpu nor faiss-gpu is installed: torch searches
    faiss = None  # type: ignore[assignment]

QUERIES = 1024  # rows of the distance matrix held at a time
TILE = 1024  # and columns: what follows the product finds it in the processor's cache
SEARCHED = 16384  # columns that a search takes at a time
NUMBERS = 2**18  # of vectors compared in float64 at a time
GPU_TIMES = 32  # a GPU takes fewer and wider tiles
SPARE = 16  # more neighbours than asked for, so that ties at the edge can be settled by item order
GPU_MOST = 2048  # neighbours that FAISS finds on a GPU
EPSILON = torch.finfo(torch.float32).eps

Search = Callable[[Tensor, int], Tensor]


class NotFiniteError(ValueError):
    """A query or a vector is NaN or infinite: its retriever has diverged."""


class Gallery:
    """Candidates in a retriever's space: `items` as they are, `vectors_ND` as the retriever embeds them.

    Vectors of float16, also those of a memory map, are kept so and read by tiles; others are held in float32. Distances are Euclidean.
    Float32 decides wherever it can; items nearer to each other than its rounding are decided in float64, and equal ones by their order,
    so that ranks depend on neither the tiles nor the search library. An approximate `index`, of queries and a number K the positions of
    K near items, B×K, −1 where it has no more, takes the place of the search in `top`; ranks stay exact.
    """

    def __init__(self, items: Items, vectors_ND: Tensor, search: str = "auto", index: Search | None = None) -> None:
        vectors_ND = vectors_ND.detach()
        self.items, self.index = items, index
        self.vectors_ND = (vectors_ND if vectors_ND.dtype == torch.float16 else vectors_ND.float()).contiguous()
        self._times = 1 if vectors_ND.device.type == "cpu" else GPU_TIMES
        halves = [vectors_TD.square().sum(1) / 2 for _, vectors_TD in self._tiles(TILE)]
        self._half_square_N = torch.cat([*halves, self.vectors_ND.new_empty(0, dtype=torch.float32)])
        self._longest = (2 * self._half_square_N.amax()).sqrt() if halves else self._half_square_N.new_zeros(())
        self._finite = bool(self._longest.isfinite())
        self._faiss = _faiss_search(self.vectors_ND.device) if search != "torch" and faiss is not None else None

    @property
    def search(self) -> str:
        """The library that searches: "faiss" or "torch"."""
        return "torch" if self._faiss is None else "faiss"

    def __len__(self) -> int:
        return len(self.vectors_ND)

    @cached_property
    def mean_1D(self) -> Tensor:
        """The mean of all vectors, 1×D: a query for typical products."""
        return self.vectors_ND.float().mean(0, keepdim=True)

    def rank(self, query_BD: Tensor, target_B: Tensor) -> Tensor:
        """How many items are strictly nearer than the target, or as near and earlier: 0 for the best. Raises NotFiniteError."""
        queries = self._plain(query_BD).split(QUERIES)
        return torch.cat([self._rank(query_BD, target_B) for query_BD, target_B in zip(queries, target_B.split(QUERIES), strict=True)])

    def top(self, query_BD: Tensor, k: int, exclude_BK: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The k nearest items, nearest first, as squared distances and positions, both B×k; those of `exclude_BK` are passed over."""
        query_BD = self._plain(query_BD)
        if exclude_BK is None:
            exclude_BK = torch.empty(len(query_BD), 0, dtype=torch.long, device=query_BD.device)
        parts = [self._top(*part, k) for part in zip(query_BD.split(QUERIES), exclude_BK.split(QUERIES), strict=True)]
        distance_BK, item_BK = (torch.cat(part) for part in zip(*parts, strict=True))
        return distance_BK, item_BK

    def _rank(self, query_BD: Tensor, target_B: Tensor) -> Tensor:
        slack_B1 = self._slack(query_BD).unsqueeze(1)
        score_B1 = ((query_BD * self.vectors_ND[target_B]).sum(1) - self._half_square_N[target_B]).unsqueeze(1)
        low_B1, high_B1 = score_B1 - slack_B1, score_B1 + slack_B1
        exact_B = self._exact(query_BD, torch.arange(len(target_B), device=target_B.device), target_B)
        rank_B = torch.zeros_like(target_B)
        for start, vectors_TD in self._tiles(TILE):
            score_BT = self._scores(query_BD, start, vectors_TD)
            mask_BT = torch.empty_like(score_BT)  # ones and zeros of float32: they are summed several times faster than truth values
            nearer_B = torch.gt(score_BT, high_B1, out=mask_BT).sum(1).long()
            close_B = torch.ge(score_BT, low_B1, out=mask_BT).sum(1).long() - nearer_B
            rank_B += nearer_B
            own_B = (target_B >= start) & (target_B < start + len(vectors_TD))
            row_R = (close_B > own_B).nonzero()[:, 0]
            some_RT = score_BT[row_R]
            row_P, column_P = ((some_RT >= low_B1[row_R]) & (some_RT <= high_B1[row_R])).nonzero(as_tuple=True)
            row_P, item_P = row_R[row_P], column_P + start
            distance_P = self._exact(query_BD, row_P, item_P)
            before_P = (distance_P < exact_B[row_P]) | ((distance_P == exact_B[row_P]) & (item_P < target_B[row_P]))
            rank_B.index_add_(0, row_P, before_P.long())
        return rank_B

    def _top(self, query_BD: Tensor, exclude_BK: Tensor, k: int) -> tuple[Tensor, Tensor]:
        wanted = min(len(self), k + exclude_BK.shape[1])
        distance_BK, item_BK = self._nearest(query_BD, wanted) if self.index is None else self._near(self.index, query_BD, wanted)
        distance_BK = distance_BK.masked_fill((item_BK.unsqueeze(2) == exclude_BK.unsqueeze(1)).any(2), float("inf"))
        item_BK, by_item = item_BK.sort(dim=1)
        distance_BK, by_distance = distance_BK.gather(1, by_item).sort(dim=1, stable=True)
        return distance_BK[:, :k], item_BK.gather(1, by_distance)[:, :k]

    def _near(self, index: Search, query_BD: Tensor, wanted: int) -> tuple[Tensor, Tensor]:
        """`wanted` items that the index finds, and spare ones, unordered; queries for which it finds fewer are searched exactly."""
        item_BK = index(query_BD, min(len(self), wanted + SPARE))
        distance_BK = self._exact_rows(query_BD, item_BK).masked_fill(item_BK < 0, float("inf"))
        few_B = (item_BK >= 0).sum(1) < wanted
        if few_B.any():
            distance_BK[few_B], item_BK[few_B] = self._nearest(query_BD[few_B], wanted)
        return distance_BK, item_BK

    def _nearest(self, query_BD: Tensor, wanted: int) -> tuple[Tensor, Tensor]:
        """Near items, unordered, with their distances; the `wanted` nearest are surely among them."""
        count = min(len(self), wanted + SPARE)
        item_BK = self._candidates(query_BD, count)
        distance_BK = self._exact_rows(query_BD, item_BK)
        if count == len(self):
            return distance_BK, item_BK
        sorted_BK = distance_BK.sort(dim=1).values
        rounding_B = 2 * self._slack(query_BD) + 4 * EPSILON * query_BD.square().sum(1)  # FAISS adds the query's own length before it compares
        open_B = sorted_BK[:, -1] - sorted_BK[:, wanted - 1] <= rounding_B  # more ties than spare items
        every_N = torch.arange(len(self), device=query_BD.device)
        for row in open_B.nonzero()[:, 0]:
            distance_N, item_N = self._exact(query_BD, row.expand(len(self)), every_N).sort(stable=True)
            distance_BK[row], item_BK[row] = distance_N[:count], item_N[:count]
        return distance_BK, item_BK

    def _candidates(self, query_BD: Tensor, count: int) -> Tensor:
        """The `count` nearest items but for rounding, unordered: of every tile, and of what these leave."""
        by_faiss = None if query_BD.is_cuda and count > GPU_MOST else self._faiss
        far_BK, item_BK = query_BD.new_empty(len(query_BD), 0), torch.empty(len(query_BD), 0, dtype=torch.long, device=query_BD.device)
        for start, vectors_TD in self._tiles(SEARCHED):
            here = min(count, len(vectors_TD))
            if by_faiss is not None:
                tile_BK, place_BK = by_faiss(query_BD, vectors_TD, here)
            else:
                tile_BK, place_BK = self._scores(query_BD, start, vectors_TD).neg_().topk(here, dim=1, largest=False)
            far_BK, item_BK = torch.cat([far_BK, tile_BK], 1), torch.cat([item_BK, place_BK + start], 1)
            far_BK, kept_BK = far_BK.topk(min(count, far_BK.shape[1]), dim=1, largest=False)
            item_BK = item_BK.gather(1, kept_BK)
        return item_BK

    def _tiles(self, width: int) -> Iterator[tuple[int, Tensor]]:
        """The vectors in float32, so many at a time, each time with the position of the first."""
        for start in range(0, len(self), width * self._times):
            yield start, self.vectors_ND[start : start + width * self._times].float()

    def _scores(self, query_BD: Tensor, start: int, vectors_TD: Tensor) -> Tensor:
        """What grows as the distances of a tile fall."""
        with _full_float32(query_BD.device.type):
            return torch.addmm(self._half_square_N[start : start + len(vectors_TD)], query_BD, vectors_TD.T, beta=-1)

    def _exact_rows(self, query_BD: Tensor, item_BK: Tensor) -> Tensor:
        row_B = torch.arange(len(query_BD), device=query_BD.device)
        return self._exact(query_BD, row_B.repeat_interleave(item_BK.shape[1]), item_BK.flatten()).view(item_BK.shape)

    def _exact(self, query_BD: Tensor, row_P: Tensor, item_P: Tensor) -> Tensor:
        """Squared distances in float64 of pairs of a query and an item."""
        some = max(1, NUMBERS * self._times // query_BD.shape[1])
        pairs = zip(row_P.split(some), item_P.split(some), strict=True)
        return torch.cat([(query_BD[row_P].double() - self.vectors_ND[item_P]).square_().sum(1) for row_P, item_P in pairs])

    def _slack(self, query_BD: Tensor) -> Tensor:
        """More than the rounding that a difference of two float32 scores can carry."""
        scale_B = query_BD.norm(dim=1) * self._longest + self._longest**2
        return 2 * EPSILON * max(16.0, query_BD.shape[1] ** 0.5) * scale_B

    def _plain(self, query_BD: Tensor) -> Tensor:
        query_BD = query_BD.detach().float().contiguous()  # one layout, so that equal items get equal sums
        if not self._finite or not query_BD.isfinite().all():
            raise NotFiniteError("a query or a vector is not finite")
        return query_BD


@contextmanager
def _full_float32(device: str) -> Iterator[None]:
    """Products without the bfloat16 of autocast and the TF32 that training may allow: they would rank anew."""
    allowed = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.autocast(device, enabled=False):
            yield
    finally:
        torch.set_float32_matmul_precision(allowed)


def _faiss_search(device: torch.device) -> Any:
    """FAISS's search by brute force in float32 tensors, as distances and positions; None where it cannot search on the device."""
    if device.type == "cpu":
        return lambda query_BD, vectors_TD, count: map(torch.from_numpy, faiss.knn(query_BD.numpy(), vectors_TD.numpy(), count))
    if device.type != "cuda" or not hasattr(faiss, "StandardGpuResources"):
        return None
    importlib.import_module("faiss.contrib.torch_utils")  # lets it take tensors where they are
    resources = faiss.StandardGpuResources()
    return lambda query_BD, vectors_TD, count: faiss.knn_gpu(resources, query_BD, vectors_TD, count, device=query_BD.device.index or 0)
