"""Frozen features of the items of a folder of conversations, computed once.

They are the vectors of feature stores, or vectors and token features of a vision encoder, cached in
FOLDER/vision/WEIGHTS: vectors.npy (N×F float32), tokens.npy (N×T×F float16) and ids.json.
"""

import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from rich.progress import track
from torch import Tensor

from fashioniq.data.arrays import UNREADABLE, open_array
from fashioniq.data.conversations import Conversations
from fashioniq.data.images import UnreadableImage, load_image
from fashioniq.features.store import FeatureStore
from fashioniq.files import UserError, read_json, typed, why, write_json
from fashioniq.hub import use_cache_if_offline
from fashioniq.models.chatsearcher import Pictures
from fashioniq.models.vision import VisionEncoder, load_vision

_AT_A_TIME = 32  # pictures per batch of the vision encoder


@dataclass(frozen=True)
class FrozenFeatures:
    """Vectors of items, N×F, and what they depend on. Without token features, the vector is the only token."""

    ids: list[str]
    vector_NF: Tensor
    facts: dict[str, Any]
    tokens: np.ndarray | None = None

    @cached_property
    def positions(self) -> dict[str, int]:
        """Position of each item by id."""
        return {name: position for position, name in enumerate(self.ids)}

    def pictures(self, item_R: Tensor, device: torch.device | str) -> Pictures:
        """Features of the items at these positions."""
        vector_RF = self.vector_NF[item_R]
        if self.tokens is None:
            tokens_RTF = vector_RF.unsqueeze(1)
        else:
            tokens_RTF = torch.from_numpy(self.tokens[item_R.numpy()].astype(np.float32))
        return Pictures(vector_RF.to(device), tokens_RTF.to(device))


def frozen_features(
    data: Conversations, stores: Sequence[str], vision: str | None, device: torch.device
) -> FrozenFeatures:
    """Features of the items in feature stores, or of a vision encoder, by folder or name on the hub.

    Raises UserError unless one of both is given, or if none of the items has features.
    """
    if bool(stores) == bool(vision):
        raise UserError(
            "expected either --features, the feature stores of the items, or --vision; give one of them"
        )
    found = _of_vision(data, vision, device) if vision else _of_stores(list(data.items), stores)
    if len(found.ids) < len(data.items):
        print(f"{len(found.ids):,} of {len(data.items):,} items have features")
    return found


def _of_stores(ids: Sequence[str], paths: Sequence[str]) -> FrozenFeatures:
    stores = [FeatureStore(Path(path)) for path in paths]
    facts = [
        {key: getattr(store.facts, key) for key in ("encoder", "weights", "image_size", "dimensions")}
        for store in stores
    ]
    for store, own in zip(stores, facts, strict=True):
        if own != facts[0]:
            key = next(key for key in own if own[key] != facts[0][key])
            raise UserError(
                f"expected feature stores of one encoder, found {key} {facts[0][key]} in {stores[0].root} and "
                f"{own[key]} in {store.root}; extract both with the same encoder"
            )
    there = [[name for name in ids if name in store] for store in stores]
    items = [store.items(names) for store, names in zip(stores, there, strict=True) if names]
    if not items:
        raise UserError(f"{', '.join(map(str, paths))} have none of the items; give their feature stores")
    vector_of = {
        name: row for one in items for name, row in zip(one.ids, one.features_ND[:].unbind(), strict=True)
    }
    return FrozenFeatures(list(vector_of), torch.stack(list(vector_of.values())), facts[0] | {"tokens": 1})


def _of_vision(data: Conversations, name: str, device: torch.device) -> FrozenFeatures:
    if not Path(name).is_dir():
        use_cache_if_offline()
    try:
        encoder = load_vision(name)
    except Exception as error:  # transformers, the hub client and safetensors raise different ones
        raise UserError(
            f"cannot load the vision encoder {name} ({why(error, 200)}); give a folder or a name of the hub, such as "
            "openai/clip-vit-large-patch14"
        ) from error
    weights = encoder.fingerprint()
    folder = data.folder / "vision" / weights
    wanted = [name for name in data.items if data.picture(name)]
    if not folder.is_dir() or _read_ids(folder).of != wanted:
        _encode(data, encoder.to(device), wanted, folder)
    cached = _read_ids(folder)
    try:
        vectors, tokens = (open_array(folder / f"{part}.npy") for part in ("vectors", "tokens"))
        if (vectors.ndim, tokens.ndim) != (2, 3) or not len(cached.ids) == len(vectors) <= len(tokens):
            raise ValueError("its files differ in length")
        vector_NF = torch.from_numpy(np.array(vectors, np.float32))
        if not bool(vector_NF.isfinite().all()):
            raise ValueError("a vector is not finite")
    except UNREADABLE as error:
        raise UserError(
            f"the cached features {folder} are damaged ({why(error)}); remove the folder"
        ) from error
    facts = {"encoder": name, "weights": weights, "dimensions": vectors.shape[1], "tokens": tokens.shape[1]}
    return FrozenFeatures(cached.ids, vector_NF, facts, tokens)


class CachedIds(msgspec.Struct):
    """Ids of the items in a cache, and of all that it was made of, some of which have no readable picture."""

    ids: list[str]
    of: list[str]


def _read_ids(folder: Path) -> CachedIds:
    path = folder / "ids.json"
    repair = "remove the folder"
    cached = typed(read_json(path, "the ids of the cached features", dict), CachedIds, path, repair)
    if len(set(cached.ids)) < len(cached.ids) or not set(cached.ids) <= set(cached.of):
        raise UserError(f"{path} is damaged, it has wrong ids; {repair}")
    return cached


def _encode(data: Conversations, encoder: VisionEncoder, wanted: Sequence[str], folder: Path) -> None:
    """Write the cache of the items that have a readable picture; it is complete or absent."""
    parts = folder.with_name(folder.name + ".parts")
    shutil.rmtree(parts, ignore_errors=True)
    parts.mkdir(parents=True)
    ids, vectors, tokens = [], [], None
    for start in track(range(0, len(wanted), _AT_A_TIME), "encode pictures"):
        images = []
        for name in wanted[start : start + _AT_A_TIME]:
            path = data.picture(name)
            with suppress(UnreadableImage):
                images += [load_image(path)] if path else []
                ids.append(name)
        if not images:
            continue
        vector_RF, tokens_RTF = encoder.encode(images)
        if tokens is None:
            shape = (len(wanted), *tokens_RTF.shape[1:])
            tokens = np.lib.format.open_memmap(parts / "tokens.npy", "w+", np.float16, shape)
        tokens[len(ids) - len(images) : len(ids)] = tokens_RTF.numpy()
        vectors.append(vector_RF.numpy())
    if tokens is None:
        raise UserError(f"no item of {data.folder} has a readable picture; give --features instead")
    tokens.flush()
    np.save(parts / "vectors.npy", np.concatenate(vectors))
    write_json(parts / "ids.json", {"ids": ids, "of": list(wanted)}, indent=None)
    shutil.rmtree(folder, ignore_errors=True)
    parts.rename(folder)


def check_same_features(run: Path, trained: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Raise UserError if a run was trained on other frozen features."""
    for key in ("weights", "dimensions", "tokens"):
        if trained.get(key) != found.get(key):
            raise UserError(
                f"{run} was trained with {key} {trained.get(key)} of the frozen features, not {found.get(key)}; "
                "give the same --features or --vision"
            )
