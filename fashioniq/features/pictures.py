"""Where the vectors of a feature store come from: an encoder of pictures or texts, or the user's own files.

Each source is the Contents of the store and an `Extract`.
"""

from collections.abc import Generator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import torch
from msgspec import UNSET
from PIL import Image
from sklearn.preprocessing import normalize
from torch import Tensor

from fashioniq.config import ExtractFeatures
from fashioniq.data.arrays import UNREADABLE, open_array
from fashioniq.data.attributes import TOP, label_vocabulary, top_labels
from fashioniq.data.catalog import Catalog, text_of
from fashioniq.data.ids import Spellings, repeated
from fashioniq.data.images import load_image, load_square
from fashioniq.data.items import as_float32
from fashioniq.encoders.identity import FROM_FILE, Identity
from fashioniq.encoders.metadata import Metadata, words_fingerprint
from fashioniq.encoders.protocol import Encoder, encodes_pictures
from fashioniq.encoders.timm import TimmEncoder
from fashioniq.encoders.transformers import ImageText
from fashioniq.features.picture_source import (
    AttributesOf,
    Encode,
    PictureSource,
    Products,
    Read,
)
from fashioniq.features.store import Contents
from fashioniq.features.writer import Advance, Extract, StorePart
from fashioniq.files import UserError, checksum, read_json, why
from fashioniq.options import refuse

# Minimum number of training products with a word, if labels are used as attributes.
LABELLED_OFTEN = 3
NO_TEXT = "no title or attribute word that the encoder has vectors of"

Source = tuple[Contents, Extract]


def words_of_labels(products: Products) -> list[str]:
    """Attribute words of at least LABELLED_OFTEN training products."""
    if not isinstance(products, Catalog):
        return []
    return label_vocabulary(products.labels, products.ids("train"), LABELLED_OFTEN)


def of_encoder(
    encoder: Encoder,
    products: Products,
    settings: ExtractFeatures,
    words: list[str] | None = None,
    bfloat16: bool = False,
) -> tuple[Contents, "Extract | PictureSource"]:
    """Vectors of the pictures; of an encoder without a picture half, those of titles and labels, or of captions."""
    words = words_of_labels(products) if words is None else words
    origin = "labels" if isinstance(products, Catalog) else "none"
    facts, attributes_of = contents_of(encoder.identity, words, origin), _labels(products, words)
    if not encodes_pictures(encoder):
        if settings.patches:
            raise UserError(
                f"--patches needs an encoder of pictures; leave it out with {encoder.identity.encoder}"
            )
        return facts, _texts(encoder, products, attributes_of)
    if isinstance(encoder, TimmEncoder):
        facts.precision = "bfloat16" if bfloat16 else "float32"
        read: Read = partial(load_square, size=encoder.identity.image_size or 0)
        encode: Encode = encoder.squares
    else:
        read, encode = _pixels, (vectors := ImageVectors(encoder, settings.patches))
        facts.patches = vectors.count or UNSET
    return facts, PictureSource(
        products, read, settings.workers, encode, settings.batch_size, attributes_of=attributes_of
    )


def with_metadata(source: Source, catalog: Catalog) -> Source:
    """Vectors of another source, each followed by that of the words of titles and labels, both at unit length.

    Products without a word that train knows have zeros there. Raises UserError if train has too few words.
    """
    facts, extract = source
    encoder = Metadata(catalog)

    def joined(lists: Sequence[Sequence[str]], advance: Advance) -> Generator[StorePart, None, None]:
        for part in extract(lists, advance):
            words_BD = encoder.texts([text_of(catalog, name) for name in part.ids]).numpy()
            pictures_BD = normalize(part.features_ND.astype(np.float32))
            yield replace(part, features_ND=np.concatenate([pictures_BD, words_BD], axis=1))

    facts = msgspec.structs.replace(
        facts,
        encoder=f"{facts.encoder} + metadata",
        weights=f"{facts.weights}-{words_fingerprint(catalog, catalog.ids('train'))}",
        dimensions=facts.dimensions + encoder.size,
    )
    return facts, joined


