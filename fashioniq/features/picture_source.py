"""Products with pictures, and the source of a feature store that reads and encodes their pictures."""

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fashioniq.data.catalog import Catalog
from fashioniq.data.images import AHEAD, PictureReader, UnreadableImage
from fashioniq.features.writer import Advance, StorePart
from fashioniq.files import UserError

AttributesOf = Callable[[Sequence[str]], np.ndarray]  # ids -> N×TOP
Read = Callable[[Path], np.ndarray]
Encode = Callable[
    [Sequence[np.ndarray]], tuple[Tensor, ...]
]  # vectors, attributes and perhaps token features


@dataclass
class FoundPictures:
    """Pictures of some products, and their texts where they have some."""

    category: str
    root: Path
    images: dict[str, Path]
    picture_failures: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    ids: Sequence[str] = ()

    def all_ids(self) -> list[str]:
        """Ids of all products."""
        return list(self.ids or self.texts or self.images)


Products = Catalog | FoundPictures  # input of an extraction: ids, picture files and reasons for missing ones


@dataclass(frozen=True)
class PictureSource:
    """An `Extract` that reads pictures in advance, across parts, while the network computes.

    Batches do not span parts.
    """

    catalog: Products
    read: Read
    workers: int
    encode: Encode
    batch_size: int
    attributes_of: AttributesOf | None

    def __call__(self, lists: Sequence[Sequence[str]], advance: Advance) -> Generator[StorePart, None, None]:
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

    def parts(self, lists: Sequence[Sequence[str]], advance: Advance) -> Generator[StorePart, None, None]:
        """Yield a Part for each list of ids, also if there are no pictures."""
        paths = self.catalog.images
        with PictureReader(self.read, self.workers, ahead=max(AHEAD, 2 * self.batch_size)) as reader:
            squares = reader(paths[name] for ids in lists for name in ids if name in paths)
            for ids in lists:
                yield self._part(ids, squares, advance)

    def _part(
        self, ids: Sequence[str], squares: Iterator[np.ndarray | UnreadableImage], advance: Advance
    ) -> StorePart:
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
        if batch or not made:
            made.append(self.encode(batch))
        advance(len(batch))
        features_ND, attributes_NA, *patches = (
            torch.cat(tensors).cpu().numpy() for tensors in zip(*made, strict=True)
        )
        return StorePart(
            encoded,
            features_ND,
            self.attributes_of(encoded) if self.attributes_of else attributes_NA,
            failures,
            *patches,
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
