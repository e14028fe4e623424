"""Photos of garments that fill a part of them. Without torch, as what worker processes import must be."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from fashioniq.data.images import MIN_SIDE, load_image, to_square


class Photo(NamedTuple):
    """A picture's file and, where it is known, the garment's box in pixels: left, top, right, bottom."""

    path: Path
    box: tuple[int, int, int, int] | None = None


def load_photo(photo: Photo) -> tuple[Image.Image, bool]:
    """The picture, cropped to its box, and whether the box was of use: one that leaves no 8 pixels of the picture is not.

    Raises UnreadableImage.
    """
    image = load_image(photo.path)
    if photo.box is None:
        return image, True
    left, top, right, bottom = photo.box
    box = max(0, left), max(0, top), min(image.width, right), min(image.height, bottom)
    possible = box[2] - box[0] >= MIN_SIDE and box[3] - box[1] >= MIN_SIDE
    return (image.crop(box) if possible else image), possible


def box_is_possible(photo: Photo) -> bool:
    """Whether the photo has no box that is of no use, known after reading it. Raises UnreadableImage."""
    return load_photo(photo)[1]


def square_of_photo(photo: Photo, size: int) -> tuple[np.ndarray, bool]:
    """The photo as uint8, 3×size×size, and whether its box could be used. Raises UnreadableImage."""
    image, possible = load_photo(photo)
    return to_square(image, size), possible
