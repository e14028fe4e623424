"""Products as tensors, the input of models, users and galleries."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fashioniq.data.arrays import release
from fashioniq.data.ids import Spellings

BLOCK = 8192  # rows that are read from disk at a time


class ItemInputs(NamedTuple):
    """Model inputs for a batch of products: feature vectors, and attribute ids where 0 means none.

    `embedded_BD` are points of the search space in place of the features: where no product is named, the mean of the
    gallery, which is the image of no features.
    """

    features_BD: Tensor
    attributes_BA: Tensor
    embedded_BD: Tensor | None = None


class Rows:
    """Rows of a memory map as a matrix of float32 on a device; only the rows of an index are read.

    `rows[item_B]` and slices return tensors, `rows[:]` the whole matrix. They raise `damaged` if a number is not
    finite.
    """

    def __init__(
        self, array: np.ndarray, row_N: np.ndarray, damaged: Exception, device: torch.device | str = "cpu"
    ) -> None:
        self._array, self._row_N, self._damaged = array, row_N, damaged
        self.device = torch.device(device)
        self.shape = (len(row_N), array.shape[1])

    def __len__(self) -> int:
        return len(self._row_N)

    def __getitem__(self, index: Tensor | slice) -> Tensor:
        row_B = self._row_N[index if isinstance(index, slice) else index.cpu().numpy()]
        read_BD = as_float32(np.asarray(self._array[row_B]))
        release(self._array)
        if not np.isfinite(read_BD).all():
            raise self._damaged
        return torch.from_numpy(read_BD).to(self.device)

    def to(self, device: torch.device | str) -> "Rows":
        """The same rows, which are read to another device."""
        return Rows(self._array, self._row_N, self._damaged, device)


@dataclass(frozen=True)
class Items:
    """Products as tensors: ids, features N×D (float32) and attribute ids N×A. Features may be read when used."""

    ids: list[str]
    features_ND: Tensor | Rows
    attributes_NA: Tensor

    @classmethod
    def without_attributes(cls, ids: Sequence[str], features_ND: Tensor) -> "Items":
        """Products or images with vectors only."""
        return cls(
            list(ids), features_ND, torch.zeros(len(ids), 0, dtype=torch.long, device=features_ND.device)
        )

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def positions(self) -> dict[str, int]:
        """Position of each product by id."""
        return {name: position for position, name in enumerate(self.ids)}

    @cached_property
    def spellings(self) -> Spellings:
        """The ids, in any way of writing them."""
        return Spellings(self.ids)

    def inputs(self, item_B: Tensor) -> ItemInputs:
        """Model inputs for the products at these positions."""
        return ItemInputs(self.features_ND[item_B], self.attributes_NA[item_B])

    @torch.no_grad()
    def blocks(self, embed: Callable[[Tensor], Tensor]) -> Iterator[tuple[int, Tensor]]:
        """Yield the vectors of blocks of products, from a function of features, with their first position."""
        for start in range(0, len(self), BLOCK):
            yield start, embed(self.features_ND[start : start + BLOCK])

    def embedded(self, embed: Callable[[Tensor], Tensor]) -> Tensor:
        """Vectors N×D of all products, from a function of features."""
        vectors_ND = torch.empty(0)
        for start, block_BD in self.blocks(embed):
            if start == 0:
                vectors_ND = block_BD.new_empty(len(self), block_BD.shape[1])
            vectors_ND[start : start + BLOCK] = block_BD
        return vectors_ND

    def loaded(self) -> "Items":
        """The same products with all features in memory."""
        return Items(self.ids, self.features_ND[:], self.attributes_NA)

    def to(self, device: torch.device | str) -> "Items":
        """Copy to another device; features on disk stay there."""
        return Items(self.ids, self.features_ND.to(device), self.attributes_NA.to(device))


def as_float32(array: np.ndarray) -> np.ndarray:
    """Convert to float32; values out of range become infinite."""
    with np.errstate(over="ignore"):
        return array.astype(np.float32)
