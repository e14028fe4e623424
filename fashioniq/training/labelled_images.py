"""Photos with attribute labels as examples of the attribute predictor and of the picture generator."""

import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from rich.progress import track
from torch import Tensor
from torch.utils.data import Dataset

from fashioniq.data.images import PictureReader, UnreadableImage
from fashioniq.data.labelled import LabeledPhotos
from fashioniq.data.photos import Photo, box_is_possible, square_of_photo
from fashioniq.files import UserError

KEPT = 2**29  # bytes: largest set of decoded photos that a split keeps in memory


class LabelledImages(Dataset[tuple[Tensor, Tensor]]):
    """Photos as uint8 squares, 3×size×size, with rows of int8 labels.

    Every photo is decoded once at the start. Photos that cannot be read are skipped, with the reason in
    `failures`. `odd_boxes` counts photos whose box lies outside the picture; they are used uncropped. If
    all squares take at most `KEPT` bytes, they stay in memory (`squares_N3SS`); otherwise photos are
    decoded again in every epoch.
    """

    def __init__(self, photos: Sequence[Photo], labels_NA: np.ndarray, size: int, workers: int = 0) -> None:
        self.size = size
        keep = len(photos) * 3 * size * size <= KEPT
        with PictureReader(
            partial(square_of_photo, size=size) if keep else box_is_possible, workers
        ) as reader:
            results = reader(photos)
            opened: list[Any] = list(
                track(results, "opening photos", len(photos), disable=not sys.stderr.isatty())
            )
        kept = [place for place, result in enumerate(opened) if not isinstance(result, UnreadableImage)]
        self.failures = {
            str(photo.path): str(result)
            for photo, result in zip(photos, opened, strict=True)
            if isinstance(result, UnreadableImage)
        }
        self.odd_boxes = sum(not (opened[place][1] if keep else opened[place]) for place in kept)
        self.squares_N3SS = (
            torch.from_numpy(np.stack([opened[place][0] for place in kept])) if keep and kept else None
        )
        self.photos = [photos[place] for place in kept]
        self.labels_NA = labels_NA[kept] if self.failures else labels_NA

    @classmethod
    def of(cls, split: str, data: LabeledPhotos, size: int, workers: int, what: str) -> "LabelledImages":
        """The photos of a split; prints how many have `what`, and are readable. Raises UserError if none is."""
        images = cls(data.photos, data.labels_NA, size, workers)
        print(f"{split}: {len(images)} of {data.asked} have {what} and a readable picture", flush=True)
        for path, reason in list(images.failures.items())[:3]:
            print(f"  left out: {path}: {reason}")
        if len(images.failures) > 3:
            print(f"  left out: {len(images.failures) - 3} more")
        if images.odd_boxes:
            print(f"  {images.odd_boxes} have a box outside the picture; the whole picture is used")
        if not len(images):
            path, reason = next(iter(images.failures.items()))
            raise UserError(
                f"no {split} picture can be read, such as {path}: {reason}; check the folder of the pictures"
            )
        return images

    def __len__(self) -> int:
        return len(self.photos)

    def __getitem__(self, place: int) -> tuple[Tensor, Tensor]:
        labels_A = torch.from_numpy(self.labels_NA[place])
        if self.squares_N3SS is not None:
            return self.squares_N3SS[place], labels_A
        try:
            square, _ = square_of_photo(self.photos[place], self.size)
        except UnreadableImage as error:
            raise UnreadableImage(f"{self.photos[place].path}: {error}") from error
        return torch.from_numpy(square), labels_A
