"""Search spaces: vectors of a feature store or of the user's files, and the encoder of texts in the same space."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fashioniq import encoders
from fashioniq.data.arrays import UNREADABLE, open_array
from fashioniq.data.catalog import Catalog
from fashioniq.data.dialogues import JOINED, join_rounds
from fashioniq.data.items import Items
from fashioniq.encoders.protocol import UNLIMITED, unit
from fashioniq.features.store import FeatureStore, open_store
from fashioniq.features.stores import check_encoder, store_of_encoder
from fashioniq.files import UserError, why
from fashioniq.loop.gallery import Gallery
from fashioniq.models.text import TextEncoder
from fashioniq.runs.trained import load_dialog_encoder


@dataclass(frozen=True)
class SearchSpace:
    """Vectors N×D of unit length, the text encoder (None for query vectors), and metadata of both.

    `joined` is the separator between rounds.
    """

    ids: list[str]
    vectors_ND: Tensor
    encoder: TextEncoder | None
    facts: dict[str, Any]
    joined: str = JOINED

    def text(self, rounds: Sequence[str]) -> str:
        """Query text of a dialog."""
        return join_rounds(rounds, self.joined)

    def gallery(self) -> Gallery:
        """Gallery of the images."""
        return Gallery(Items.without_attributes(self.ids, self.vectors_ND), self.vectors_ND)


def search_space_of_vectors(path: Path, space: Sequence[str], device: torch.device) -> SearchSpace:
    """Search space of the user's own image vectors. Raises UserError unless there is one vector per image."""
    vectors_ND = read_unit_vectors(path, (len(space), None), "images × D, in the order of the search space")
    return SearchSpace(list(space), vectors_ND.to(device), None, {"encoder": f"vectors of {path}"})


def search_space(
    encoder: str,
    ids: Sequence[str],
    device: torch.device,
    *,
    store: Path | None,
    catalog: Catalog | None = None,
    weights: Path | None = None,
) -> SearchSpace:
    """Search space of the products or images `ids` that are in a feature store of the encoder.

    The encoder is a run of train-dialog-encoder, or any other by its name; `weights` replace those of a model like
    BLIP. If `store` is None, it is that of the catalog, which is completed for an encoder that is no run. Raises
    UserError if the encoder cannot be loaded or has other vectors.
    """
    if (Path(encoder) / "model.json").is_file():
        if weights:
            raise UserError(
                f"{encoder} is a run of train-dialog-encoder, which --weights cannot replace; leave it out"
            )
        opened = open_store(catalog.root, catalog.category, store) if catalog else FeatureStore(_given(store))
        trained, joined = load_dialog_encoder(Path(encoder), opened)
        trained.to(device)
        items = opened.items(ids)
        vectors_ND = unit(items.to(device).embedded(trained.embed_images))
        about = {
            "encoder": encoder,
            "model": "dialog encoder",
            "limit": trained.limit,
            "store": str(opened.root),
        }
        return SearchSpace(items.ids, vectors_ND, trained, about, joined)
    loaded = encoders.load(encoder, weights=str(weights) if weights else None, device=device, catalog=catalog)
    if catalog is not None and store is None:
        opened = store_of_encoder(catalog, encoder, loaded)
    else:
        opened = FeatureStore(_given(store))
        check_encoder(opened, encoder, loaded)
    items = opened.items(ids)
    about = {
        "encoder": encoder,
        "model": loaded.identity.encoder,
        "weights": str(weights or "its own"),
        "store": str(opened.root),
        **({"limit": loaded.limit} if loaded.limit < UNLIMITED else {}),
    }
    return SearchSpace(items.ids, items.embedded(unit).to(device), loaded, about)


def _given(store: Path | None) -> Path:
    if store is None:
        raise UserError(
            "expected the feature store of the images; make it with `fashioniq extract-features`, and give it with "
            "--features"
        )
    return store


def read_unit_vectors(path: Path, shape: tuple[int | None, ...], layout: str) -> Tensor:
    """Read the vectors of a .npy file and normalise them to unit length, float32.

    Raises UserError if the shape differs, or a vector is zero or not finite.
    """
    try:
        array = open_array(path)
    except UNREADABLE as error:
        raise UserError(
            f"expected a .npy array in {path}, found {why(error)}; write the file again"
        ) from error
    wanted = " × ".join("D" if length is None else f"{length:,}" for length in shape)
    if (
        array.dtype.kind not in "fiu"
        or array.ndim != len(shape)
        or array.shape[-1] == 0
        or any(a not in (b, None) for b, a in zip(array.shape, shape, strict=True))
    ):
        raise UserError(
            f"expected {wanted} numbers ({layout}), found {array.dtype} of shape {array.shape} in {path}; "
            "write the file again"
        )
    vectors_ND = torch.from_numpy(np.array(array.reshape(-1, array.shape[-1]), np.float32))
    length_N = vectors_ND.norm(dim=1)
    if not (good_N := length_N.isfinite() & (length_N > 0)).all():
        raise UserError(
            f"{path}: {int((~good_N).sum())} vectors are NaN, infinite or zero, "
            f"the first in row {int((~good_N).nonzero()[0])}; correct them"
        )
    return torch.cat([unit(part) for part in vectors_ND.split(65536)]).view(array.shape)
