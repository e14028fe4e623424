"""Pictures that are copies of one another: the same one, resized or compressed again. Without torch: worker processes begin at once."""

from pathlib import Path
from typing import NamedTuple

import imagehash
import numpy as np
from PIL import Image

from fashioniq.data.images import load_image

# A copy of half the size, or saved again in quality 50, is at most 4 bits and 0.9 levels of colour away (800 shop photos, 224 pixels).
# The hash sees no colour and little detail: of 1,175 pairs of such photos within 4 bits 1,086 are other products in the same pose.
# Compared by colour too, other products are no nearer than 2.0 levels, drawn garments 1.9.
MOST_BITS = 4  # of 64
MOST_COLOUR = 1.2  # mean difference of the colour levels, which go to 255
_SIDE = 8  # of the thumbnail whose colours are compared


class Look(NamedTuple):
    """What a picture looks like from afar: 64 bits of its structure, and the colours of a thumbnail, uint8, D."""

    hash: np.uint64
    colours_D: np.ndarray


def look_of(path: Path) -> Look:
    """The look of a picture: ImageHash's phash, and an 8×8 thumbnail. Raises UnreadableImage."""
    image = load_image(path)
    bits = np.packbits(imagehash.phash(image).hash)
    thumbnail = image.resize((_SIDE, _SIDE), Image.Resampling.LANCZOS)
    return Look(np.uint64(int.from_bytes(bits.tobytes(), "big")), np.asarray(thumbnail).reshape(-1))


def copies(looks: list[Look]) -> list[list[int]]:
    """The groups of pictures that look the same, two or more each, as positions; a copy of a copy is of the group.

    Every picture is compared with those that have no group yet, all at once: memory grows with N, not with N².
    """
    hashes_N = np.array([look.hash for look in looks], dtype=np.uint64)
    colours_ND = np.array([look.colours_D for look in looks], dtype=np.int16)
    groups, left = [], np.arange(len(looks))
    while len(left):
        group, left = [int(left[0])], left[1:]
        for place in group:  # which grows meanwhile
            near = np.bitwise_count(hashes_N[left] ^ hashes_N[place]) <= MOST_BITS
            near[near] = np.abs(colours_ND[left[near]] - colours_ND[place]).mean(1) <= MOST_COLOUR
            group += left[near].tolist()
            left = left[~near]
        if len(group) > 1:
            groups.append(sorted(group))
    return groups