def _texts(encoder: Encoder, products: Products, attributes_of: AttributesOf) -> Extract:
    """An `Extract` of the products' texts."""

    def text(name: str) -> str:
        return text_of(products, name) if isinstance(products, Catalog) else products.texts.get(name, "")

    def extract(lists: Sequence[Sequence[str]], advance: Advance) -> Generator[StorePart, None, None]:
        for ids in lists:
            wordy = [name for name in ids if text(name).strip()]
            vectors_ND = encoder.texts([text(name) for name in wordy]).cpu().numpy()
            if not np.isfinite(vectors_ND).all():
                raise _not_finite()
            known_N = np.asarray(vectors_ND.any(axis=1))
            there = [name for name, known in zip(wordy, known_N, strict=True) if known]
            failed = dict.fromkeys(set(ids) - set(there), NO_TEXT)
            advance(len(ids))
            yield StorePart(there, vectors_ND[known_N], attributes_of(there), failed)

    return extract


def _not_finite() -> UserError:
    return UserError(
        "expected finite vectors, found NaN or infinity; the encoder's weights are damaged, download them again"
    )


class ImageVectors:
    """Function from pictures to vectors, without attributes, and their token features if `patches`.

    `count` is the number of token features of a picture.
    """

    def __init__(self, encoder: Encoder, patches: bool = False) -> None:
        self._encoder, self.count = encoder, 0
        if patches:
            if not isinstance(encoder, ImageText):
                raise UserError(
                    f"--patches needs a model of transformers; leave it out with {encoder.identity.encoder}"
                )
            self.count = encoder.images_and_patches([Image.new("RGB", (32, 32))])[1].shape[1]

    def __call__(self, images: Sequence[np.ndarray]) -> tuple[Tensor, ...]:
        """Vectors B×D, attributes B×TOP, all zero, and token features B×T×F. Raises UserError for NaN."""
        pictures = [Image.fromarray(pixels) for pixels in images]
        attributes_BA = torch.zeros(len(images), TOP, dtype=torch.int64)
        if self.count and pictures:
            assert isinstance(self._encoder, ImageText)
            vectors_BD, patches_BTF = self._encoder.images_and_patches(pictures)
            made: tuple[Tensor, ...] = (vectors_BD.cpu(), attributes_BA, patches_BTF.half().cpu())
        else:
            made = (self._encoder.images(pictures).cpu(), attributes_BA)
        if not made[0].isfinite().all():
            raise _not_finite()
        return made


def _pixels(path: Path) -> np.ndarray:
    return np.asarray(load_image(path))


def own_vectors(vectors: Path, product_ids: Path, catalog: Catalog) -> Source:
    """Rows of a .npy file, with attributes from the labels.

    Raises UserError if the files disagree.
    """
    vectors_ND, ids = _read_array(vectors), read_json(product_ids, "the list of ids", list)
    refuse(
        (
            len(ids) != len(vectors_ND),
            f"expected one id per vector, found {len(ids)} ids in {product_ids} "
            f"and {len(vectors_ND)} rows in {vectors}",
        ),
        (
            not all(isinstance(name, str) for name in ids) or repeated(ids),
            f"{product_ids}: expected a list of ids as strings, without duplicates",
        ),
    )
    ids = list(map(Spellings(catalog.all_ids()).own, ids))
    words = words_of_labels(catalog)
    weights = f"{checksum(vectors)}-{checksum(product_ids)}"
    identity = Identity(
        encoder=f"{FROM_FILE}{vectors.name}", weights=weights, image_size=None, dimensions=vectors_ND.shape[1]
    )
    facts = contents_of(identity, words, "labels")
    zero = {name for name, row in zip(ids, vectors_ND, strict=True) if not row.any()}
    if len(zero) == len(ids):
        raise UserError(f"all vectors in {vectors} are zero; write the file again")
    rows = {name: row for name, row in zip(ids, vectors_ND, strict=True) if name not in zero}
    reasons = dict.fromkeys(zero, "its vector is zero")
    attributes_of = _labels(catalog, words)

    def extract(lists: Sequence[Sequence[str]], advance: Advance) -> Generator[StorePart, None, None]:
        for ids in lists:
            there = [name for name in ids if name in rows]
            features_ND = np.array([rows[name] for name in there], dtype=np.float32)
            advance(len(ids))
            failed = {name: reasons.get(name, f"not in {product_ids}") for name in ids if name not in rows}
            yield StorePart(there, features_ND, attributes_of(there), failed)

    return facts, extract


def contents_of(identity: Identity, words: list[str], attributes: str) -> Contents:
    return Contents(**msgspec.structs.asdict(identity), attribute_words=words, attributes=attributes)


def _labels(products: Products, words: list[str]) -> AttributesOf:
    labels = products.labels if isinstance(products, Catalog) else {}
    return lambda ids: top_labels(labels, ids, words, TOP)


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
