"""Detection of duplicate pictures: the same picture, resized or compressed again.

This module does not import torch, so that worker processes start quickly.
"""

from pathlib import Path
from typing import NamedTuple

import imagehash
import numpy as np
from PIL import Image

from fashioniq.data.images import load_image

# Measured on 800 shop photos of 224 pixels: copies of half the size, or saved again with JPEG quality 50,
# differ by at most 4 bits and 0.9 colour levels. The hash ignores colour and most detail: of 1,175 pairs
# within 4 bits, 1,086 show different products in the same pose. The colours of different products differ by
# at least 2.0 levels, and those of drawn garments by at least 1.9.
MOST_BITS = 4  # of 64
MOST_COLOUR = 1.2  # mean absolute difference of colour levels, from 0 to 255
_SIDE = 8  # pixels: side of the thumbnail for the colour comparison


class Look(NamedTuple):
    """Fingerprint of a picture: a perceptual hash of 64 bits, and the colours of a thumbnail, uint8, D."""

    hash: np.uint64
    colours_D: np.ndarray


def look_of(path: Path) -> Look:
    """Fingerprint of a picture: phash from ImageHash, and an 8×8 thumbnail. Raises UnreadableImage."""
    image = load_image(path)
    bits = np.packbits(imagehash.phash(image).hash)
    thumbnail = image.resize((_SIDE, _SIDE), Image.Resampling.LANCZOS)
    return Look(np.uint64(int.from_bytes(bits.tobytes(), "big")), np.asarray(thumbnail).reshape(-1))


def copies(looks: list[Look]) -> list[list[int]]:
    """Groups of two or more duplicate pictures, as positions. A copy of a copy belongs to the same group.

    Each picture is compared with all ungrouped pictures at once, so that memory grows with N, not N².
    """
    hashes_N = np.array([look.hash for look in looks], dtype=np.uint64)
    colours_ND = np.array([look.colours_D for look in looks], dtype=np.int16)
    groups, left = [], np.arange(len(looks))
    while len(left):
        group, left = [int(left[0])], left[1:]
        for position in group:  # the list grows during the loop
            near = np.bitwise_count(hashes_N[left] ^ hashes_N[position]) <= MOST_BITS
            near[near] = np.abs(colours_ND[left[near]] - colours_ND[position]).mean(1) <= MOST_COLOUR
            group += left[near].tolist()
            left = left[~near]
        if len(group) > 1:
            groups.append(sorted(group))
    return groups
