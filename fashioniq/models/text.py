"""Dialog encoders of the general protocol: CLIP and BLIP (image–text retrieval), whose texts and images share one space.

They come through `transformers`, by a folder or a name of the hub. Vectors are of unit length, so that Euclidean distance ranks as cosine does.
"""

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from fashioniq.data.dialogues import JOINED
from fashioniq.models.retriever import Turn


class TextEncoder(Protocol):
    """Texts → vectors of unit length, N×`size`; what is longer than `limit` tokens is cut."""

    size: int
    limit: int

    def encode(self, texts: list[str]) -> Tensor: ...

    def lengths(self, texts: list[str]) -> list[int]:
        """How many tokens each text has before it is cut."""
        ...


class ImageEncoder(Protocol):
    """RGB images → vectors of unit length, N×`size`."""

    size: int

    def encode_images(self, images: Sequence[Image.Image]) -> Tensor: ...

    def fingerprint(self) -> str:
        """What identifies the weights that images go through."""
        ...
