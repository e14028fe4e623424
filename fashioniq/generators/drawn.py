"""Generator of adjustable quality, which draws garments as the drawn sample does.

It shows how good a generator would have to be: each attribute word of a prompt is drawn correctly with a
given probability; what is not said, and what goes wrong, is drawn at random.
"""

import random
import time
from collections.abc import Mapping, Sequence
from typing import Any

from fashioniq.categories import FILE_NAMES
from fashioniq.data.attributes import find_attributes
from fashioniq.data.parts import PartInputs
from fashioniq.files import UserError
from fashioniq.generators.pictures import Generated, PictureRequest
from fashioniq.sample.drawing import draw_garment
from fashioniq.sample.labels import garment_of, label_words

SIZE = 64  # pixels per side


class Drawn:
    """Draws garments of a category in SIZE×SIZE pixels; `quality` is the share of correct attributes."""

    def __init__(self, category: str, quality: float = 1.0) -> None:
        self.category, self.quality = category, quality
        self._words = label_words(category)
        self.identity: Mapping[str, Any] = {
            "backend": "drawn",
            "category": category,
            "quality": quality,
            "size": SIZE,
        }

    def generate(self, requests: Sequence[PictureRequest]) -> list[Generated]:
        """Draw one garment for each request."""
        return [self._draw(request) for request in requests]

    def _draw(self, request: PictureRequest) -> Generated:
        began, rng = time.perf_counter(), random.Random(f"{request.seed} {request.prompt}")
        words = [word for words in find_attributes(request.prompt, self._words) for word in words]
        garment = garment_of(words, self.category, rng, self.quality)
        picture = draw_garment(garment, SIZE, rng)
        seconds = time.perf_counter() - began
        return Generated(picture, "ok", request.seed, " ".join(words), seconds=seconds)


def of_share(inputs: PartInputs) -> Drawn:
    """The generator drawn:SHARE, for a category of the drawn sample."""
    try:
        quality = float(inputs.argument)
    except ValueError:
        quality = -1.0
    given = f"drawn:{inputs.argument}"
    if not 0 <= quality <= 1:
        raise UserError(f"expected drawn:SHARE with a share from 0 to 1, found {given}; correct --generator")
    if inputs.category not in FILE_NAMES:
        raise UserError(
            f"--generator {given} needs a --category of the drawn sample: {', '.join(FILE_NAMES)}"
        )
    return Drawn(inputs.category, quality)
