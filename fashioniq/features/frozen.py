"""Frozen features of the items of a folder of conversations: the vectors of their feature stores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fashioniq.encoders.identity import Identity
from fashioniq.features.store import FeatureStore
from fashioniq.files import UserError
from fashioniq.models.chatsearcher import FrozenPictures


@dataclass(frozen=True)
class FrozenFeatures:
    """Vectors of items, N×F, and what they depend on. Without token features, the vector is the only token.

    `patches` are token features on disk, M×T×F of each store, and `place_N2` the store and row of each item.
    """

    ids: list[str]
    vector_NF: Tensor
    facts: dict[str, Any]
    patches: Sequence[np.ndarray] = ()
    place_N2: np.ndarray | None = None

    @cached_property
    def positions(self) -> dict[str, int]:
        """Position of each item by id."""
        return {name: position for position, name in enumerate(self.ids)}

    def pictures(self, item_R: Tensor, device: torch.device | str) -> FrozenPictures:
        """Features of the items at these positions."""
        vector_RF = self.vector_NF[item_R]
        if self.place_N2 is None or not len(item_R):
            tokens_RTF = vector_RF.unsqueeze(1)
        else:
            rows = [self.patches[store][row] for store, row in self.place_N2[item_R.numpy()]]
            tokens_RTF = torch.from_numpy(np.stack(rows).astype(np.float32))
        return FrozenPictures(vector_RF.to(device), tokens_RTF.to(device))


def frozen_features(
    ids: Sequence[str], paths: Sequence[str], identity: Identity | None = None
) -> FrozenFeatures:
    """Features of items in the feature stores `paths`: in those of the encoder `identity`, or of the first store.

    Raises UserError if none of the stores is of that encoder, or if none of the items has features.
    """
    if not paths:
        raise UserError(
            "expected the feature stores of the items; make them with `fashioniq extract-features --encoder NAME "
            "--data FOLDER`, and give them with --features"
        )
    every = [FeatureStore(Path(path)) for path in paths]
    wanted = identity or every[0].facts
    stores = [store for store in every if wanted.difference(store.facts) is None]
    if not stores:
        raise UserError(
            f"expected a feature store of {wanted.encoder} with weights {wanted.weights} in --features, found "
            f"{', '.join(f'{store.root} of {store.encoder}' for store in every)}; extract one, or give another "
            "--encoder"
        )
    there = [[name for name in ids if name in store] for store in stores]
    vector_of: dict[str, Tensor] = {}
    place_of: dict[str, tuple[int, int]] = {}
    patches = []
    for store, names in zip(stores, there, strict=True):
        if names:
            vector_of |= zip(names, store.items(names).features_ND[:].unbind(), strict=True)
            if found := store.patches(names):
                patches.append(found[0])
                place_of |= {name: (len(patches) - 1, row) for name, row in zip(names, found[1], strict=True)}
    if not vector_of:
        raise UserError(f"{', '.join(map(str, paths))} have none of the items; give their feature stores")
    if place_of and len(place_of) < len(vector_of):
        raise UserError(
            "expected token features in all stores of --features or in none; extract all with --patches"
        )
    if len(vector_of) < len(ids):
        print(f"{len(vector_of):,} of {len(ids):,} items have features")
    facts = {key: getattr(wanted, key) for key in ("encoder", "weights", "image_size", "dimensions")}
    facts["tokens"] = patches[0].shape[1] if patches else 1
    place_N2 = np.array([place_of[name] for name in vector_of]) if place_of else None
    return FrozenFeatures(list(vector_of), torch.stack(list(vector_of.values())), facts, patches, place_N2)


def check_same_features(run: Path, trained: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Raise UserError if a run was trained on other frozen features."""
    for key in ("weights", "dimensions", "tokens"):
        if trained.get(key) != found.get(key):
            raise UserError(
                f"{run} was trained with {key} {trained.get(key)} of the frozen features, not {found.get(key)}; "
                "give the same --features"
            )
