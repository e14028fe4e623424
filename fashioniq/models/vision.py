"""Frozen vision encoders of `transformers`: one vector per picture, and its token features (ChatSearch, BLIP-2)."""

import hashlib
from collections.abc import Sequence
from typing import Any

import torch
from PIL import Image
from torch import Tensor


class VisionEncoder:
    """Vision half of CLIP or of a model like it."""

    def __init__(self, model: Any, processor: Any) -> None:
        vision = getattr(model, "vision_model", model)
        self._model, self._processor = vision.eval().requires_grad_(False), processor

    def to(self, device: torch.device | str) -> "VisionEncoder":
        """Move the model to a device, and return it."""
        self._model.to(device)
        return self

    @torch.inference_mode()
    def encode(self, images: Sequence[Image.Image]) -> tuple[Tensor, Tensor]:
        """Vectors R×F, and token features R×T×F of the layer before the last, as in BLIP-2."""
        pixels_BCHW = self._processor(images=list(images), return_tensors="pt")["pixel_values"]
        made = self._model(pixel_values=pixels_BCHW.to(self._model.device), output_hidden_states=True)
        return made.pooler_output.float().cpu(), made.hidden_states[-2].float().cpu()

    def fingerprint(self) -> str:
        """Hash of the weights."""
        digest = hashlib.sha256()
        for name, tensor in sorted(self._model.state_dict().items()):
            digest.update(name.encode() + tensor.detach().float().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()[:16]


def load_vision(name: str) -> VisionEncoder:
    """Load a vision encoder from a folder or the hub. Raises the exceptions of `transformers`."""
    from transformers import AutoImageProcessor, AutoModel

    processor = AutoImageProcessor.from_pretrained(name, backend="pil")
    return VisionEncoder(AutoModel.from_pretrained(name, use_safetensors=True), processor)
