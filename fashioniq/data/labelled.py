"""Photos with attribute labels: the training data of the attribute predictor."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fashioniq.data.attributes import label_matrix, label_vocabulary, types_of
from fashioniq.data.catalog import Catalog
from fashioniq.data.photos import Photo
from fashioniq.files import UserError

YES, NO, UNKNOWN = 1, 0, -1


@dataclass(frozen=True)
class LabeledPhotos:
    """Photos of a split and their labels: int8, N×A, with the values YES, NO and UNKNOWN.

    `asked` is the size of the split, including photos without labels.
    """

    photos: list[Photo]
    labels_NA: np.ndarray
    asked: int


@dataclass(frozen=True)
class LabelledSplits:
    """Train and val of a source, with the word of each label column and the type of each word."""

    train: LabeledPhotos
    val: LabeledPhotos
    words: list[str]
    types: list[str]

    def carried_by(self, at_least: int) -> "LabelledSplits":
        """Keep only the words of at least `at_least` training photos. Raises UserError if there are none."""
        kept = np.flatnonzero((self.train.labels_NA == YES).sum(0) >= at_least)
        if not len(kept):
            raise UserError(f"no attribute word has {at_least} training photos: give a lower --min-count")
        if len(kept) == len(self.words):
            return self
        train, val = (replace(split, labels_NA=split.labels_NA[:, kept]) for split in (self.train, self.val))
        return LabelledSplits(
            train, val, [self.words[column] for column in kept], [self.types[column] for column in kept]
        )


def labelled_products(catalogs: Sequence[Catalog], at_least: int) -> LabelledSplits:
    """Products with a picture and labels, and the words of at least `at_least` training products.

    Raises UserError if there is no such word, or if a split has no such product.
    """
    root = catalogs[0].root
    labels = {
        (catalog.category, name): lists for catalog in catalogs for name, lists in catalog.labels.items()
    }
    paths = {(catalog.category, name): path for catalog in catalogs for name, path in catalog.images.items()}
    asked = {
        split: [(catalog.category, name) for catalog in catalogs for name in catalog.ids(split)]
        for split in ("train", "val")
    }
    words = label_vocabulary(labels, asked["train"], at_least)
    if not words:
        raise UserError(
            f"no attribute word has {at_least} training products in {root}: "
            "add attributes/asin2attr.*.json, or give a lower --min-count"
        )

    def labelled(split: str) -> LabeledPhotos:
        usable = [key for key in asked[split] if key in paths and key in labels]
        if not usable:
            raise UserError(
                f"no {split} product in {root} has both a picture in images/ and attribute labels"
            )
        labels_NA = label_matrix(labels, usable, words).astype(np.int8)
        return LabeledPhotos([Photo(paths[key]) for key in usable], labels_NA, len(asked[split]))

    return LabelledSplits(labelled("train"), labelled("val"), words, types_of(words, labels, asked["train"]))
