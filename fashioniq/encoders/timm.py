"""Networks of timm: pictures, padded to squares."""

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import timm
import torch
from PIL import Image
from torch import Tensor, nn

from fashioniq import plugins
from fashioniq.data.attributes import TOP
from fashioniq.data.images import to_square
from fashioniq.encoders.identity import Identity
from fashioniq.encoders.protocol import Encoder, check_finite, fingerprint, unit
from fashioniq.encoders.weights import fitted, read_weights
from fashioniq.files import UserError, checksum, why
from fashioniq.hub import use_cache_if_offline
from fashioniq.models.attributes import AttributePredictor, top_attributes
from fashioniq.models.encoder import (
    InFloat32,
    captured,
    convert_efficientnet_pytorch,
    create_encoder,
    encoder_mean_std,
    encoder_size,
    normalise,
    prepare_inference,
)

Encoded = Tensor | tuple[Tensor, Tensor]  # features B×D, and of an AttributePredictor logits B×A


def load_network(name: str, weights: str, image_size: int) -> tuple[nn.Module, str]:
    """Network without its classifier, and an identifier of its weights.

    `weights` is imagenet, none, a file of weights, or a Python package with one. Tensors of another layout are matched
    by order and shape. Raises UserError if the network is unknown or does not support the image size, if the weights
    cannot be downloaded, or if the file does not match the network.
    """
    try:
        torch.manual_seed(0)  # random weights are the same in every run
        encoder = create_encoder(name)
        _try_size(encoder, name, image_size)
        if weights == "none":
            return encoder, "random"
    except ValueError as error:
        raise UserError(
            f"{error}: {_near(name)}give an EfficientNet such as efficientnet-b7, or one of timm.list_models()"
        ) from error
    if weights == "imagenet":
        use_cache_if_offline()
        try:
            return create_encoder(name, pretrained=True), "imagenet"
        except Exception as error:  # the hub client raises many kinds of errors
            page = encoder.pretrained_cfg.get("hf_hub_id") or name  # type: ignore[union-attr, operator]
            raise UserError(
                f"the ImageNet weights of {name} could not be downloaded ({why(error)}); on another machine, download "
                f"model.safetensors from https://huggingface.co/{page}, and give that file with --weights"
            ) from error
    path = _weights_file(weights)
    tensors = read_weights(path)
    try:
        head = str(encoder.pretrained_cfg["classifier"])  # type: ignore[index]
        if "_conv_stem.weight" in tensors:
            tensors = convert_efficientnet_pytorch(tensors, encoder)
        encoder.load_state_dict(fitted(tensors, encoder.state_dict(), head), strict=False)
        check_finite(encoder)
    except ValueError as error:
        raise UserError(f"{path} does not contain weights of {name}: {why(error)}") from error
    return encoder, checksum(path)


def _near(name: str) -> str:
    """Question after the known name that is most like one that timm does not have; empty without one."""
    known = [*plugins.names("encoders"), *timm.list_models()]
    found = [] if timm.is_model(name) else get_close_matches(name, known, 1, 0.75)
    return f"did you mean {found[0]}? " if found else ""


def _weights_file(weights: str) -> Path:
    """The file, or that of a Python package. Raises UserError if there is none."""
    path = Path(weights)
    if not path.is_file() and weights.isidentifier() and (spec := find_spec(weights)) and spec.origin:
        files = [one for one in Path(spec.origin).parent.rglob("*") if one.suffix in (".pth", ".safetensors")]
        path = files[0] if len(files) == 1 else path
    if not path.is_file():
        raise UserError(
            f"there is no file of weights {path}: --weights expects imagenet, none, a file, or a Python package with "
            "one"
        )
    return path


@torch.inference_mode()
def _try_size(encoder: nn.Module, name: str, image_size: int) -> None:
    """Raise UserError if the network does not support the image size, as for many vision transformers."""
    try:
        encoder.eval()(torch.zeros(1, 3, image_size, image_size))
    except (AssertionError, RuntimeError) as error:
        raise UserError(
            f"{name} does not support pictures of {image_size} pixels ({why(error)}): give another --image-size"
        ) from error
    finally:
        encoder.train()


class Encoding:
    """Encoder of square pictures: features and, with an AttributePredictor, top attributes."""

    def __init__(self, model: nn.Module, encoder: nn.Module, device: torch.device, bfloat16: bool) -> None:
        prepare_inference(encoder)
        if isinstance(model, AttributePredictor):
            model.head = InFloat32(model.head)  # type: ignore[assignment]  # bfloat16 scores would often be equal
        self._model = model.eval().to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._prepare, self._size = normalise(*encoder_mean_std(encoder)), encoder_size(encoder)
        self._device, self._bfloat16 = device, bfloat16
        self._run: Callable[[Tensor], Encoded] = self._forward
        self._to_capture = device.type == "cuda"

    @torch.inference_mode()
    def __call__(self, images: Sequence[np.ndarray]) -> tuple[Tensor, Tensor]:
        """Features B×D, in float16 if they were computed in bfloat16, and attributes B×TOP (zeros without a predictor).

        On a GPU, the results are computed asynchronously.
        """
        dtype = torch.float16 if self._bfloat16 else torch.float32
        if not images:
            return torch.empty(0, self._size, dtype=dtype, device=self._device), torch.empty(
                0, TOP, dtype=torch.int64, device=self._device
            )
        pixels_BCHW = torch.from_numpy(np.stack(images))
        if self._device.type == "cuda":
            pixels_BCHW = pixels_BCHW.pin_memory()
        images_BCHW = self._prepare(pixels_BCHW.to(self._device, non_blocking=True)).to(
            memory_format=torch.channels_last
        )
        if self._to_capture:
            self._run, self._to_capture = captured(self._forward, images_BCHW), False
        made = self._run(images_BCHW)
        features_BD, logits_BA = (
            made if isinstance(made, tuple) else (made, torch.empty(len(images), 0, device=self._device))
        )
        # a copy: the graph of a GPU writes the next batch to the same memory
        return features_BD.to(dtype, copy=True), top_attributes(logits_BA, TOP)

    def _forward(self, images_BCHW: Tensor) -> Encoded:
        full_float32 = torch.backends.cudnn.flags(enabled=True, allow_tf32=False)  # TF32 rounds like float16
        with full_float32, torch.autocast(self._device.type, torch.bfloat16, enabled=self._bfloat16):
            made: Encoded = self._model(images_BCHW)
            return made


class TimmEncoder(Encoder):
    """A network as Encoder. A feature store keeps its vectors with their length, as `squares` computes them."""

    def __init__(
        self, name: str, weights: str, image_size: int, device: torch.device | str, bfloat16: bool
    ) -> None:
        network, identifier = load_network(name, weights, image_size)
        if identifier == "imagenet":
            identifier = fingerprint([network])
        self.size = encoder_size(network)
        self.identity = Identity(
            encoder=name, weights=identifier, image_size=image_size, dimensions=self.size
        )
        self.squares = Encoding(network, network, torch.device(device), bfloat16)

    def images(self, pictures: Sequence[Image.Image]) -> Tensor:
        """Encode pictures of any size, N×D."""
        side = self.identity.image_size or 0
        return unit(self.squares([to_square(picture, side) for picture in pictures])[0].float())
