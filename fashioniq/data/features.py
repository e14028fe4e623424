"""A feature store: the image vector and the top attributes of every product, in a folder that is whole or resumable.

    features.npy     N×D float16 or float32      attributes.npy  N×8, ids of attribute words, 0 for none
    ids.json         the N product ids           store.json      encoder, image size, attribute words, count, failures

While it is being filled there is a folder `parts/` and no `store.json`; each part appears whole, so an extraction that
was killed goes on behind the last one.
"""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
from torch import Tensor

from fashioniq.files import UserError, read_json, whole, write_json

PART = 512  # products a part: what a kill can cost
IDENTITY = ("encoder", "weights", "image_size", "dimensions", "attribute_words")  # facts that models depend on
TOP = 8  # attributes kept of each product

Extract = Callable[[Sequence[str]], "Part"]


@dataclass(frozen=True)
class Part:
    """What an encoder made of some products: those that it could read, and why not of the others."""

    ids: list[str]
    features_ND: np.ndarray
    attributes_NA: np.ndarray
    failures: dict[str, str]


@dataclass(frozen=True)
class Items:
    """Products as tensors: ids, features N×D (float32) and attribute ids N×A."""

    ids: list[str]
    features_ND: Tensor
    attributes_NA: Tensor

    def __len__(self) -> int:
        return len(self.ids)

    def to(self, device: torch.device | str) -> "Items":
        """The same on another device."""
        return Items(self.ids, self.features_ND.to(device), self.attributes_NA.to(device))


class FeatureStore:
    """A finished store, opened as a memory map. Raises UserError where it is missing, unfinished or damaged."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root)
        if not (self.root / "store.json").exists():
            state = (
                "unfinished: run the same `fashioniq extract-features` again to complete it"
                if (self.root / "parts").is_dir()
                else ("missing: make it with `fashioniq extract-features`")
            )
            raise UserError(f"the feature store {self.root} is {state}")
        self.facts: dict[str, Any] = read_json(self.root / "store.json", "the feature store's description", dict)
        if missing := {*IDENTITY, "count", "failures"} - set(self.facts):
            raise UserError(f"{self.root / 'store.json'} lacks {', '.join(sorted(missing))}: remove the folder and extract again")
        self.ids: list[str] = read_json(self.root / "ids.json", "the feature store's ids", list)
        self._features_ND = _open_array(self.root / "features.npy")
        self._attributes_NA = _open_array(self.root / "attributes.npy")
        if not len(self.ids) == len(self._features_ND) == len(self._attributes_NA) == self.facts.get("count"):
            raise UserError(f"the feature store {self.root} is damaged: its files differ in length; remove the folder and extract again")
        self._places = {name: place for place, name in enumerate(self.ids)}

    @property
    def size(self) -> int:
        """The length of a feature vector."""
        return self._features_ND.shape[1]

    @property
    def attribute_words(self) -> list[str]:
        """The word of each attribute id, from id 1 on."""
        return self.facts["attribute_words"]

    @property
    def identity(self) -> dict[str, Any]:
        """What a model that was trained on this store must find again: the encoder, its weights and size, the attribute words."""
        return {key: self.facts[key] for key in IDENTITY}

    def __contains__(self, name: str) -> bool:
        return name in self._places

    def items(self, ids: Sequence[str]) -> Items:
        """Those of `ids` that the store has, in their order. Raises UserError where it has none."""
        there = [name for name in ids if name in self._places]
        if not there:
            raise UserError(f"the feature store {self.root} has none of the {len(ids)} products asked for: extract this category's features")
        places = [self._places[name] for name in there]
        features_ND = torch.from_numpy(self._features_ND[places].astype(np.float32))
        return Items(there, features_ND, torch.from_numpy(self._attributes_NA[places].astype(np.int64)))


def fill_store(root: Path, ids: Sequence[str], facts: dict[str, Any], extract: Extract, progress: Callable[[int], None]) -> FeatureStore:
    """Make a store of `ids`, part by part; a store that was begun with the same `facts` is continued, a finished one opened.

    Raises UserError where the folder holds a store of another encoder, size or attributes, or the disk is full.
    """
    root = Path(root)
    plan = {**facts, "asked": list(ids)}
    if (root / "store.json").exists():
        store = FeatureStore(root)
        _refuse_another(root, store.facts, facts)
        asked = set(store.ids) | set(store.facts["failures"])
        if missing := [name for name in ids if name not in asked]:
            raise UserError(
                f"the finished feature store {root} lacks {len(missing)} products, as {missing[0]}: remove the folder to extract all again"
            )
        return store
    parts = root / "parts"
    if (parts / "plan.json").exists():
        begun = read_json(parts / "plan.json", "the plan of an unfinished feature store", dict)
        _refuse_another(root, begun, facts)
        if begun["asked"] != plan["asked"]:
            raise UserError(f"{root} was begun for other products: remove the folder to begin again")
    else:
        write_json(parts / "plan.json", plan, indent=None)
    for number, start in enumerate(range(0, len(ids), PART)):
        if not (path := parts / f"{number:06d}.npz").exists():
            _write_part(path, extract(ids[start : start + PART]))
        progress(min(start + PART, len(ids)))
    return _join_parts(root, [_read_part(parts / f"{number:06d}.npz") for number in range(-(-len(ids) // PART))], facts)


def _refuse_another(root: Path, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    for key, value in wanted.items():
        if found.get(key) != value:
            there, here = json.dumps(found.get(key))[:60], json.dumps(value)[:60]
            raise UserError(
                f"the feature store {root} is of another {key} ({there}, not {here}): choose another folder with --features, or remove it"
            )


def _write_part(path: Path, part: Part) -> None:
    text = json.dumps({"ids": part.ids, "failures": part.failures})
    with whole(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, features=part.features_ND, attributes=part.attributes_NA, text=np.array(text))


def _read_part(path: Path) -> Part:
    try:
        with np.load(path, allow_pickle=False) as file:
            text = json.loads(str(file["text"]))
            return Part(text["ids"], file["features"], file["attributes"], text["failures"])
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise UserError(f"{path} is damaged ({error}): remove it and run the same command again") from error


def _join_parts(root: Path, parts: list[Part], facts: dict[str, Any]) -> FeatureStore:
    ids = [name for part in parts for name in part.ids]
    failures = {name: reason for part in parts for name, reason in part.failures.items()}
    if not ids:
        raise UserError(f"not one of {len(failures)} products could be read; the first: {next(iter(failures.items()), 'none was asked for')}")
    for name, array in (
        ("features", np.concatenate([part.features_ND for part in parts if part.ids])),
        ("attributes", np.concatenate([part.attributes_NA for part in parts if part.ids])),
    ):
        with whole(root / f"{name}.npy") as temporary, open(temporary, "wb") as file:
            np.save(file, array)
    write_json(root / "ids.json", ids, indent=None)
    write_json(root / "store.json", {**facts, "count": len(ids), "failures": failures})  # last: its presence means whole
    shutil.rmtree(root / "parts")
    return FeatureStore(root)


def _open_array(path: Path) -> np.ndarray:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise UserError(f"{path} is missing or damaged ({error}): remove the store's folder and extract again") from error
