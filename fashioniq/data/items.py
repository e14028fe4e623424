"""Products as tensors: what models, users and galleries see of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor


class ItemInputs(NamedTuple):
    """What a model sees of a batch of products: feature vectors, and attribute ids where 0 means none."""

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
        """Products or images of which only the vectors are known."""
        return cls(list(ids), features_ND, torch.zeros(len(ids), 0, dtype=torch.long, device=features_ND.device))

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def positions(self) -> dict[str, int]:
        """The position of each product, by id."""
        return {name: place for place, name in enumerate(self.ids)}

    def inputs(self, item_B: Tensor) -> ItemInputs:
        """What a model sees of the products at these positions."""
        return ItemInputs(self.features_ND[item_B], self.attributes_NA[item_B])

    def to(self, device: torch.device | str) -> "Items":
        """The same on another device."""
        return Items(self.ids, self.features_ND.to(device), self.attributes_NA.to(device))


def as_float32(array: np.ndarray) -> np.ndarray:
    """As float32, infinite where that is too small."""
    with np.errstate(over="ignore"):
        return array.astype(np.float32)
