"""An encoder of pictures and texts: mean colors, and words by their letters."""

from collections.abc import Sequence

import numpy as np
import torch
from PIL.Image import Image
from torch import Tensor

from fashioniq.data.parts import PartInputs
from fashioniq.encoders.identity import Identity
from fashioniq.encoders.protocol import Encoder, unit


class Letters(Encoder):
    size = 16

    def __init__(self, inputs: PartInputs) -> None:
        self.identity = Identity(
            encoder=f"letters{inputs.argument}", weights="none", image_size=None, dimensions=self.size
        )

    def images(self, pictures: Sequence[Image]) -> Tensor:
        found = [
            np.asarray(picture.convert("RGB").resize((4, 4)), np.float32).reshape(-1)[: self.size]
            for picture in pictures
        ]
        return unit(torch.from_numpy(np.array(found, np.float32).reshape(-1, self.size)) + 1)

    def texts(self, texts: Sequence[str]) -> Tensor:
        counts = [
            [1 + sum(ord(one) % self.size == n for one in text) for n in range(self.size)] for text in texts
        ]
        return unit(torch.tensor(counts, dtype=torch.float32).view(-1, self.size))
