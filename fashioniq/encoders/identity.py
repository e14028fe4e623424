"""What identifies the vectors of an encoder. This file does not import torch."""

import msgspec
from msgspec import UNSET, UnsetType

FROM_FILE = "vectors of "  # begins the name of an encoder whose vectors came in a file


class Identity(msgspec.Struct, kw_only=True):
    """Vectors are comparable if their identities are equal.

    `weights` is a SHA-256 of the weights that make the vectors, and `preprocessing` describes what happens to a
    picture or text before them; encoders whose name says so leave it out.
    """

    encoder: str
    weights: str
    image_size: int | None
    dimensions: int
    preprocessing: str | UnsetType = UNSET

    @property
    def of_words(self) -> bool:
        """Whether an encoder of texts alone made the vectors; those of a file are believed to be of pictures."""
        return self.image_size is None and not self.encoder.startswith(FROM_FILE)

    def difference(self, other: "Identity") -> str | None:
        """Name of the first field in which two identities differ; fields that one of them leaves out do not count."""
        for key in Identity.__struct_fields__:
            own, its = getattr(self, key), getattr(other, key)
            if own != its and UNSET not in (own, its):
                return key
        return None
