"""What identifies the vectors of an encoder. This file does not import torch."""

import msgspec
from msgspec import UNSET, UnsetType


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

    def difference(self, other: "Identity") -> str | None:
        """Name of the first field in which two identities differ; fields that one of them leaves out do not count."""
        for key in Identity.__struct_fields__:
            own, its = getattr(self, key), getattr(other, key)
            if own != its and UNSET not in (own, its):
                return key
        return None
