"""Search spaces: images and texts as vectors of CLIP, BLIP, a run of train-dialog-encoder, or the user's
files.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from rich.progress import Progress
from torch import Tensor

from fashioniq.data.arrays import UNREADABLE, open_array
from fashioniq.data.dialogues import JOINED
from fashioniq.data.images import load_image
from fashioniq.data.items import Items
from fashioniq.features.pictures import FoundPictures, PictureSource
from fashioniq.features.store import TOP, Contents, FeatureStore
from fashioniq.features.writer import fill_store
from fashioniq.files import UserError, why
from fashioniq.loop.gallery import Gallery
from fashioniq.models.text import ImageText, TextEncoder, unit
from fashioniq.trained import load_dialog_encoder, load_pretrained

SUFFIXES = ("", ".jpg", ".jpeg", ".png", ".webp")


@dataclass(frozen=True)
class SearchSpace:
    """Image vectors N×D of unit length, the text encoder (None for query vectors), and metadata of both.

    `joined` is the separator between rounds.
    """

    ids: list[str]
    vectors_ND: Tensor
    encoder: TextEncoder | None
    facts: dict[str, Any]
    joined: str = JOINED

    def gallery(self) -> Gallery:
        """Gallery of the images."""
        return Gallery(Items.without_attributes(self.ids, self.vectors_ND), self.vectors_ND)


@dataclass(frozen=True)
class EncoderSource:
    """Encoder and origin of the pictures.

    `encoder` is a run of train-dialog-encoder, or CLIP or BLIP by folder or Hugging Face name; `weights`
    replace those of BLIP. `features` is the feature store, `images` the folder of the pictures.
    """

    encoder: str
    device: torch.device
    weights: Path | None = None
    features: Path | None = None
    images: Path | None = None
    workers: int = 2
    batch_size: int = 128


def picture_paths(folder: Path | None, names: Sequence[str]) -> dict[str, Path]:
    """Picture file of each name that has one in the folder, with or without a suffix."""
    found = {}
    for name in names if folder else []:
        paths = (Path(folder or "") / (name + suffix) for suffix in SUFFIXES)
        if path := next((path for path in paths if path.is_file()), None):
            found[name] = path
    return found


def search_space_of_vectors(path: Path, space: Sequence[str], device: torch.device) -> SearchSpace:
    """Search space of the user's own image vectors. Raises UserError unless there is one vector per image."""
    vectors_ND = read_unit_vectors(path, (len(space), None), "images × D, in the order of the search space")
    return SearchSpace(list(space), vectors_ND.to(device), None, {"encoder": f"vectors of {path}"})


def encode_search_space(source: EncoderSource, space: Sequence[str], images: dict[str, Path]) -> SearchSpace:
    """Encode the images of a search space.

    Raises UserError if the encoder or its features cannot be loaded.
    """
    if (Path(source.encoder) / "model.json").is_file():
        return _of_run(source, space)
    encoder = load_pretrained(source.encoder, source.weights).to(source.device)
    store = _filled_store(source, encoder, space, images)
    items = store.items(space)
    facts = {
        "encoder": source.encoder,
        "model": encoder.kind,
        "weights": str(source.weights or "its own"),
        "limit": encoder.limit,
    }
    return SearchSpace(
        items.ids, items.embedded(unit).to(source.device), encoder, facts | {"store": str(store.root)}
    )


def _of_run(source: EncoderSource, space: Sequence[str]) -> SearchSpace:
    if source.features is None or source.weights:
        raise UserError(
            f"{source.encoder} is a run of train-dialog-encoder: it needs the images' feature store in "
            "--features "
            "and cannot be combined with --weights"
        )
    store = FeatureStore(source.features)
    encoder, joined = load_dialog_encoder(Path(source.encoder), store)
    encoder.to(source.device)
    items = store.items(space)
    with torch.no_grad():
        vectors_ND = unit(items.to(source.device).embedded(encoder.embed_images))
    facts = {
        "encoder": source.encoder,
        "model": "dialog encoder",
        "limit": encoder.limit,
        "store": str(store.root),
    }
    return SearchSpace(items.ids, vectors_ND, encoder, facts, joined)


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


def _filled_store(
    source: EncoderSource, encoder: ImageText, space: Sequence[str], images: dict[str, Path]
) -> FeatureStore:
    """Feature store of the images, after adding those that are missing and have a picture."""
    facts = Contents(
        encoder=encoder.kind,
        weights=encoder.fingerprint(),
        image_size=encoder.image_size,
        dimensions=encoder.size,
        attribute_words=[],
        attributes="none",
    )
    root = source.features or (source.images and source.images / "features" / facts.weights)
    if root is None:
        raise UserError("expected pictures or their features; give --images or --features")
    if not images and not (root / "store.json").exists():
        found = f"no picture of the search space, such as {space[0]}, in {source.images}"
        where = found if source.images else f"no feature store in {root}"
        raise UserError(f"found {where}; give the folder that the image names are relative to with --images")
    pictures = FoundPictures("the search space", source.images or root, images)
    extract = PictureSource(
        pictures, _pixels, source.workers, ImageVectors(encoder), source.batch_size, attributes_of=None
    )
    with Progress() as bar:
        task = bar.add_task(f"images: {encoder.kind}", total=None)
        return fill_store(
            root,
            space,
            facts,
            extract,
            lambda count, of: bar.update(task, advance=count, total=of),
            update=bool(images),
        )[0]


class ImageVectors:
    """Function from pictures to vectors, without attributes."""

    def __init__(self, encoder: ImageText) -> None:
        self._encoder = encoder

    def __call__(self, images: Sequence[np.ndarray]) -> tuple[Tensor, Tensor]:
        """Vectors B×D and attributes B×TOP, all zero. Raises UserError if a vector is not finite."""
        vectors_BD = self._encoder.encode_images([Image.fromarray(pixels) for pixels in images]).cpu()
        if not vectors_BD.isfinite().all():
            raise UserError(
                "expected finite image vectors, found NaN or infinity; the encoder's weights are damaged, "
                "download them again"
            )
        return vectors_BD, torch.zeros(len(images), TOP, dtype=torch.int64)


def _pixels(path: Path) -> np.ndarray:
    return np.asarray(load_image(path))
