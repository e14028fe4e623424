"""Features of pictures that are no products, by the encoder of a feature store."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from fashioniq.data.images import to_square
from fashioniq.encoders.timm import Encoding
from fashioniq.features.store import FeatureStore
from fashioniq.files import UserError, checksum
from fashioniq.trained import load_predictor, pick_device

BATCH = 64  # pictures


class PictureFeatures:
    """Features of pictures, computed like those of the products in `store`, and their attribute logits.

    Raises UserError unless the features of the store were computed by the run of train-attributes `predictor`.
    """

    def __init__(self, store: FeatureStore, predictor: Path, device: str = "auto") -> None:
        model, about = load_predictor(predictor)
        if store.facts.weights != checksum(predictor / "weights.safetensors"):
            raise UserError(
                f"the features in {store.root} were not computed by {predictor}; extract them with --predictor "
                f"{predictor}"
            )
        self.words, self._size, self._device = about.attribute_words, about.image_size, pick_device(device)
        self._head = model.head
        bfloat16 = store.facts.precision == "bfloat16"
        self._encode = Encoding(model, model.encoder, self._device, bfloat16)

    @torch.inference_mode()
    def __call__(self, pictures: Sequence[Image.Image]) -> Tensor:
        """Features, B×D float32, on the device."""
        squares = [to_square(picture.convert("RGB"), self._size) for picture in pictures]
        parts = [self._encode(squares[start : start + BATCH])[0] for start in range(0, len(squares), BATCH)]
        return torch.cat(parts or [self._encode([])[0]]).float()

    @torch.inference_mode()
    def chances(self, features_BD: Tensor) -> np.ndarray:
        """Probabilities of the attribute words, B×A."""
        return np.asarray(self._head(features_BD).sigmoid().double().cpu().numpy())
