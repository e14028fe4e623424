"""Who turns dialogues and images into vectors of one space: CLIP, BLIP, a run of train-dialog-encoder, or files of the user's own."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from rich.progress import Progress
from torch import Tensor

from fashioniq.data.dialogues import JOINED
from fashioniq.data.images import load_image
from fashioniq.data.items import Items
from fashioniq.features.pictures import PictureSource
from fashioniq.features.store import TOP, FeatureStore
from fashioniq.features.writer import fill_store
from fashioniq.files import UserError
from fashioniq.loop.gallery import Gallery
from fashioniq.models.text import ImageText, TextEncoder, unit
from fashioniq.trained import load_dialog_encoder, load_pretrained

SUFFIXES = ("", ".jpg", ".jpeg", ".png", ".webp")


@dataclass(frozen=True)
class SearchSpace:
    """The images that are searched, as vectors of unit length, who encodes the texts (none where queries are vectors), and what that depends on."""

    ids: list[str]
    vectors_ND: Tensor
    encoder: TextEncoder | None
    facts: dict[str, Any]
    joined: str = JOINED

    def gallery(self) -> Gallery:
        """The images as candidates."""
        return Gallery(Items.without_attributes(self.ids, self.vectors_ND), self.vectors_ND)


@dataclass(frozen=True)
class EncoderSource:
    """Who encodes and where pictures come from: a run or the name of CLIP or BLIP, other weights of BLIP, a feature store, the pictures' folder."""

    encoder: str
    device: torch.device
    weights: Path | None = None
    features: Path | None = None
    images: Path | None = None
    workers: int = 2
    batch_size: int = 128


@dataclass
class SearchSpacePictures:
    """The pictures of a search space as a PictureSource wants them."""

    root: Path
    images: dict[str, Path]
    category: str = "the search space"
    picture_failures: dict[str, str] = field(default_factory=dict)


def picture_paths(folder: Path | None, names: Sequence[str]) -> dict[str, Path]:
    """The file of each name that has one in a folder: the name itself, or with the suffix of a picture."""
    found = {}
    for name in names if folder else []:
        places = (Path(folder or "") / (name + suffix) for suffix in SUFFIXES)
        if path := next((place for place in places if place.is_file()), None):
            found[name] = path
    return found


def search_space_of_vectors(path: Path, space: Sequence[str], device: torch.device) -> SearchSpace:
    """Vectors of the user's own, in the order of the search space. Raises UserError where they do not fit it."""
    vectors_ND = read_unit_vectors(path, (len(space), None), "images × D, in the order of the search space")
    return SearchSpace(list(space), vectors_ND.to(device), None, {"encoder": f"vectors of {path}"})


def encode_search_space(source: EncoderSource, space: Sequence[str], images: dict[str, Path]) -> SearchSpace:
    """The search space as the encoder sees it, and the encoder. Raises UserError where it cannot be had or does not fit."""
    if (Path(source.encoder) / "model.json").is_file():
        return _of_run(source, space)
    encoder = load_pretrained(source.encoder, source.weights).to(source.device)
    store = _filled_store(source, encoder, space, images)
    items = store.items(space)
    facts = {"encoder": source.encoder, "model": encoder.kind, "weights": str(source.weights or "its own"), "limit": encoder.limit}
    return SearchSpace(items.ids, unit(items.features_ND).to(source.device), encoder, facts | {"store": str(store.root)})


def _of_run(source: EncoderSource, space: Sequence[str]) -> SearchSpace:
    if source.features is None or source.weights:
        raise UserError(f"{source.encoder} is a run of train-dialog-encoder: give the images' feature store with --features, and no --weights")
    store = FeatureStore(source.features)
    encoder, joined = load_dialog_encoder(Path(source.encoder), store)
    encoder.to(source.device)
    items = store.items(space)
    with torch.no_grad():
        vectors_ND = unit(encoder.embed_images(items.features_ND.to(source.device)))
    facts = {"encoder": source.encoder, "model": "dialog encoder", "limit": encoder.limit, "store": str(store.root)}
    return SearchSpace(items.ids, vectors_ND, encoder, facts, joined)


def read_unit_vectors(path: Path, shape: tuple[int | None, ...], layout: str) -> Tensor:
    """The vectors of a .npy file at unit length, float32. Raises UserError for another shape, and vectors that have no direction."""
    try:
        array = np.load(path, allow_pickle=False, mmap_mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise UserError(f"cannot read {path} as a .npy array: {error}") from error
    wanted = " × ".join("D" if length is None else f"{length:,}" for length in shape)
    if array.dtype.kind not in "fiu" or array.ndim != len(shape) or any(a not in (b, None) for b, a in zip(array.shape, shape, strict=True)):
        raise UserError(f"{path} should hold {wanted} numbers ({layout}); it holds {array.dtype} of shape {array.shape}")
    vectors_ND = torch.from_numpy(np.array(array.reshape(-1, array.shape[-1]), np.float32))
    length_N = vectors_ND.norm(dim=1)
    if not (good_N := length_N.isfinite() & (length_N > 0)).all():
        raise UserError(f"{path}: {int((~good_N).sum())} vectors are NaN, infinite or zero, the first in row {int((~good_N).nonzero()[0])}")
    return torch.cat([unit(part) for part in vectors_ND.split(65536)]).view(array.shape)


def _filled_store(source: EncoderSource, encoder: ImageText, space: Sequence[str], images: dict[str, Path]) -> FeatureStore:
    """The store of the images' vectors, filled with what it lacks as far as there are pictures."""
    facts: dict[str, Any] = {
        "encoder": encoder.kind,
        "weights": encoder.fingerprint(),
        "image_size": encoder.image_size,
        "dimensions": encoder.size,
        "attribute_words": [],
        "attributes": "none",
    }
    root = source.features or (source.images and source.images / "features" / facts["weights"])
    if root is None:
        raise UserError("give the folder of the pictures with --images, or a feature store of them with --features")
    if not images and not (root / "store.json").exists():
        where = f"{source.images} has no picture of the search space, as {space[0]}" if source.images else f"{root} is no store"
        raise UserError(f"{where}: give the folder that the search space's names begin in with --images")
    pictures, encode = SearchSpacePictures(source.images or root, images), ImageVectors(encoder)
    extract = PictureSource(pictures, _pixels, source.workers, encode, source.batch_size, attributes_of=None)
    with Progress() as bar:
        task = bar.add_task(f"images: {encoder.kind}", total=None)
        return fill_store(root, space, facts, extract, lambda count, of: bar.update(task, advance=count, total=of), update=bool(images))[0]


class ImageVectors:
    """Pictures → vectors, and no attributes."""

    def __init__(self, encoder: ImageText) -> None:
        self._encoder = encoder

    def __call__(self, images: Sequence[np.ndarray]) -> tuple[Tensor, Tensor]:
        """Vectors B×D and attributes B×TOP, zeros. Raises UserError where the encoder makes none of a picture."""
        vectors_BD = self._encoder.encode_images([Image.fromarray(pixels) for pixels in images]).cpu()
        if not vectors_BD.isfinite().all():
            raise UserError("the encoder makes vectors of images that are not finite: its weights are damaged")
        return vectors_BD, torch.zeros(len(images), TOP, dtype=torch.int64)


def _pixels(path: Path) -> np.ndarray:
    return np.asarray(load_image(path))
