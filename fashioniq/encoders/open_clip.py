"""Models of open_clip, such as FashionCLIP 2 or Marqo's FashionSigLIP. Needs the package open_clip_torch."""

import os
from collections.abc import Sequence
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from fashioniq.encoders.identity import Identity
from fashioniq.encoders.protocol import (
    TEXTS,
    Encoder,
    check_finite,
    digest_of,
    fingerprint,
    in_batches,
    unit,
)


class OpenCLIP(Encoder):
    """A model with its tokenizer and its transform of pictures."""

    def __init__(
        self, kind: str, model: Any, tokenizer: Any, transform: Any, device: torch.device | str
    ) -> None:
        self._model = model.eval().requires_grad_(False).to(device)
        self._tokenizer, self._transform, self._device = tokenizer, transform, device
        self.size = int(self._model.encode_text(tokenizer([""]).to(device)).shape[1])
        height = model.visual.image_size
        self.identity = Identity(
            encoder=kind,
            weights=fingerprint([model.visual]),
            image_size=height[0] if isinstance(height, tuple) else height,
            dimensions=self.size,
            preprocessing=digest_of(str(transform)),
        )

    def texts(self, texts: Sequence[str]) -> Tensor:
        """Encode texts, N×D."""
        return in_batches(self._embed_texts, texts, TEXTS, self.size)

    @torch.inference_mode()
    def _embed_texts(self, texts: Sequence[str]) -> Tensor:
        return unit(self._model.encode_text(self._tokenizer(list(texts)).to(self._device)))

    @torch.inference_mode()
    def images(self, pictures: Sequence[Image.Image]) -> Tensor:
        """Encode RGB pictures, N×D."""
        if not pictures:
            return torch.empty(0, self.size)
        pixels_BCHW = torch.stack([self._transform(picture) for picture in pictures])
        return unit(self._model.encode_image(pixels_BCHW.to(self._device)))


def load(name: str, kind: str, device: torch.device | str) -> OpenCLIP:
    """Load a model from a folder or the hub. Raises ImportError without open_clip, and other exceptions."""
    import open_clip

    address = f"local-dir:{name}" if os.path.isdir(name) else f"hf-hub:{name}"
    model, transform = open_clip.create_model_from_pretrained(address)
    check_finite(model)
    return OpenCLIP(kind, model, open_clip.get_tokenizer(address), transform, device)
