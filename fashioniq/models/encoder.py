"""Image → feature: timm's networks up to the last average pooling (EfficientNet-b7: 2560 numbers)."""

from collections.abc import Mapping, Sequence
from typing import Any

import timm
import torch
from efficientnet_pytorch import EfficientNet
from torch import Tensor, nn
from torchvision.transforms import v2


def create_encoder(name: str, pretrained: bool = False) -> nn.Module:
    """A timm network without its classifier. `efficientnet-b7`, as the paper says it, is timm's `tf_efficientnet_b7`.

    Raises ValueError for a name that timm does not know; whatever the download raises where `pretrained` cannot be had.
    """
    of_timm = "tf_efficientnet_" + name.removeprefix("efficientnet-") if name.startswith("efficientnet-") else name
    if not timm.is_model(of_timm):
        raise ValueError(f"there is no network {name!r}")
    return timm.create_model(of_timm, pretrained=pretrained, num_classes=0)


def encoder_size(encoder: nn.Module) -> int:
    """The length of the feature vector."""
    return int(encoder.num_features)  # type: ignore[arg-type]


def encoder_mean_std(encoder: nn.Module) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The mean and deviation of pixel values that the network's pretrained weights expect."""
    config: Any = encoder.pretrained_cfg
    return tuple(config["mean"]), tuple(config["std"])


def normalise(mean: Sequence[float], std: Sequence[float]) -> v2.Transform:
    """From uint8 pixels to the floats that a network expects."""
    return v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Normalize(list(mean), list(std))])


def convert_efficientnet_pytorch(weights: Mapping[str, Tensor], encoder: nn.Module) -> dict[str, Tensor]:
    """The tensors of an efficientnet_pytorch checkpoint under the names of timm's `tf_efficientnet_*`.

    Both networks list the same tensors in the same order, so position decides, whatever the order of the file; the
    classifier is left out. Raises ValueError where a name is missing or a shape does not fit: the checkpoint is of another size.
    """
    config: Any = encoder.pretrained_cfg
    size = config["architecture"].removeprefix("tf_efficientnet_")
    theirs = EfficientNet.from_name(f"efficientnet-{size}", image_size=None).state_dict()
    names = [name for name in theirs if not name.startswith("_fc.")]
    converted = {}
    for name, (own_name, own) in zip(names, encoder.state_dict().items(), strict=True):
        if name not in weights or weights[name].shape != own.shape:
            found = "missing" if name not in weights else f"of shape {tuple(weights[name].shape)}"
            raise ValueError(f"{name} is {found}, {tuple(own.shape)} was expected")
        converted[own_name] = weights[name]
    return converted
