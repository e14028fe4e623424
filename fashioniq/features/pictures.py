"""Where the vectors of a feature store come from: pictures, words, or the user's own files.

Each source is the Contents of the store and an `Extract`.
"""

import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import msgspec
import numpy as np
import torch
from sklearn.preprocessing import normalize
from torch import Tensor, nn

from fashioniq.categories import canonical
from fashioniq.config import ExtractFeatures
from fashioniq.data.arrays import UNREADABLE, open_array
from fashioniq.data.attributes import label_vocabulary, top_labels
from fashioniq.data.catalog import Catalog
from fashioniq.data.images import AHEAD, PictureReader, UnreadableImage, load_square
from fashioniq.data.items import as_float32
from fashioniq.features.encoders import load_encoder
from fashioniq.features.metadata import metadata_vectors, words_fingerprint
from fashioniq.features.store import TOP, Contents
from fashioniq.features.writer import Advance, Extract, Part
from fashioniq.files import UserError, checksum, read_json, why
from fashioniq.models.attributes import AttributePredictor, top_attributes
from fashioniq.models.encoder import (
    InFloat32,
    captured,
    encoder_mean_std,
    encoder_size,
    has_bfloat16,
    normalise,
    prepare_inference,
)
from fashioniq.trained import load_predictor, pick_device

# Minimum number of training products with a word, if labels are used as attributes.
LABELLED_OFTEN = 3

AttributesOf = Callable[[Sequence[str]], np.ndarray]  # ids -> N×TOP
Source = tuple[Contents, Extract]
Encoded = Tensor | tuple[Tensor, Tensor]  # features B×D, and of an AttributePredictor logits B×A


def words_of_labels(catalog: Catalog) -> list[str]:
    """Attribute words of at least LABELLED_OFTEN training products."""
    return label_vocabulary(catalog.labels, catalog.ids("train"), LABELLED_OFTEN)


def metadata(settings: ExtractFeatures, catalog: Catalog) -> Source:
    """Vectors from the words of titles and labels. Raises UserError if train has too few words."""
    words = words_of_labels(catalog)
    ids = catalog.all_ids()
    known, vectors_ND = metadata_vectors(catalog, ids)
    facts = _facts(
        "metadata", words_fingerprint(catalog, ids), None, vectors_ND.shape[1], words, attributes="labels"
    )
    return facts, _given(
        dict(zip(known, vectors_ND, strict=True)),
        _labels(catalog, words),
        "no title or attribute word that train knows",
    )


def with_metadata(source: Source, catalog: Catalog) -> Source:
    """Vectors of another source, each followed by that of the words of titles and labels, both at unit length.

    Products without a word that train knows have zeros there. Raises UserError if train has too few words.
    """
    facts, extract = source
    known, vectors_ND = metadata_vectors(catalog, catalog.all_ids())
    position_of = {name: position for position, name in enumerate(known)}

    def joined(lists: Sequence[Sequence[str]], advance: Advance) -> Generator[Part, None, None]:
        for part in extract(lists, advance):
            words_BD = np.zeros((len(part.ids), vectors_ND.shape[1]), dtype=np.float32)
            for row, name in enumerate(part.ids):
                if name in position_of:
                    words_BD[row] = vectors_ND[position_of[name]]
            pictures_BD = normalize(part.features_ND.astype(np.float32))
            yield replace(part, features_ND=np.concatenate([pictures_BD, words_BD], axis=1))

    facts = msgspec.structs.replace(
        facts,
        encoder=f"{facts.encoder} + metadata",
        weights=f"{facts.weights}-{words_fingerprint(catalog, catalog.ids('train'))}",
        dimensions=facts.dimensions + vectors_ND.shape[1],
    )
    return facts, joined


def own_vectors(vectors: Path, product_ids: Path, catalog: Catalog) -> Source:
    """Rows of a .npy file, with attributes from the labels.

    Raises UserError if the files disagree.
    """
    vectors_ND, ids = _read_array(vectors), read_json(product_ids, "the list of ids", list)
    if len(ids) != len(vectors_ND):
        raise UserError(
            f"expected one id per vector, found {len(ids)} ids in {product_ids} "
            f"and {len(vectors_ND)} rows in {vectors}"
        )
    if not all(isinstance(name, str) for name in ids) or len(set(ids)) != len(ids):
        raise UserError(f"{product_ids}: expected a list of ids as strings, without duplicates")
    words = words_of_labels(catalog)
    weights = f"{checksum(vectors)}-{checksum(product_ids)}"
    facts = _facts(
        f"vectors of {vectors.name}", weights, None, vectors_ND.shape[1], words, attributes="labels"
    )
    zero = {name for name, row in zip(ids, vectors_ND, strict=True) if not row.any()}
    if len(zero) == len(ids):
        raise UserError(f"all vectors in {vectors} are zero; write the file again")
    rows = {name: row for name, row in zip(ids, vectors_ND, strict=True) if name not in zero}
    reasons = dict.fromkeys(zero, "its vector is zero")
    return facts, _given(rows, _labels(catalog, words), f"not in {product_ids}", reasons)


