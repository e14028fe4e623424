"""The vectors of all candidates: exact ranks, and the nearest ones by FAISS (CPU or GPU) or by torch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fashioniq.data.features import Items

try:
    import faiss
except ImportError:  # neither faiss-cpu nor faiss-gpu is installed: torch searches
    faiss = None  # type: ignore[assignment]

TILE = 8192  # columns of the distance matrix held at a time
NEAR = 65536  # near-ties settled at a time: a collapsed model makes every item one
SPARE = 16  # more neighbours than asked for, so that ties at the edge can be settled by item order


class NotFiniteError(ValueError):
    """A query or a vector is NaN or infinite: its retriever has diverged."""


class Gallery:
    """Candidates in a retriever's space: `items` as they are, `vectors_ND` as the retriever embeds them.

    Distances are Euclidean. Float32 decides wherever it can; items nearer to each other than its rounding are decided
    in float64, and equal ones by their order, so that ranks depend on neither the tiles nor the search library.
    """

    def __init__(self, items: Items, vectors_ND: Tensor, search: str = "auto") -> None:
        self.items, self.vectors_ND = items, vectors_ND.detach().float().contiguous()
        self._half_square_N = self.vectors_ND.square().sum(1) / 2
        self._longest = self.vectors_ND.norm(dim=1).max()
        self._index = _faiss_index(self.vectors_ND) if search != "torch" and faiss is not None else None

    @property
    def search(self) -> str:
        """The library that searches: "faiss" or "torch"."""
        return "torch" if self._index is None else "faiss"

    def __len__(self) -> int:
        return len(self.vectors_ND)

    def rank(self, query_BD: Tensor, target_B: Tensor) -> Tensor:
        """How many items are strictly nearer than the target, or as near and earlier: 0 for the best. Raises NotFiniteError."""
        query_BD = _plain(query_BD)
        slack_B1 = self._slack(query_BD).unsqueeze(1)
        score_B1 = self._score(query_BD, self.vectors_ND[target_B], self._half_square_N[target_B]).unsqueeze(1)
        exact_B = _exact_distance(query_BD, self.vectors_ND[target_B])
        rank_B = torch.zeros_like(target_B)
        for start in range(0, len(self), TILE):
            tile = slice(start, start + TILE)
            margin_BN = self._scores(query_BD, tile) - score_B1
            rank_B += (margin_BN > slack_B1).sum(1)
            row, column = (margin_BN.abs() <= slack_B1).nonzero(as_tuple=True)
            for near, item in zip(row.split(NEAR), (column + start).split(NEAR), strict=True):
                distance = _exact_distance(query_BD[near], self.vectors_ND[item])
                before = (distance < exact_B[near]) | ((distance == exact_B[near]) & (item < target_B[near]))
                rank_B.index_add_(0, near, before.to(rank_B.dtype))
        return rank_B

    def top(self, query_BD: Tensor, k: int, exclude_BK: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The k nearest items, nearest first, as squared distances and positions, both B×k; those of `exclude_BK` are passed over."""
        query_BD = _plain(query_BD)
        excluded = 0 if exclude_BK is None else exclude_BK.shape[1]
        item_BK = self._nearest(query_BD, min(len(self), k + excluded), min(len(self), k + excluded + SPARE))
        distance_BK = _exact_distance(query_BD.unsqueeze(1), self.vectors_ND[item_BK])
        if exclude_BK is not None:
            distance_BK[(item_BK.unsqueeze(2) == exclude_BK.unsqueeze(1)).any(2)] = float("inf")
        item_BK, by_item = item_BK.sort(dim=1)
        distance_BK, by_distance = distance_BK.gather(1, by_item).sort(dim=1, stable=True)
        return distance_BK[:, :k], item_BK.gather(1, by_distance)[:, :k]

    def _nearest(self, query_BD: Tensor, wanted: int, count: int) -> Tensor:
        """`count` near items, unordered, that the `wanted` nearest are surely among."""
        if self._index is not None:
            item_BK = torch.from_numpy(self._index.search(query_BD.cpu().numpy(), count)[1]).to(query_BD.device)
        else:
            item_BK = self._scores(query_BD, slice(None)).topk(count, dim=1).indices
        if count == len(self):
            return item_BK
        distance_BK = _exact_distance(query_BD.unsqueeze(1), self.vectors_ND[item_BK]).sort(dim=1).values
        open_B = distance_BK[:, -1] - distance_BK[:, wanted - 1] <= 2 * self._slack(query_BD)  # more ties than spare items
        for row in open_B.nonzero()[:, 0]:
            distance_N = _exact_distance(query_BD[row], self.vectors_ND)
            item_BK[row] = distance_N.sort(stable=True).indices[:count]
        return item_BK

    def _scores(self, query_BD: Tensor, items: slice) -> Tensor:
        with torch.autocast(query_BD.device.type, enabled=False):  # bfloat16 would rank anew
            return query_BD @ self.vectors_ND[items].T - self._half_square_N[items]

    @staticmethod
    def _score(query_BD: Tensor, vectors_BD: Tensor, half_square_B: Tensor) -> Tensor:
        return (query_BD * vectors_BD).sum(1) - half_square_B  # grows as the distance falls

    def _slack(self, query_BD: Tensor) -> Tensor:
        """More than the rounding that a difference of two float32 scores can carry."""
        epsilon = torch.finfo(torch.float32).eps
        scale_B = query_BD.norm(dim=1) * self._longest + self._longest**2
        return 2 * epsilon * max(16.0, query_BD.shape[1] ** 0.5) * scale_B


def _plain(query_BD: Tensor) -> Tensor:
    query_BD = query_BD.detach().float().contiguous()  # one layout, so that equal items get equal sums
    if not query_BD.isfinite().all():
        raise NotFiniteError("a query is not finite")
    return query_BD


def _exact_distance(query_BD: Tensor, vectors_BD: Tensor) -> Tensor:
    return (query_BD.double() - vectors_BD.double()).square().sum(-1)


def _faiss_index(vectors_ND: Tensor) -> Any:
    index: Any = faiss.IndexFlatL2(vectors_ND.shape[1])
    if vectors_ND.is_cuda and hasattr(faiss, "StandardGpuResources"):
        index = faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), vectors_ND.device.index or 0, index)
    index.add(vectors_ND.cpu().numpy())
    return index
