"""Features by a run of train-attributes, of the products of a store and of other pictures."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import Tensor, nn

from fashioniq.categories import canonical
from fashioniq.config import ExtractFeatures
from fashioniq.data.images import load_square, to_square
from fashioniq.encoders.identity import Identity
from fashioniq.encoders.timm import Encoding
from fashioniq.features.picture_source import PictureSource, Products
from fashioniq.features.pictures import contents_of
from fashioniq.features.store import Contents, FeatureStore
from fashioniq.files import UserError, checksum
from fashioniq.models.device import pick_device
from fashioniq.models.encoder import encoder_size
from fashioniq.runs import WEIGHTS, PredictorRun, read_run
from fashioniq.runs.trained import load_predictor

BATCH = 64  # pictures


class PictureFeatures:
    """Features of pictures, computed like those of the products in `store`, and their attribute logits.

    Raises UserError unless the features of the store were computed by the run of train-attributes `predictor`.
    """

    def __init__(self, store: FeatureStore, predictor: Path, device: str = "auto") -> None:
        model, about = load_predictor(predictor)
        _check_origin(store, predictor)
        self.words, self._size, self._device = about.attribute_words, about.image_size, pick_device(device)
        self._head = model.head
        self._encode = Encoding(model, model.encoder, self._device, store.facts.precision == "bfloat16")

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


def head_of(predictor: Path, store: FeatureStore) -> tuple[nn.Linear, list[str]]:
    """The layer of a run of train-attributes that gives the logits of its words from the features in a store.

    Raises UserError unless the run computed them.
    """
    words = read_run(predictor, PredictorRun).attribute_words
    _check_origin(store, predictor)
    weights = load_file(predictor / WEIGHTS)
    head = nn.Linear(weights["head.weight"].shape[1], len(words))
    head.load_state_dict({name: weights[f"head.{name}"] for name in ("weight", "bias")})
    return head.requires_grad_(False), words


def _check_origin(store: FeatureStore, predictor: Path) -> None:
    weights = predictor / WEIGHTS
    if not weights.is_file():
        raise UserError(f"expected {weights}, found none; train it again")
    if store.facts.weights != checksum(weights):
        raise UserError(
            f"the features in {store.root} were not computed by {predictor}; extract them with --predictor "
            f"{predictor}"
        )


def predicted_features(
    settings: ExtractFeatures, products: Products, run: Path, bfloat16: bool
) -> tuple[Contents, PictureSource]:
    """Vectors and attributes of products, as the source of a feature store.

    Raises UserError if the run cannot be loaded, or predicts attributes of another category.
    """
    model, known = load_predictor(run)
    if known.category not in ("all", canonical(products.category)):
        raise UserError(f"{run} predicts attributes of {known.category}, not of {products.category}")
    identity = Identity(
        encoder=known.encoder,
        weights=checksum(run / "weights.safetensors"),
        image_size=known.image_size,
        dimensions=encoder_size(model.encoder),
    )
    facts = contents_of(identity, known.attribute_words, "predicted")
    facts.precision = "bfloat16" if bfloat16 else "float32"
    encode = Encoding(model, model.encoder, pick_device(settings.device), bfloat16)
    read = partial(load_square, size=known.image_size)
    return facts, PictureSource(
        products, read, settings.workers, encode, settings.batch_size, attributes_of=None
    )
