"""Products as tensors, the input of models, users and galleries."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor


class ItemInputs(NamedTuple):
    """Model inputs for a batch of products: feature vectors, and attribute ids where 0 means none."""

    features_BD: Tensor
    attributes_BA: Tensor


@dataclass(frozen=True)
class Items:
    """Products as tensors: ids, features N×D (float32) and attribute ids N×A."""

    ids: list[str]
    features_ND: Tensor
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

    def inputs(self, item_B: Tensor) -> ItemInputs:
        """Model inputs for the products at these positions."""
        return ItemInputs(self.features_ND[item_B], self.attributes_NA[item_B])

    def to(self, device: torch.device | str) -> "Items":
        """Copy to another device."""
        return Items(self.ids, self.features_ND.to(device), self.attributes_NA.to(device))


def as_float32(array: np.ndarray) -> np.ndarray:
    """Convert to float32; values out of range become infinite."""
    with np.errstate(over="ignore"):
        return array.astype(np.float32)
