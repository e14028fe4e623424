"""Photos with a garment in a part of the picture.

This module does not import torch, so that worker processes start quickly.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from fashioniq.data.images import MIN_SIDE, load_image, to_square


class Photo(NamedTuple):
    """A picture file and, if known, the bounding box of the garment in pixels: left, top, right, bottom."""

    path: Path
    box: tuple[int, int, int, int] | None = None


def load_photo(photo: Photo) -> tuple[Image.Image, bool]:
    """The picture cropped to its box, and whether the box was usable.

    A box with a side under MIN_SIDE pixels inside the picture is unusable; the picture is then not cropped.
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
    """Whether the photo has no box or a usable one; decodes the photo. Raises UnreadableImage."""
    return load_photo(photo)[1]


def square_of_photo(photo: Photo, size: int) -> tuple[np.ndarray, bool]:
    """The photo as uint8, 3×size×size, and whether its box was usable. Raises UnreadableImage."""
    image, possible = load_photo(photo)
    return to_square(image, size), possible