def pictures(
    settings: ExtractFeatures, catalog: Catalog, words: list[str] | None
) -> tuple[Contents, "PictureSource"]:
    """Vectors of the pictures.

    Attributes come from --predictor, or from labels in `words` (default: words of train).

    Raises UserError if the encoder, its weights or the predictor cannot be loaded, or if pictures disappear
    during the extraction.
    """
    device = pick_device(settings.device)
    if settings.predictor:
        model: nn.Module
        model, known = load_predictor(settings.predictor)
        if known.category not in ("all", canonical(settings.category)):
            raise UserError(
                f"{settings.predictor} predicts attributes of {known.category}, not of {settings.category}"
            )
        name, size, words = known.encoder, known.image_size, known.attribute_words
        encoder, weights = model.encoder, checksum(settings.predictor / "weights.safetensors")
        origin, attributes_of = "predicted", None
    else:
        name, size = settings.encoder, settings.image_size
        model, weights = load_encoder(name, settings.weights, size)
        words = words_of_labels(catalog) if words is None else words
        encoder, origin, attributes_of = model, "labels", _labels(catalog, words)
    bfloat16 = settings.precision == "bfloat16" or (settings.precision == "auto" and has_bfloat16(device))
    facts = _facts(name, weights, size, encoder_size(encoder), words, attributes=origin)
    facts.precision = "bfloat16" if bfloat16 else "float32"
    encode = Encoding(model, encoder, device, bfloat16)
    return facts, PictureSource(
        catalog,
        partial(load_square, size=size),
        settings.workers,
        encode,
        settings.batch_size,
        attributes_of=attributes_of,
    )


class Encoding:
    """Encoder of square pictures: features and, with an AttributePredictor, top attributes."""

    def __init__(self, model: nn.Module, encoder: nn.Module, device: torch.device, bfloat16: bool) -> None:
        prepare_inference(encoder)
        if isinstance(model, AttributePredictor):
            model.head = InFloat32(model.head)  # type: ignore[assignment]  # bfloat16 scores would often be equal
        self._model = model.eval().to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._prepare, self._size = normalise(*encoder_mean_std(encoder)), encoder_size(encoder)
        self._device, self._bfloat16 = device, bfloat16
        self._run: Callable[[Tensor], Encoded] = self._forward
        self._to_capture = device.type == "cuda"

    @torch.inference_mode()
    def __call__(self, images: Sequence[np.ndarray]) -> tuple[Tensor, Tensor]:
        """Features B×D (float16) and attributes B×TOP (zeros without a predictor).

        On a GPU, the results are computed asynchronously.
        """
        if not images:
            return torch.empty(0, self._size, dtype=torch.float16, device=self._device), torch.empty(
                0, TOP, dtype=torch.int64, device=self._device
            )
        pixels_BCHW = torch.from_numpy(np.stack(images))
        if self._device.type == "cuda":
            pixels_BCHW = pixels_BCHW.pin_memory()
        images_BCHW = self._prepare(pixels_BCHW.to(self._device, non_blocking=True)).to(
            memory_format=torch.channels_last
        )
        if self._to_capture:
            self._run, self._to_capture = captured(self._forward, images_BCHW), False
        made = self._run(images_BCHW)
        features_BD, logits_BA = (
            made if isinstance(made, tuple) else (made, torch.empty(len(images), 0, device=self._device))
        )
        return features_BD.to(torch.float16), top_attributes(logits_BA, TOP)

    def _forward(self, images_BCHW: Tensor) -> Encoded:
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._bfloat16):
            made: Encoded = self._model(images_BCHW)
            return made


class PictureFiles(Protocol):
    """Input of a PictureSource, such as a Catalog: picture files and reasons for missing ones."""

    category: str
    root: Path

    @property
    def images(self) -> dict[str, Path]: ...

    @property
    def picture_failures(self) -> dict[str, str]: ...


