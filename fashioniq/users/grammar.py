"""Speaker of the drawn sample's own grammar, for any two of its garments."""

import random
from collections.abc import Sequence

from fashioniq.data.parts import PartInputs
from fashioniq.files import UserError
from fashioniq.sample import garments_of
from fashioniq.sample.garments import Garment
from fashioniq.sample.grammar import two_captions
from fashioniq.users.describing import DescribingUser


class GarmentSpeaker:
    """Describes differences between garments of the drawn sample, in the order of the gallery."""

    def __init__(self, garments: Sequence[Garment]) -> None:
        self._garments = garments

    def describe(self, target: int, candidate: int, chance: random.Random) -> str:
        """Return a caption by one of the sample's speakers, like those of its captioned pairs."""
        return two_captions(self._garments[target], self._garments[candidate], chance)[0]


def grammar(inputs: PartInputs) -> DescribingUser:
    """The user "grammar". Raises UserError if the catalog is not a drawn sample."""
    if (catalog := inputs.catalog) is None:
        raise UserError("--user grammar needs a catalog; give --category (and --data)")
    try:
        garments = garments_of(catalog)
    except UserError as error:
        raise UserError(f"--user grammar: {error}") from error
    speaker = GarmentSpeaker([garments[name] for name in inputs.ids])
    return DescribingUser(speaker, inputs.seed, captions=catalog.captions_origin)
