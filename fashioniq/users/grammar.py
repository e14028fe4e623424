"""Speaker of the drawn sample's own grammar, for any two of its garments."""

import random
from collections.abc import Sequence

from fashioniq.sample.garments import Garment
from fashioniq.sample.grammar import two_captions


class GarmentSpeaker:
    """Describes differences between garments of the drawn sample, in the order of the gallery."""

    def __init__(self, garments: Sequence[Garment]) -> None:
        self._garments = garments

    def describe(self, target: int, candidate: int, chance: random.Random) -> str:
        """Return a caption by one of the sample's speakers, like those of its captioned pairs."""
        return two_captions(self._garments[target], self._garments[candidate], chance)[0]