@dataclass
class FoundPictures:
    """Pictures of some products: a PictureFiles."""

    category: str
    root: Path
    images: dict[str, Path]
    picture_failures: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PictureSource:
    """An `Extract` that reads pictures in advance, across parts, while the network computes.

    Batches do not span parts.
    """

    catalog: PictureFiles
    read: Callable[[Path], np.ndarray]
    workers: int
    encode: Callable[[Sequence[np.ndarray]], tuple[Tensor, Tensor]]
    batch_size: int
    attributes_of: AttributesOf | None

    def __call__(self, lists: Sequence[Sequence[str]], advance: Advance) -> Generator[Part, None, None]:
        """Yield a Part for each list of ids.

        Raises UserError if there are no pictures, or if one disappears, which must not be recorded as
        missing.
        """
        if lists and not self.catalog.images:
            raise UserError(
                f"there is no picture of {self.catalog.category} in {self.catalog.root / 'images'}: "
                "add pictures named <id>.jpg"
            )
        return self.parts(lists, advance)

    def parts(self, lists: Sequence[Sequence[str]], advance: Advance) -> Generator[Part, None, None]:
        """Yield a Part for each list of ids, also if there are no pictures."""
        paths = self.catalog.images
        with PictureReader(self.read, self.workers, ahead=max(AHEAD, 2 * self.batch_size)) as reader:
            squares = reader(paths[name] for ids in lists for name in ids if name in paths)
            for ids in lists:
                yield self._part(ids, squares, advance)

    def _part(
        self, ids: Sequence[str], squares: Iterator[np.ndarray | UnreadableImage], advance: Advance
    ) -> Part:
        encoded, failures, batch, made = [], {}, [], []
        for name in ids:
            square = self._next(name, squares)
            if isinstance(square, str):
                failures[name] = square
                advance(1)
                continue
            encoded.append(name)
            batch.append(square)
            if len(batch) == self.batch_size:
                made.append(self.encode(batch))
                advance(len(batch))
                batch = []
        made.append(self.encode(batch))
        advance(len(batch))
        features_ND, attributes_NA = (torch.cat(tensors).cpu().numpy() for tensors in zip(*made, strict=True))
        return Part(
            encoded,
            features_ND,
            self.attributes_of(encoded) if self.attributes_of else attributes_NA,
            failures,
        )

    def _next(self, name: str, squares: Iterator[np.ndarray | UnreadableImage]) -> np.ndarray | str:
        path = self.catalog.images.get(name)
        if path is None:
            known = self.catalog.picture_failures.get(name)
            return f"no picture ({known})" if known else "no picture"
        square = next(squares)
        if not isinstance(square, UnreadableImage):
            return square
        if not os.path.lexists(path):
            raise UserError(f"{path} disappeared during the run: restore it, and run the same command again")
        return str(square)


def _facts(
    encoder: str, weights: str, image_size: int | None, dimensions: int, words: list[str], attributes: str
) -> Contents:
    return Contents(
        encoder=encoder,
        weights=weights,
        image_size=image_size,
        dimensions=dimensions,
        attribute_words=words,
        attributes=attributes,
    )


def _labels(catalog: Catalog, words: list[str]) -> AttributesOf:
    return lambda ids: top_labels(catalog.labels, ids, words, TOP)


def _given(
    rows: Mapping[str, np.ndarray],
    attributes_of: AttributesOf,
    missing: str,
    reasons: Mapping[str, str] = MappingProxyType({}),
) -> Extract:
    """An `Extract` of these rows. Products without a row fail for their own reason, or as `missing` ones."""

    def extract(lists: Sequence[Sequence[str]], advance: Advance) -> Generator[Part, None, None]:
        for ids in lists:
            there = [name for name in ids if name in rows]
            features_ND = np.array([rows[name] for name in there], dtype=np.float32)
            advance(len(ids))
            failed = {name: reasons.get(name, missing) for name in ids if name not in rows}
            yield Part(there, features_ND, attributes_of(there), failed)

    return extract


def _read_array(path: Path) -> np.ndarray:
    try:
        array = open_array(path)
    except UNREADABLE as error:
        raise UserError(f"cannot read {path} as a .npy array: {why(error)}") from error
    if array.ndim != 2 or array.shape[1] == 0 or array.dtype.kind not in "fiu":
        found = f"{array.dtype} of shape {array.shape}"
        raise UserError(f"{path}: expected a matrix of numbers with one row per product, found {found}")
    if not np.isfinite(rows := as_float32(array)).all():
        raise UserError(f"{path}: expected finite numbers, found NaN or infinity")
    return rows
