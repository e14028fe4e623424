"""What a retriever has understood so far of B dialogs: a point of the search space, and what was said in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from fashioniq.language.wishes import Wishes


class Query(NamedTuple):
    """Vectors B×D and, where the words count too, the wishes of each dialog."""

    vector_BD: Tensor
    wishes: Sequence[Wishes] | None = None

    @classmethod
    def of(cls, given: Query | Tensor) -> Query:
        """A query of vectors alone if they are given."""
        return given if isinstance(given, Query) else cls(given)

    @classmethod
    def joined(cls, queries: Sequence[Query]) -> Query:
        """The queries one after the other."""
        vector_BD = torch.cat([query.vector_BD for query in queries])
        if any(query.wishes is None for query in queries):
            return cls(vector_BD)
        return cls(vector_BD, [one for query in queries for one in query.wishes or ()])

    def split(self, size: int) -> Iterator[Query]:
        """Parts of at most `size` dialogs."""
        for start, vector_BD in enumerate(self.vector_BD.split(size)):
            part = slice(start * size, start * size + len(vector_BD))
            yield Query(vector_BD, None if self.wishes is None else self.wishes[part])


class Scorer(Protocol):
    """What words and labels add to the similarity of the products of a gallery."""

    def bonus(self, wishes: Wishes) -> np.ndarray:
        """Bonus of each product, N in float32; 0 for a product of which the words say nothing."""
        ...
